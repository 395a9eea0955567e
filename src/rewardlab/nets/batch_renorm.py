"""Batch renormalisation (https://arxiv.org/abs/1702.03275), as CrossQ's critics use it."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class RenormStats(NamedTuple):
    """Running mean, standard deviation and how many batches went into them."""

    mean: Array
    std: Array
    steps: Array


class BatchRenorm(eqx.Module):
    """Normalises by the batch, corrected towards the running statistics: r and d, clipped, open up after the warm-up
    (during it r = 1 and d = 0, which is plain batch norm)."""

    scale: Float[Array, " n"]
    bias: Float[Array, " n"]
    momentum: float = eqx.field(static=True, default=0.01)
    eps: float = eqx.field(static=True, default=1e-3)
    warmup_steps: int = eqx.field(static=True, default=100_000)
    r_max: float = eqx.field(static=True, default=3.0)
    d_max: float = eqx.field(static=True, default=5.0)

    @classmethod
    def create(cls, width: int, **options: float) -> BatchRenorm:
        """Scale one, shift zero."""
        return cls(jnp.ones(width), jnp.zeros(width), **options)

    def init_stats(self) -> RenormStats:
        """Mean 0, deviation 1."""
        return RenormStats(jnp.zeros_like(self.bias), jnp.ones_like(self.scale), jnp.zeros((), jnp.int32))

    def __call__(self, x: Float[Array, "*batch n"], stats: RenormStats) -> Float[Array, "*batch n"]:
        """By the running statistics alone."""
        return (x - stats.mean) / stats.std * self.scale + self.bias

    def train(self, x: Float[Array, "batch n"], stats: RenormStats) -> tuple[Float[Array, "batch n"], RenormStats]:
        """By the batch, and the running statistics moved towards it."""
        mean, std = x.mean(0), jnp.sqrt(x.var(0) + self.eps)
        warm = stats.steps >= self.warmup_steps
        r = jnp.where(warm, jnp.clip(std / stats.std, 1 / self.r_max, self.r_max), 1.0)
        d = jnp.where(warm, jnp.clip((mean - stats.mean) / stats.std, -self.d_max, self.d_max), 0.0)
        r, d = jax.lax.stop_gradient((r, d))
        out = ((x - mean) / std * r + d) * self.scale + self.bias
        moved = RenormStats(
            stats.mean + self.momentum * (mean - stats.mean),
            stats.std + self.momentum * (std - stats.std),
            stats.steps + 1,
        )
        return out, jax.lax.stop_gradient(moved)
