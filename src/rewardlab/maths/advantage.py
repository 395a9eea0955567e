"""Returns, targets and advantages over time-major arrays [T, …].

`terminated` cuts the bootstrap; `truncated` cuts only the sum: at a time limit the value of the true final observation
(`next_value`) still counts, and nothing leaks in from the episode that follows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

TimeMajor = Float[Array, "T *batch"]
Flags = Bool[Array, "T *batch"]


def _backward_sum(step: TimeMajor, carry: TimeMajor) -> TimeMajor:
    """y_t = step_t + carry_t · y_{t+1}, with y_{T+1} = 0."""

    def body(y: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
        y = xs[0] + xs[1] * y
        return y, y

    return jax.lax.scan(body, jnp.zeros_like(step[0]), (step, carry), reverse=True, unroll=8)[1]


def td_target(reward: Array, next_value: Array, terminated: Array, gamma: Array | float) -> Array:
    """r + γ V(s′), without V where the episode truly ended."""
    return reward + gamma * next_value * (1 - terminated)


def gae(
    reward: TimeMajor,
    value: TimeMajor,
    next_value: TimeMajor,
    terminated: Flags,
    truncated: Flags,
    gamma: Array | float,
    lam: Array | float,
    mask: Array | None = None,
) -> TimeMajor:
    """Generalized advantage estimation, A_t = δ_t + γλ A_{t+1} (https://arxiv.org/abs/1506.02438)."""
    delta = td_target(reward, next_value, terminated, gamma) - value
    goes_on = 1 - (terminated | truncated)
    if mask is not None:
        delta, goes_on = delta * mask, goes_on * mask
    return _backward_sum(delta, gamma * lam * goes_on)


def discounted_return(
    reward: TimeMajor,
    next_value: TimeMajor,
    terminated: Flags,
    truncated: Flags,
    gamma: Array | float,
) -> TimeMajor:
    """G_t = r_t + γ G_{t+1}; where an episode is cut without having ended (a time limit, the rollout's last step),
    the tail is `next_value` (zeros: a plain Monte-Carlo return)."""
    last = jnp.zeros_like(truncated).at[-1].set(True)
    cut = (truncated | last) & ~terminated
    goes_on = 1 - (terminated | cut)
    return _backward_sum(reward + gamma * next_value * cut, gamma * goes_on)


def n_step_return(
    reward: TimeMajor,
    next_value: TimeMajor,
    terminated: Flags,
    truncated: Flags,
    gamma: Array | float,
    n: int,
) -> TimeMajor:
    """G_t = r_t + … + γ^{n−1} r_{t+n−1} + γ^n V(s_{t+n}), shorter where the episode or the rollout ends first."""
    T = reward.shape[0]
    total, bootstrap = jnp.zeros_like(reward), jnp.zeros_like(reward)
    alive = jnp.ones_like(reward)  # 1 while the window starting at t has not met an end
    discount: Array | float = 1.0
    for k in range(min(n, T)):
        at = jnp.minimum(jnp.arange(T) + k, T - 1)
        inside = (jnp.arange(T) + k < T).reshape((T,) + (1,) * (reward.ndim - 1))
        alive = alive * inside
        total = total + alive * discount * reward[at]
        discount = discount * gamma
        ends = terminated[at] | truncated[at] | (at == T - 1).reshape(inside.shape) | (k == n - 1)
        bootstrap = bootstrap + alive * ends * discount * next_value[at] * (1 - terminated[at])
        alive = alive * (1 - ends)
    return total + bootstrap
