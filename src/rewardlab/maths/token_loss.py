"""Losses of a language model, token by token: one formula each. Rows are completions, `mask` is one on their tokens.

A loss of the whole batch is Σ weight · loss over its tokens; the weights of a row say what the mean is taken over.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rewardlab.maths.loss import surrogate

Grid = Float[Array, "B T"]


class Tokens(NamedTuple):
    """What was drawn: its log-probability now and when it was drawn, and how much better it was than expected."""

    log_prob: Grid
    old_log_prob: Grid
    advantage: Grid
    mask: Grid


class Shape(NamedTuple):
    """The numbers that shape a loss."""

    clip_low: float | Array = 0.2
    clip_high: float | Array = 0.2
    temperature_positive: float | Array = 1.0
    temperature_negative: float | Array = 1.05


def ratio(tokens: Tokens) -> Grid:
    """ρ = π/π_old of each token."""
    return jnp.exp((tokens.log_prob - tokens.old_log_prob) * tokens.mask)


def policy_gradient(tokens: Tokens, _: Shape) -> Grid:
    """−A log π (Williams 1992; RLOO, https://arxiv.org/abs/2402.14740; MaxRL, https://arxiv.org/abs/2602.02710)."""
    return -tokens.advantage * tokens.log_prob


def clipped(tokens: Tokens, shape: Shape) -> Grid:
    """−min(ρA, clip(ρ)A) (PPO; GRPO, https://arxiv.org/abs/2402.03300; DAPO, https://arxiv.org/abs/2503.14476)."""
    return -surrogate(ratio(tokens), tokens.advantage, shape.clip_low, shape.clip_high)


def sequence_clipped(tokens: Tokens, shape: Shape) -> Grid:
    """−min(sA, clip(s)A), s the geometric mean of a row's ρ (GSPO, https://arxiv.org/abs/2507.18071)."""
    log_ratio = (tokens.log_prob - tokens.old_log_prob) * tokens.mask
    length = jnp.maximum(jnp.sum(tokens.mask, axis=1, keepdims=True), 1)
    whole = jnp.exp(jnp.sum(log_ratio, axis=1, keepdims=True) / length)
    return -surrogate(jnp.broadcast_to(whole, log_ratio.shape), tokens.advantage, shape.clip_low, shape.clip_high)


def weight_clipped(tokens: Tokens, shape: Shape) -> Grid:
    """−sg[clip(ρ)] A log π (CISPO, https://arxiv.org/abs/2506.13585)."""
    weight = jax.lax.stop_gradient(jnp.clip(ratio(tokens), 1 - shape.clip_low, 1 + shape.clip_high))
    return -weight * tokens.advantage * tokens.log_prob


def soft_gate(tokens: Tokens, shape: Shape) -> Grid:
    """−(4/τ) σ(τ(ρ−1)) A, τ by the sign of A (SAPO, https://arxiv.org/abs/2511.20347)."""
    tau = jnp.where(tokens.advantage > 0, shape.temperature_positive, shape.temperature_negative)
    return -4 / tau * jax.nn.sigmoid(tau * (ratio(tokens) - 1)) * tokens.advantage


def mean_of_sequences(length: Float[Array, " B"], _: int) -> Float[Array, " B"]:
    """Each row's mean over its tokens, then the mean over rows."""
    return 1 / (len(length) * jnp.maximum(length, 1))


def mean_of_tokens(length: Float[Array, " B"], _: int) -> Float[Array, " B"]:
    """The mean over all tokens of all rows."""
    return jnp.full(length.shape, 1 / jnp.maximum(jnp.sum(length), 1))


def sum_over_constant(length: Float[Array, " B"], longest: int) -> Float[Array, " B"]:
    """Each row's sum over its tokens, divided by what does not depend on them: no bias by length (Dr. GRPO)."""
    return jnp.full(length.shape, 1 / (len(length) * longest))
