"""Learning curves of a finished trial, as PNG and as interactive HTML: `python -m rewardlab.plots.curves DIR`."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from plotly.offline import get_plotlyjs

from rewardlab.experiment.metrics import WINDOW, moving_average
from rewardlab.experiment.record import RecordError, RunFolder, read_columns, write_bytes_atomic, write_text_atomic

# Okabe and Ito's palette, which colour-blind readers can tell apart
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, "#CC79A7", "#56B4E9", "#000000")
INK, QUIET, GRID = "#222222", "#6B6B6B", "#E6E6E6"
NOT_A_CURVE = ("frame", "opt_step", "epi", "t", "total_reward", "total_reward_ma")
MOST_POINTS = 2000  # in an HTML line: more cannot be seen and makes the page slow
MOST_PANELS = 12

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """The returns of all sessions of a trial over frames, one row per session."""

    frames: Series
    returns: Series
    heading: str
    caption: str
    label: str

    @property
    def mean(self) -> Series:
        """Over the sessions that have a number at a checkpoint."""
        known = ~np.isnan(self.returns)
        total = np.where(known, self.returns, 0.0).sum(axis=0)
        mean = np.full(total.shape, np.nan)
        np.divide(total, known.sum(axis=0), out=mean, where=known.any(axis=0))
        return mean

    @property
    def deviation(self) -> Series:
        """The standard deviation over sessions that the band shows."""
        known = ~np.isnan(self.returns)
        squares = np.where(known, self.returns - self.mean, 0.0) ** 2
        count = np.maximum(known.sum(axis=0) - 1, 1)
        return np.asarray(np.sqrt(squares.sum(axis=0) / count))


def draw_trial(folder: Path | RunFolder) -> list[Path]:
    """Draw every graph of a trial from its session tables and return where they lie."""
    run = folder if isinstance(folder, RunFolder) else RunFolder.open(folder)
    sessions = {session: read_columns(run.session_df_path(session, "train")) for session in run.sessions()}
    sessions = {session: columns for session, columns in sessions.items() if len(columns["frame"])}
    if not sessions:
        raise RecordError(f"{run.path} has nothing to draw: its session tables are empty.")
    run.graph_path("").parent.mkdir(exist_ok=True)
    script = run.graph_path("").with_name("plotly.min.js")
    if not script.exists():  # one copy for all graphs of the folder, so that they open offline
        write_text_atomic(script, get_plotlyjs())
    drawn = []
    for smooth, name in ((False, "mean_returns_vs_frames"), (True, "mean_returns_ma_vs_frames")):
        curves = _gather(run, sessions, smooth)
        image, page = (run.graph_path(f"trial_graph_{name}.{kind}") for kind in ("png", "html"))
        write_bytes_atomic(image, png(_draw_returns(curves)))
        write_text_atomic(page, _html(curves, f"{run.stem}_{name}"))
        drawn += [image, page]
    panels = _panel_names(sessions)
    if panels:
        path = run.graph_path("session_graphs.png")
        write_bytes_atomic(path, png(_draw_panels(_heading(run), sessions, panels)))
        drawn.append(path)
    return drawn


def _gather(run: RunFolder, sessions: dict[int, dict[str, Any]], smooth: bool) -> Curves:
    rows = min(len(columns["frame"]) for columns in sessions.values())
    returns = [np.asarray(columns["total_reward"], np.float64) for columns in sessions.values()]
    shown = [moving_average(series) if smooth else series for series in returns]
    finals = [float(moving_average(series)[-1]) for series in returns]
    count = f"{len(returns)} session{'s' if len(returns) > 1 else ''}"
    return Curves(
        frames=np.asarray(next(iter(sessions.values()))["frame"][:rows], np.float64),
        returns=np.array([series[:rows] for series in shown]),
        heading=_heading(run),
        caption=f"score {np.mean(finals):.2f}: mean of the last {WINDOW} checkpoints, {count}",
        label=f"mean return, moving average over {WINDOW} checkpoints" if smooth else "mean return",
    )


def _heading(run: RunFolder) -> str:
    env = run.read_spec().get("env")
    name = env.get("name") if isinstance(env, dict) else None
    return f"{run.spec_name} · {name}" if name else run.spec_name


def compact(value: float, _position: int | None = None) -> str:
    """A number for an axis: 50k, 1.5M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def style(axes: Axes) -> None:
    """Only what helps to read a number: horizontal lines, two spines, few ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(colors=QUIET, labelcolor=INK, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter(FuncFormatter(compact))
    axes.margins(x=0)


def _draw_returns(curves: Curves) -> Figure:
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    style(axes)
    several = len(curves.returns) > 1
    mean, deviation = curves.mean, curves.deviation
    for row, series in enumerate(curves.returns if several else ()):
        label = None if row else "sessions"
        axes.plot(curves.frames, series, color=BLUE, alpha=0.4, linewidth=0.6, label=label)
    if several:
        low, high = mean - deviation, mean + deviation
        axes.fill_between(curves.frames, low, high, color=BLUE, alpha=0.16, linewidth=0, label="± standard deviation")
    marker = "o" if len(curves.frames) == 1 else None
    axes.plot(curves.frames, mean, color=BLUE, linewidth=1.8, marker=marker, label="mean")
    axes.yaxis.set_major_formatter(FuncFormatter(compact))
    axes.set_xlabel("frames", color=INK)
    axes.set_ylabel(curves.label, color=INK)
    axes.set_title(curves.heading, loc="left", color=INK, fontsize=13, fontweight="bold", pad=24)
    axes.annotate(
        curves.caption,
        (0, 1),
        xytext=(0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        color=QUIET,
        fontsize=9,
    )
    if several:
        handles, labels = axes.get_legend_handles_labels()
        options = {"frameon": False, "fontsize": 9, "labelcolor": QUIET}
        figure.legend(handles, labels, loc="outside lower right", ncols=len(labels), **options)
    return figure


def _panel_names(sessions: dict[int, dict[str, Any]]) -> list[str]:
    """The columns worth a panel: numbers that change during the run."""
    names = []
    for name in next(iter(sessions.values())):
        values = np.concatenate([np.asarray(columns.get(name, []), np.float64) for columns in sessions.values()])
        values = values[np.isfinite(values)]
        if name not in NOT_A_CURVE and values.size and values.min() != values.max():
            names.append(name)
    return names[:MOST_PANELS]


def _draw_panels(heading: str, sessions: dict[int, dict[str, Any]], names: list[str]) -> Figure:
    across = min(len(names), 3 if -len(names) % 3 <= -len(names) % 4 else 4)  # the fewer blank places
    down = -(-len(names) // across)
    figure = Figure(figsize=(3.4 * across, 2.3 * down + 0.7), dpi=130, layout="constrained", facecolor="white")
    grid = figure.subplots(down, across, squeeze=False, sharex=True)
    for axes, name in zip(grid.flat, names, strict=False):
        style(axes)
        axes.set_title(name.replace("_", " "), loc="left", color=INK, fontsize=10)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(compact))
        for place, (session, columns) in enumerate(sessions.items()):
            color = PALETTE[place % len(PALETTE)] if len(sessions) <= len(PALETTE) else BLUE
            _draw_noisy(axes, columns["frame"], columns[name], color, f"session {session}")
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for column in range(across):  # the lowest panel of each column carries the frames
        lowest = grid[(len(names) - 1 - column) // across, column]
        lowest.set_xlabel("frames", color=INK, fontsize=9)
        lowest.tick_params(labelbottom=True)
    figure.suptitle(heading, x=0.01, ha="left", color=INK, fontsize=13, fontweight="bold")
    if 1 < len(sessions) <= len(PALETTE):
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=len(sessions), frameon=False, fontsize=9)
    return figure


def _draw_noisy(axes: Axes, frames: NDArray[Any], values: NDArray[Any], color: str, label: str) -> None:
    """What was measured; where that jumps about, a faint line of it under its centred moving average."""
    finite = np.where(np.isfinite(values), np.asarray(values, np.float64), np.nan)
    known = finite[~np.isnan(finite)]
    half = len(finite) // 40
    if half and np.abs(np.diff(known)).sum() > 3 * np.ptp(known):
        axes.plot(frames, finite, color=color, linewidth=0.5, alpha=0.22)
        centred = moving_average(np.pad(finite, (0, half), constant_values=np.nan), 2 * half + 1)[half:]
        finite = np.where(np.isnan(finite), np.nan, centred)
    axes.plot(frames, finite, color=color, linewidth=1.2, alpha=0.9, label=label)


def png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG, the same for the same figure."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def _html(curves: Curves, identity: str) -> str:
    """The same graph to zoom and hover in; it finds plotly.min.js beside itself."""
    rows = np.unique(np.linspace(0, len(curves.frames) - 1, MOST_POINTS).astype(int))
    frames = curves.frames[rows].tolist()
    mean, deviation = curves.mean[rows], curves.deviation[rows]
    traces = []
    if len(curves.returns) > 1:
        low, high = numbers(mean - deviation), numbers(mean + deviation)
        edge: dict[str, Any] = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        traces += [go.Scatter(x=frames, y=low, legendgroup="band", **edge)]
        edge = {**edge, "fill": "tonexty", "fillcolor": "rgba(0,114,178,0.16)", "showlegend": True}
        traces += [go.Scatter(x=frames, y=high, legendgroup="band", name="± one standard deviation", **edge)]
        for session, series in enumerate(curves.returns):
            line = {"color": "rgba(0,114,178,0.4)", "width": 1}
            traces += [
                go.Scatter(x=frames, y=numbers(series[rows]), mode="lines", name=f"session {session}", line=line)
            ]
    mode = "lines" if len(frames) > 1 else "markers"
    traces += [go.Scatter(x=frames, y=numbers(mean), mode=mode, name="mean", line={"color": BLUE, "width": 3})]
    figure = go.Figure(traces)
    figure.update_layout(
        template="simple_white",
        title={"text": f"<b>{curves.heading}</b><br><sup>{curves.caption}</sup>", "x": 0.02},
        xaxis={"title": "frames", "tickformat": "~s"},
        yaxis={"title": curves.label, "showgrid": True, "gridcolor": GRID},
        hovermode="x unified",
        font={"color": INK},
    )
    return str(figure.to_html(include_plotlyjs="directory", div_id=identity, config={"displaylogo": False}))


def numbers(series: Series) -> list[float | None]:
    """A series as JSON takes it."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in series]


if __name__ == "__main__":
    try:
        for path in draw_trial(Path(sys.argv[1])):
            print(path)
    except RecordError as error:
        sys.exit(str(error))
