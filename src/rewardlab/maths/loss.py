"""Losses: one formula each, negated where the original maximises."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from rewardlab.maths.reduce import mean


def mse(prediction: Array, target: Array) -> Array:
    """Squared error, entry by entry."""
    return jnp.square(prediction - target)


def huber(prediction: Array, target: Array) -> Array:
    """Quadratic within 1, linear beyond (PyTorch's SmoothL1Loss), entry by entry."""
    error = jnp.abs(prediction - target)
    return jnp.where(error < 1, 0.5 * error**2, error - 0.5)


REGRESSION = {"MSELoss": mse, "SmoothL1Loss": huber}


def policy_gradient(log_prob: Array, advantage: Array, mask: Array | None = None) -> Float[Array, ""]:
    """−E[A log π(a|s)] (Williams 1992)."""
    return -mean(log_prob * advantage, mask)


def surrogate(ratio: Array, advantage: Array, low: Array | float, high: Array | float) -> Array:
    """min(ρA, clip(ρ, 1−ε_low, 1+ε_high)A), entry by entry (https://arxiv.org/abs/1707.06347)."""
    clipped = jnp.clip(ratio, 1 - low, 1 + high)
    return jnp.minimum(ratio * advantage, clipped * advantage)


def ppo_clip(
    log_prob: Array, old_log_prob: Array, advantage: Array, clip_eps: Array | float, mask: Array | None = None
) -> Float[Array, ""]:
    """−E[min(ρA, clip(ρ, 1−ε, 1+ε)A)] with ρ = π/π_old."""
    return -mean(surrogate(jnp.exp(log_prob - old_log_prob), advantage, clip_eps, clip_eps), mask)


def clipped_value(
    value: Array, old_value: Array, target: Array, clip_eps: Array | float, mask: Array | None = None
) -> Float[Array, ""]:
    """E[max((V−G)², (clip(V, V_old±ε)−G)²)], the value loss of the PPO reference code."""
    return mean(clipped_error(value, old_value, target, clip_eps), mask)


def clipped_error(value: Array, old_value: Array, target: Array, clip_eps: Array | float) -> Array:
    """max((V−G)², (clip(V, V_old±ε)−G)²), entry by entry."""
    near = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
    return jnp.maximum(mse(value, target), mse(near, target))


def approx_kl(log_prob: Array, old_log_prob: Array, mask: Array | None = None) -> Float[Array, ""]:
    """KL(π_old ‖ π) ≈ E[(ρ − 1) − log ρ], unbiased and never negative (http://joschu.net/blog/kl-approx.html)."""
    log_ratio = log_prob - old_log_prob
    return mean(jnp.expm1(log_ratio) - log_ratio, mask)


def kl_k1(log_prob: Array, reference: Array) -> Array:
    """KL(π ‖ π_ref) ≈ log π − log π_ref at samples of π: unbiased, of either sign."""
    return log_prob - reference


def kl_k2(log_prob: Array, reference: Array) -> Array:
    """KL(π ‖ π_ref) ≈ ½ (log π − log π_ref)²: biased, little variance; its gradient is that of the KL."""
    return 0.5 * jnp.square(log_prob - reference)


def kl_k3(log_prob: Array, reference: Array) -> Array:
    """KL(π ‖ π_ref) ≈ (1/r − 1) + log r with r = π/π_ref: unbiased and never negative."""
    log_ratio = log_prob - reference
    return jnp.expm1(-log_ratio) + log_ratio
