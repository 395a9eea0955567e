"""Values that change over the run: exploration, clipping, entropy and PER's β."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

NAMES = ("no_decay", "linear_decay", "rate_decay", "periodic_decay")


class Schedule(eqx.Module):
    """From `start_val` at frame `start_step` to `end_val` at `end_step`, and constant outside.

    With x from 0 to 1 between them, linear_decay: a straight line. rate_decay: start_val · 0.9^(20x), not below
    end_val. periodic_decay: end_val + ½ (start_val − end_val)(1 + cos 60x)(1 − x), some ten periods. no_decay:
    start_val.
    """

    name: str = eqx.field(static=True, default="no_decay")
    start_val: float | Array = 0.0
    end_val: float | Array | None = None
    start_step: float | Array = 0.0
    end_step: float | Array = 0.0

    def __check_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"schedule {self.name!r} is unknown; the schedules are {', '.join(NAMES)}")

    def __call__(self, frame: Array) -> Float[Array, ""]:
        """The value at a frame."""
        start = jnp.asarray(self.start_val, jnp.float32)
        if self.name == "no_decay" or self.end_val is None:
            return start
        span = jnp.maximum(jnp.asarray(self.end_step - self.start_step, jnp.float32), 1.0)
        x = jnp.clip((frame - self.start_step) / span, 0.0, 1.0)
        end = jnp.asarray(self.end_val, jnp.float32)
        if self.name == "linear_decay":
            return start + x * (end - start)
        if self.name == "rate_decay":
            return jnp.where(x >= 1, end, jnp.maximum(start * 0.9 ** (20 * x), end))
        return end + 0.5 * (start - end) * (1 + jnp.cos(60 * x)) * (1 - x)
