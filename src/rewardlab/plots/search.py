"""What a search found, as PNG: each hyper-parameter against the score, and every trial's curve:
`python -m rewardlab.plots.search DIR`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rewardlab.experiment.record import RecordError, RunFolder, read_columns, write_bytes_atomic
from rewardlab.experiment.table import read_cells
from rewardlab.plots.curves import BLUE, INK, ORANGE, QUIET, compact, png, style

FIXED = 9  # columns before the parameters: trial, status, frame, score and five metrics
MOST = 12  # panels


def draw_search(path: Path) -> list[Path]:
    """Draw the graphs of a finished search and return where they lie."""
    run = RunFolder.open(path)
    header, rows = read_cells(run.path / "info" / f"{run.spec_name}_experiment_df.csv")
    table = [dict(zip(header, row, strict=True)) for row in rows]
    scored = [row for row in table if row["total_reward_ma"]]
    if not scored:
        raise RecordError(f"{run.path} has nothing to draw: no trial reached a score.")
    names = header[FIXED:-1]
    drawn = []
    for figure, name in (
        (_parameters(run, scored, names), "search_parameters"),
        (_curves(run, scored), "search_curves"),
    ):
        target = run.path / "graph" / f"{run.spec_name}_{name}.png"
        target.parent.mkdir(exist_ok=True)
        write_bytes_atomic(target, png(figure))
        drawn.append(target)
    return drawn


def _parameters(run: RunFolder, rows: list[dict[str, str]], names: list[str]) -> Figure:
    """A panel per hyper-parameter; the darker a point, the further its trial went."""
    names = names[:MOST]
    across = min(len(names), 3)
    down = -(-len(names) // across)
    figure = Figure(figsize=(3.6 * across + 0.4, 2.9 * down + 0.7), dpi=130, layout="constrained", facecolor="white")
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    scores = np.array([float(row["total_reward_ma"]) for row in rows])
    frames = np.array([float(row["frame"]) for row in rows])
    shade = 0.25 + 0.75 * frames / frames.max()
    for axes, name in zip(grid.flat, names, strict=False):
        style(axes)
        axes.set_title(name.removeprefix("agent.").removeprefix("algorithm."), loc="left", color=INK, fontsize=10)
        values, labels = _numbers([row[name] for row in rows])
        axes.scatter(values, scores, s=22, color=BLUE, alpha=shade, linewidth=0)
        axes.scatter(values[:1], scores[:1], s=70, facecolor="none", edgecolor=ORANGE, linewidth=1.8)
        axes.margins(x=0.05)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if labels:
            axes.set_xticks(range(len(labels)), labels)
        elif values.min() > 0 and values.max() > 20 * values.min():
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(compact))
    for axes in grid[:, 0]:
        axes.set_ylabel("total_reward_ma", color=INK, fontsize=9)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    note = "darker: ran longer · ring: the best"
    figure.suptitle(f"{run.spec_name} · search, {len(rows)} trials", x=0.01, ha="left", color=INK, fontweight="bold")
    figure.supxlabel(note, x=0.99, ha="right", color=QUIET, fontsize=9)
    return figure


def _numbers(cells: list[str]) -> tuple[Any, list[str]]:
    """Values as numbers; texts by their place in a sorted list of them, which comes too."""
    try:
        return np.array([float(cell) for cell in cells]), []
    except ValueError:
        labels = sorted(set(cells))
        return np.array([labels.index(cell) for cell in cells], float), labels


def _curves(run: RunFolder, rows: list[dict[str, str]]) -> Figure:
    """The moving average of every trial up to where it was stopped."""
    figure = Figure(figsize=(8, 4.8), dpi=130, layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    style(axes)
    for place, row in reversed(list(enumerate(rows))):
        trial = run.with_trial(int(row["trial"]))
        tables = [read_columns(trial.session_df_path(s, "train")) for s in trial.sessions()]
        shortest = min(len(table["frame"]) for table in tables)
        mean = np.mean([table["total_reward_ma"][:shortest] for table in tables], axis=0)
        best = place == 0
        color, width, alpha = (ORANGE, 2.2, 1.0) if best else (BLUE, 0.9, 0.45)
        label = f"best: trial {row['trial']}, {float(row['total_reward_ma']):.2f}" if best else None
        axes.plot(tables[0]["frame"][:shortest], mean, color=color, linewidth=width, alpha=alpha, label=label)
    axes.yaxis.set_major_formatter(FuncFormatter(compact))
    axes.set_xlabel("frames", color=INK)
    axes.set_ylabel("total_reward_ma", color=INK)
    axes.set_title(f"{run.spec_name} · search, {len(rows)} trials", loc="left", color=INK, fontweight="bold")
    axes.legend(frameon=False, fontsize=9, labelcolor=QUIET, loc="lower right")
    return figure


if __name__ == "__main__":
    try:
        for drawn in draw_search(Path(sys.argv[1])):
            print(drawn)
    except RecordError as error:
        sys.exit(str(error))
