"""CoGsGuard as a Gymnasium vector environment: every cog of every episode is one of its environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import NDArray

from rewardlab.cogs.env import EnvState, make_env
from rewardlab.cogs.missions import Mission, make_mission
from rewardlab.cogs.rules import ACTIONS

Seen = NDArray[np.uint8]


class CogsVectorEnv(gym.vector.VectorEnv[Seen, NDArray[np.integer[Any]], NDArray[Any]]):
    """`episodes` games at once, `episodes` × cogs environments: cog `a` of game `e` is number `e · cogs + a`.

    A game that ends begins anew in the same step: `obs` is then the next one's first observation, and
    `infos["final_obs"]` the true last one.
    """

    def __init__(self, mission: str | Mission = "cogsguard_arena.basic", episodes: int = 1, maps: int = 16) -> None:
        self.mission = make_mission(mission) if isinstance(mission, str) else mission
        self.games = make_env(self.mission, episodes, maps=maps)
        self.num_envs = episodes * self.games.num_agents
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.single_observation_space = Box(0, 255, (self.mission.rules.tokens, 3), np.uint8)
        self.single_action_space = Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space: MultiDiscrete = batch_space(self.single_action_space, self.num_envs)
        self._begin, self._advance = jax.jit(self.games.reset), jax.jit(self._step)
        self._key, self._count = jax.random.key(0), 0
        self._state: EnvState | None = None

    def _step(self, state: EnvState, actions: Array, key: PRNGKeyArray) -> Any:
        """A step, and what was seen before any game began anew."""
        step_key, _ = jax.random.split(key)
        last, _ = self.games.engine.step(state.game, actions.T, step_key)
        state, step = self.games.step(state, actions, key)
        over = jnp.any(step.terminated | step.truncated)
        final = jax.lax.cond(over, lambda: self.games.engine.observe(last)[1], lambda: step.obs)
        return state, step, final

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Fresh games."""
        if seed is not None:
            self._key, self._count = jax.random.key(seed), 0
        self._state, seen = self._begin(self._next_key())
        return self._flat(seen), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """One step of all games."""
        if self._state is None:
            raise RuntimeError("There are no games yet: call reset first.")
        by_game = np.asarray(actions, np.int32).reshape(-1, self.games.num_agents)
        self._state, step, final = self._advance(self._state, by_game, self._next_key())
        cogs = self.games.num_agents
        terminated, truncated = (np.repeat(np.asarray(flag), cogs) for flag in (step.terminated, step.truncated))
        infos: dict[str, Any] = {"success": self._flat(step.success)}
        if (over := terminated | truncated).any():
            infos |= {"final_obs": self._flat(final), "_final_obs": over}
            infos |= {"episode_return": self._flat(step.episode_return), "_episode_return": over}
        return self._flat(step.obs), self._flat(step.reward), terminated, truncated, infos

    def _next_key(self) -> PRNGKeyArray:
        self._count += 1
        return jax.random.fold_in(self._key, self._count)

    def _flat(self, values: Any) -> NDArray[Any]:
        """[games, cogs, …] as [environments, …]."""
        flat: NDArray[Any] = np.asarray(values).reshape(self.num_envs, *np.shape(values)[2:])
        return flat
