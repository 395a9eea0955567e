"""The one batch type: what happened, with named fields."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray


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

    @property
    def done(self) -> Array:
        """Where nothing that comes after belongs to what came before."""
        return self.terminated | self.truncated


def orders(key: PRNGKeyArray, count: int, size: int) -> Int[Array, "count size"]:
    """`count` random orders of 0 … size−1.

    The index rides in the low bits of random words, which a CPU sorts several times faster than the pairs that
    `jax.random.permutation` sorts. Words whose random bits tie stand side by side in the order of their index, so that
    at most a minibatch's edge could notice; where fewer than 16 bits are left to chance: `jax.random.permutation`.
    """
    low = (size - 1).bit_length()
    if low > 16:
        each: Array = jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, count))
        return each
    mask = jnp.uint32((1 << low) - 1)
    words = jax.random.bits(key, (count, size), jnp.uint32) & ~mask | jnp.arange(size, dtype=jnp.uint32)
    order: Array = (jnp.sort(words, axis=-1) & mask).astype(jnp.int32)
    return order
