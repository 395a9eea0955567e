"""Uniformly random actions: the floor that every other score is measured from."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics, Policy, State, setting
from rewardlab.envs.base import Discrete, MultiDiscrete
from rewardlab.memory.rollout import Transition


class Random(Algorithm):
    """Learns nothing."""

    on_policy = True
    training_frequency: int = setting(128)

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.training_frequency

    def init(self, key: PRNGKeyArray) -> State:
        """No state, but something to save."""
        return jnp.zeros(())

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """A key per step."""
        return jax.random.split(key, steps)

    def act(self, state: State, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """Uniform actions."""
        return self.play(state, obs, noise), {}

    def learn(self, state: State, rollout: Transition, clock: Clock, key: PRNGKeyArray) -> tuple[State, Metrics]:
        """Nothing."""
        return state, {"opt_step": jnp.zeros((), jnp.int32)}

    def policy(self, state: State) -> Policy:
        """Nothing is needed."""
        return state

    def play(self, policy: Policy, obs: Array, key: PRNGKeyArray) -> Array:
        """Uniform actions."""
        n = obs.shape[0]
        if isinstance(self.action, Discrete):
            return jax.random.randint(key, (n,), 0, self.action.n)
        if isinstance(self.action, MultiDiscrete):
            return jax.random.randint(key, (n, len(self.action.nvec)), 0, jnp.asarray(self.action.nvec))
        return jax.random.uniform(key, (n, self.action.size), minval=-1.0, maxval=1.0)
