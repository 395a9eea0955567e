"""The one batch type: what happened, with named fields."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array


class Transition(NamedTuple):
    """A step, or time-major arrays [T, N, …] of them, or a batch [B, …] drawn from memory.

    `next_obs` is where the action led, the true final observation at an end. `extras` is what `act` wanted kept.
    """

    obs: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    next_obs: Array
    extras: dict[str, Array]
