"""Several runs in one graph, as PNG and HTML: mean and spread over sessions, a fixed colour per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from plotly.offline import get_plotlyjs

from rewardlab.boards.benchmark import target_of, targets
from rewardlab.experiment.metrics import moving_average
from rewardlab.experiment.record import (
    RecordError,
    RunFolder,
    read_columns,
    write_bytes_atomic,
    write_json,
    write_text_atomic,
)
from rewardlab.plots.curves import GRID, INK, MOST_POINTS, QUIET, Curves, compact, numbers, png, style

# one colour per algorithm in every graph, told apart by colour-blind readers as well as eight can be
COLORS = {
    "REINFORCE": "#999999",
    "SARSA": "#7F5B2E",
    "DQN": "#56B4E9",
    "DDQN+PER": "#0072B2",
    "A2C": "#E69F00",
    "PPO": "#009E73",
    "SAC": "#D55E00",
    "CrossQ": "#CC79A7",
}
OTHERS = ("#000000", "#6A3D9A", "#8DA0CB", "#B2DF8A", "#F0E442")


@dataclass(frozen=True)
class Entry:
    """A run in a comparison."""

    folder: str
    algorithm: str
    env: str
    max_frame: int
    curves: Curves
    scores: tuple[float, ...]  # total_reward_ma of each session

    @property
    def score(self) -> float:
        """The mean over sessions."""
        return float(np.mean(self.scores))


def read_entry(path: Path) -> Entry:
    """A run of ours or of SLM-Lab's, from its tables."""
    run = RunFolder.open(path)
    if run.is_search or any(run.path.glob("info/*_experiment_df.csv")):  # the second is SLM-Lab's mark as well
        raise RecordError(f"{path} is a search: compare runs of train.")
    spec = run.read_spec()
    tables = [read_columns(run.session_df_path(s, "train")) for s in run.sessions()]
    tables = [table for table in tables if len(table["frame"])]
    if not tables:
        raise RecordError(f"{path} has nothing to compare: it holds no training table with rows.")
    rows = min(len(table["frame"]) for table in tables)
    smooth = [moving_average(np.asarray(table["total_reward"], np.float64)) for table in tables]
    frames = np.asarray(tables[0]["frame"][:rows], np.float64)
    label = algorithm_of(spec, run.spec_name)
    curves = Curves(frames, np.array([s[:rows] for s in smooth]), run.spec_name, "", label)
    max_frame = int(float(spec["env"].get("max_frame", frames[-1])))
    scores = tuple(float(s[-1]) for s in smooth)
    return Entry(path.name, label, str(spec["env"]["name"]), max_frame, curves, scores)


def algorithm_of(spec: dict[str, Any], spec_name: str) -> str:
    """The board's label for what ran, or the algorithm's own name."""
    target = target_of(spec["env"]["name"], spec_name)
    if target is not None:
        return target.algorithm
    agent = spec.get("agent", {})
    return str((agent.get("algorithm") or {}).get("name") or agent.get("name") or spec_name)


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """As the board lists algorithms; others after them, by name."""
    known = list(dict.fromkeys(t.algorithm for t in targets()))
    return sorted(
        entries, key=lambda e: (known.index(e.algorithm) if e.algorithm in known else len(known), e.algorithm)
    )


def colors_of(entries: Sequence[Entry]) -> list[str]:
    """A colour for each run: its algorithm's, and another one for the second run of an algorithm."""
    spare = list(OTHERS)
    taken: list[str] = []
    for entry in entries:
        own = COLORS.get(entry.algorithm)
        color = own if own is not None and own not in taken else (spare.pop(0) if spare else own or QUIET)
        taken.append(color)
    return taken


def draw(title: str, paths: Sequence[Path], target: Path, interactive: bool = True) -> list[Path]:
    """The comparison as `target`.png, .json that says which folders are in it, and .html where it is `interactive`."""
    entries = in_order([read_entry(path) for path in paths])
    names = [e.algorithm for e in entries]
    labels = [e.algorithm if names.count(e.algorithm) == 1 else e.curves.heading for e in entries]
    if len(set(labels)) < len(labels):
        labels = [e.folder for e in entries]
    frames = sorted({e.max_frame for e in entries})
    told = [{"folder": e.folder, "algorithm": e.algorithm, "env": e.env, "score": e.score} for e in entries]
    target.parent.mkdir(parents=True, exist_ok=True)
    files = [target.with_name(target.name + ending) for ending in (".png", ".json", ".html")[: 2 + interactive]]
    colors = colors_of(entries)
    write_bytes_atomic(files[0], png(_figure(title, entries, labels, colors)))
    manifest = {"title": title, "folders": [e.folder for e in entries], "max_frame": frames, "runs": told}
    write_json(files[1], manifest)
    if interactive:
        write_text_atomic(files[2], _html(title, entries, labels, colors, target.name))
        script = target.with_name("plotly.min.js")
        if not script.exists():
            write_text_atomic(script, get_plotlyjs())
    return files


def _figure(title: str, entries: Sequence[Entry], labels: Sequence[str], colors: Sequence[str]) -> Figure:
    figure = Figure(figsize=(8, 4.8), dpi=130, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    style(axes)
    for entry, label, color in zip(entries, labels, colors, strict=True):
        mean, deviation, frames = entry.curves.mean, entry.curves.deviation, entry.curves.frames
        axes.fill_between(frames, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)
        axes.plot(frames, mean, color=color, linewidth=1.8, label=f"{label}  {entry.score:.2f}")
    axes.yaxis.set_major_formatter(FuncFormatter(compact))
    axes.set_xlabel("frames", color=INK)
    axes.set_ylabel("mean return, moving average", color=INK)
    axes.set_title(title, loc="left", color=INK, fontsize=13, fontweight="bold")
    figure.legend(
        loc="outside right center", frameon=False, fontsize=9, labelcolor=INK, title="score", title_fontsize=9
    )
    return figure


def _html(title: str, entries: Sequence[Entry], labels: Sequence[str], colors: Sequence[str], identity: str) -> str:
    traces = []
    for entry, label, color in zip(entries, labels, colors, strict=True):
        rows = np.unique(np.linspace(0, len(entry.curves.frames) - 1, MOST_POINTS).astype(int))
        x = entry.curves.frames[rows].tolist()
        mean, deviation = entry.curves.mean[rows], entry.curves.deviation[rows]
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        edge["legendgroup"] = entry.folder
        traces += [go.Scatter(x=x, y=numbers(mean - deviation), **edge)]
        fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.15)"}
        traces += [go.Scatter(x=x, y=numbers(mean + deviation), **edge, **fill)]
        line = {"color": color, "width": 2.5}
        name = f"{label} {entry.score:.2f}"
        traces += [go.Scatter(x=x, y=numbers(mean), mode="lines", name=name, line=line, legendgroup=entry.folder)]
    figure = go.Figure(traces)
    figure.update_layout(
        template="simple_white",
        title={"text": f"<b>{title}</b>", "x": 0.02},
        xaxis={"title": "frames", "tickformat": "~s"},
        yaxis={"title": "mean return, moving average", "showgrid": True, "gridcolor": GRID},
        hovermode="x unified",
        font={"color": INK},
    )
    return str(figure.to_html(include_plotlyjs="directory", div_id=identity, config={"displaylogo": False}))
