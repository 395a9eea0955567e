"""Algorithms compared over several environments: IQM with intervals, and performance profiles, as one PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rewardlab.boards.benchmark import targets
from rewardlab.experiment import metrics
from rewardlab.experiment.record import RecordError, write_bytes_atomic, write_json
from rewardlab.maths.robust import Scores, bootstrap, iqm, profile
from rewardlab.plots.compare import COLORS, OTHERS, Entry, in_order, read_entry
from rewardlab.plots.curves import INK, png, style

THRESHOLDS = np.linspace(0.0, 1.5, 151)


@dataclass(frozen=True)
class Aggregate:
    """An algorithm over all environments; a score is 0 for random play and 1 for the target."""

    algorithm: str
    scores: Scores  # [sessions, environments]

    @property
    def iqm(self) -> float:
        """The interquartile mean."""
        return iqm(self.scores)


def normalized(entry: Entry) -> Scores:
    """The scores of a run's sessions between random play and the board's target."""
    goals = [t.goal for t in targets() if t.env == entry.env]
    floor = metrics.random_baseline(entry.env)
    if not goals or floor is None or goals[0] == floor:
        raise RecordError(f"{entry.env} has no target or no measured random play: its scores have no common scale.")
    return np.asarray((np.array(entry.scores) - floor) / (goals[0] - floor))


def aggregate(entries: Sequence[Entry]) -> list[Aggregate]:
    """By algorithm; every one must have a run, of as many sessions, in every environment."""
    envs = sorted({e.env for e in entries})
    found = []
    for algorithm in dict.fromkeys(e.algorithm for e in in_order(entries)):
        own = {e.env: e for e in entries if e.algorithm == algorithm}
        missing = [env for env in envs if env not in own]
        if missing:
            raise RecordError(f"{algorithm} has no run for {', '.join(missing)}: all must have played the same.")
        sessions = {len(own[env].scores) for env in envs}
        if len(sessions) > 1:
            raise RecordError(f"{algorithm} has runs of {sorted(sessions)} sessions: all must have as many.")
        found.append(Aggregate(algorithm, np.stack([normalized(own[env]) for env in envs], axis=1)))
    return found


def draw(title: str, paths: Sequence[Path], target: Path) -> list[Path]:
    """IQM and profiles as `target`_robust.png, the numbers as .json."""
    entries = [read_entry(path) for path in paths]
    rows = aggregate(entries)
    intervals = [bootstrap(row.scores, iqm) for row in rows]
    target.parent.mkdir(parents=True, exist_ok=True)
    files = [target.with_name(f"{target.name}_robust{ending}") for ending in (".png", ".json")]
    told = [
        {"algorithm": row.algorithm, "iqm": row.iqm, "low": float(low), "high": float(high)}
        for row, (low, high) in zip(rows, intervals, strict=True)
    ]
    write_json(files[1], {"title": title, "environments": sorted({e.env for e in entries}), "iqm": told})
    spare = iter(OTHERS * 9)
    colors = [COLORS.get(row.algorithm) or next(spare) for row in rows]
    figure = Figure(figsize=(10, 4.4), dpi=130, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    style(left)
    left.grid(visible=False)
    for place, (row, (low, high), color) in enumerate(zip(rows, intervals, colors, strict=True)):
        left.barh(place, high - low, left=low, height=0.6, color=color, alpha=0.35)
        left.vlines(row.iqm, place - 0.3, place + 0.3, color=color, linewidth=2.5)
    left.set_yticks(range(len(rows)), [row.algorithm for row in rows])
    left.invert_yaxis()
    left.margins(x=0.1)
    left.set_xlabel("IQM of normalized scores, 95 % interval", color=INK, fontsize=9)
    style(right)
    for row, color in zip(rows, colors, strict=True):
        low_curve, high_curve = bootstrap(row.scores, lambda s: profile(s, THRESHOLDS), resamples=500)
        right.fill_between(THRESHOLDS, low_curve, high_curve, color=color, alpha=0.15, linewidth=0)
        right.plot(THRESHOLDS, profile(row.scores, THRESHOLDS), color=color, linewidth=1.8, label=row.algorithm)
    right.set_xlabel("normalized score τ (0 random play, 1 target)", color=INK, fontsize=9)
    right.set_ylabel("share of runs with a score above τ", color=INK, fontsize=9)
    right.legend(frameon=False, fontsize=9, labelcolor=INK)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=13, fontweight="bold")
    write_bytes_atomic(files[0], png(figure))
    return files
