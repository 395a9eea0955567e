"""Successive halving (https://arxiv.org/abs/1810.05934): where trials are compared, and which of them go on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewardlab.spec import SchedulerSpec


def rungs(scheduler: SchedulerSpec | None, max_frame: int) -> list[int]:
    """The frames g, g·η, g·η² … below `max_frame` at which trials are stopped; none without a scheduler."""
    found: list[int] = []
    if scheduler is not None:
        frame = scheduler.grace_period
        while frame < max_frame:
            found.append(frame)
            frame *= scheduler.reduction_factor
    return found


def promoted(scores: Mapping[int, float], reduction_factor: int) -> list[int]:
    """The best one in η of the trials, in their own order: at least one, ties to the lower number, NaN last."""
    keep = max(1, len(scores) // reduction_factor)
    worth = {trial: -np.inf if np.isnan(score) else score for trial, score in scores.items()}
    return sorted(sorted(worth, key=lambda trial: (-worth[trial], trial))[:keep])
