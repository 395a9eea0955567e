"""What all makers of vectors share: keys that must be known, threads no more than there are cores."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from rewardlab.spec import SpecError, near


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str], hint: str = "") -> None:
    """Every key must be one that the environment takes."""
    for key in given:
        if key not in known:
            nearest = near(key, known, 0.0)
            told = f"the nearest key is {nearest!r}" if nearest else "it takes none"
            raise SpecError(f"{where} does not take the key {key!r}; {told}{hint}.")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads(num_envs: int) -> int:
    """How many step so many copies."""
    return min(num_envs, available_cores())
