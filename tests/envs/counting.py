"""A hand-made environment, once in JAX and once for Gymnasium, in which every ending can be counted on the fingers.

It observes how many steps the episode has had. Action 0 goes on, action 1 stops at once; after `length` steps it
terminates by itself. Every step is worth 1. The registered time limit is 8 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from rewardlab.envs.base import Box, Discrete


@dataclass(frozen=True)
class Countdown:
    """The one in JAX; its state is the count."""

    length: int = 5

    observation: ClassVar[Box] = Box((1,), low=0.0)
    action: ClassVar[Discrete] = Discrete(2)
    max_episode_steps: ClassVar[int] = 8

    def reset(self, key: PRNGKeyArray) -> Array:
        return jnp.zeros((), jnp.float32)

    def step(self, state: Array, action: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        count = state + 1
        return count, jnp.ones((), jnp.float32), (count >= self.length) | (action == 1)

    def observe(self, state: Array) -> Array:
        return state[None]


class CountdownEnv(gym.Env[Any, Any]):
    """The one for Gymnasium. It hands out one and the same buffer for ever, as real environments do.

    `start` shifts its actions, `fail_at` makes it raise at a count, `dtype` is that of its observations, and `hidden`
    gives it a state that cannot be seen from outside.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        length: int = 5,
        start: int = 0,
        fail_at: int | None = None,
        dtype: str = "float64",
        hidden: bool = False,
        render_mode: str | None = None,
    ) -> None:
        high = np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else np.inf
        self.observation_space = gym.spaces.Box(0, high, (1,), dtype)
        self.action_space = gym.spaces.Discrete(2, start=start)
        self.length, self.fail_at, self.render_mode = length, fail_at, render_mode
        self.buffer = np.zeros(1, dtype)
        if hidden:
            self.hidden = object()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        assert options is None, "nobody gave options"
        self.buffer[0] = 0
        return self.buffer, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action} is no action"
        self.buffer[0] += 1
        if self.buffer[0] == self.fail_at:
            raise ZeroDivisionError("the count was too much")
        stopped = bool(action == self.action_space.start + 1)
        return self.buffer, 1.0, bool(self.buffer[0] >= self.length) or stopped, False, {}

    def render(self) -> Any:
        return np.full((4, 6, 3), self.buffer[0], np.uint8) if self.render_mode else None


if "Countdown-v0" not in gym.registry:
    gym.register(id="Countdown-v0", entry_point="counting:CountdownEnv", max_episode_steps=8)
