"""Running statistics of observations and rewards."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array


class RunningStats(NamedTuple):
    """Mean and variance of everything seen so far (Chan, Golub and LeVeque's parallel update)."""

    seen: Array  # not `count`, which is a method of every tuple
    mean: Array
    var: Array

    @classmethod
    def create(cls, shape: tuple[int, ...]) -> RunningStats:
        """Nothing seen yet: mean 0, variance 1."""
        return cls(jnp.asarray(1e-4), jnp.zeros(shape), jnp.ones(shape))

    def update(self, batch: Array) -> RunningStats:
        """With a batch [n, …] more."""
        n = batch.shape[0]
        total = self.seen + n
        delta = batch.mean(0) - self.mean
        m2 = self.var * self.seen + batch.var(0) * n + delta**2 * self.seen * n / total
        return RunningStats(total, self.mean + delta * n / total, m2 / total)

    def normalize(self, x: Array, clip: float = 10.0) -> Array:
        """(x − mean) / std, clipped."""
        return jnp.clip((x - self.mean) / jnp.sqrt(self.var + 1e-8), -clip, clip)

    def scale(self, x: Array, clip: float = 10.0) -> Array:
        """x / std, clipped: for rewards, whose sign must stay."""
        return jnp.clip(x / jnp.sqrt(self.var + 1e-8), -clip, clip)
