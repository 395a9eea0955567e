"""Aggregates that a few lucky seeds cannot move (https://arxiv.org/abs/2108.13264), in numpy.

Scores are [runs, tasks]: every task has as many runs, and scores of different tasks are on one scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scores = NDArray[np.float64]
RESAMPLES = 2000
CONFIDENCE = 0.95


def iqm(scores: ArrayLike) -> float:
    """The interquartile mean: of all runs of all tasks without the lowest and the highest quarter (⌊n/4⌋ each)."""
    flat = np.sort(np.asarray(scores, np.float64).reshape(-1))
    cut = len(flat) // 4
    return float(flat[cut : len(flat) - cut].mean())


def bootstrap(
    scores: ArrayLike, statistic: Callable[[Scores], Scores | float], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[Scores, Scores]:
    """The 95 % interval of a statistic by the percentiles of a stratified bootstrap: runs are drawn anew within each
    task, tasks stay."""
    table = np.asarray(scores, np.float64)
    runs, tasks = table.shape
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, runs, (resamples, runs, tasks))
    values = np.array([statistic(np.take_along_axis(table, draw, axis=0)) for draw in draws])
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def profile(scores: ArrayLike, thresholds: ArrayLike) -> Scores:
    """The performance profile: at each threshold τ the share of runs that score more than τ, the mean over tasks."""
    table = np.asarray(scores, np.float64)
    levels = np.asarray(thresholds, np.float64)
    return np.asarray((table[None] > levels[:, None, None]).mean(axis=(1, 2)))
