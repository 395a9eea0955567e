"""Reductions that honour a mask."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def mean(x: Float[Array, "*shape"], mask: Array | None = None) -> Float[Array, ""]:
    """The mean over the entries where the mask is one (0 where there are none)."""
    if mask is None:
        return jnp.mean(x)
    return jnp.sum(x * mask) / jnp.maximum(jnp.sum(mask), 1)


def standardize(x: Float[Array, "*shape"], mask: Array | None = None, eps: float = 1e-8) -> Float[Array, "*shape"]:
    """(x − mean) / (std + eps) over the entries where the mask is one."""
    centred = x - mean(x, mask)
    return centred / (jnp.sqrt(mean(centred**2, mask)) + eps)
