"""What the algorithms' tests share: tiny specs, and nets that are tables.

An observation is a one-hot row over states, so that a net without hidden layers holds one number per state and action,
set by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from rewardlab import spec as sp
from rewardlab.algos import make
from rewardlab.algos.base import Algorithm, Clock
from rewardlab.envs.base import Box, Discrete
from rewardlab.memory.rollout import Transition
from rewardlab.nets.linear import Linear
from rewardlab.nets.mlp import MLP
from rewardlab.spec import Spec

REPLAYING = ("VanillaDQN", "DQN", "DoubleDQN", "DuelingDQN", "SAC", "CrossQ")


class Lab:
    """Makers of the small things that the tests are about."""

    states = 4
    discrete = Discrete(2)
    continuous = Box((2,), -1.0, 1.0)

    def spec(
        self, name: str, net: Any = None, memory: Any = None, env: Any = None, agent: Any = None, **keys: Any
    ) -> Spec:
        """A spec with nets that are tables, SGD with a learning rate of 1, and what else is given."""
        remembers = {"name": "Replay", "batch_size": 4, "max_size": 16} if name in REPLAYING else {}
        raw = {
            "agent": {
                "name": name,
                "algorithm": {"name": name, **keys},
                "memory": remembers | (memory or {}),
                "net": {"hid_layers": [], "optim_spec": {"name": "SGD", "lr": 1.0}} | (net or {}),
                **(agent or {}),
            },
            "env": {"name": "CartPole-v1", "num_envs": 1, "max_frame": 1000, **(env or {})},
        }
        return sp.from_dict(raw, "tiny")

    def make(self, name: str, action: Any = discrete, **keys: Any) -> Any:
        """The algorithm of such a spec."""
        return make(self.spec(name, **keys), Box((self.states,)), action)

    def clock(self, iteration: int = 0, frame: int = 0) -> Clock:
        """A moment in a run that remembers all of it."""
        return Clock(jnp.asarray(iteration), jnp.asarray(frame), jnp.asarray(0))

    def table(self, rows: Sequence[Sequence[float]]) -> MLP:
        """A net that gives a state's row."""
        weight = jnp.asarray(rows, jnp.float32)
        return MLP((), Linear(weight, jnp.zeros(weight.shape[1])))

    def twins(self, *tables: Sequence[Sequence[float]]) -> MLP:
        """Critics on a leading axis."""
        stacked: MLP = jax.tree.map(lambda *xs: jnp.stack(xs), *map(self.table, tables))
        return stacked

    def see(self, states: Sequence[int]) -> jax.Array:
        """Observations of states."""
        return jax.nn.one_hot(jnp.asarray(states), self.states)

    def batch(
        self,
        states: Sequence[int],
        actions: Any,
        rewards: Sequence[float],
        next_states: Sequence[int],
        terminated: Sequence[int] = (),
        truncated: Sequence[int] = (),
        **extras: Any,
    ) -> Transition:
        """Transitions [B, …]; the ends are given by their places."""
        at = range(len(states))
        ended, cut = (jnp.asarray([i in places for i in at]) for places in (terminated, truncated))
        kept = {name: jnp.asarray(x, jnp.float32) for name, x in extras.items()}
        reward = jnp.asarray(rewards, jnp.float32)
        return Transition(self.see(states), jnp.asarray(actions), reward, ended, cut, self.see(next_states), kept)

    def rollout(self, *args: Any, **more: Any) -> Transition:
        """The same as a rollout [T, 1, …] of one environment."""
        batch = self.batch(*args, **more)
        made: Transition = jax.tree.map(lambda x: x[:, None], batch)
        return made

    def random_rollout(self, algorithm: Algorithm, state: Any, clock: Clock, key: jax.Array) -> Transition:
        """What the algorithm does in an environment where everything is chance."""
        T, N = algorithm.horizon, algorithm.num_envs
        keys = jax.random.split(key, 4)
        obs = jax.random.normal(keys[0], (T + 1, N, self.states))
        noise = algorithm.noise(keys[1], T)
        action, extras = jax.vmap(algorithm.act, in_axes=(None, 0, None, 0))(state, obs[:-1], clock, noise)
        ends = jax.random.uniform(keys[2], (2, T, N)) < 0.2
        reward = jax.random.normal(keys[3], (T, N))
        return Transition(obs[:-1], action, reward, ends[0], ends[1] & ~ends[0], obs[1:], extras)


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    """These tests compile many small programs and run each once: optimising them is most of the time."""
    config: Any = jax.config
    config.update("jax_disable_most_optimizations", True)
    yield
    config.update("jax_disable_most_optimizations", False)
