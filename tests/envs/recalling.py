"""A task that only memory solves: a sign is shown once, and must be told some steps later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from rewardlab.envs.base import Box, Discrete


class State(NamedTuple):
    sign: Array
    t: Array


@dataclass(frozen=True)
class Recall:
    """Observes the sign (±1) at first, then 0; the action after `delay` steps earns 1 if it names the sign."""

    delay: int = 4
    observation: ClassVar[Box] = Box((2,), low=-1.0, high=1.0)
    action: ClassVar[Discrete] = Discrete(2)
    max_episode_steps: ClassVar[int] = 50

    def reset(self, key: Array) -> State:
        return State(jnp.where(jax.random.bernoulli(key), 1.0, -1.0), jnp.zeros((), jnp.int32))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Array, Array]:
        last = state.t >= self.delay
        right = (action == 1) == (state.sign > 0)
        return State(state.sign, state.t + 1), jnp.where(last & right, 1.0, 0.0), last

    def observe(self, state: State) -> Array:
        return jnp.stack([jnp.where(state.t == 0, state.sign, 0.0), (state.t >= self.delay).astype(jnp.float32)])
