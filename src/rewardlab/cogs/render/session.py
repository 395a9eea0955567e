"""Episodes that a view can follow: one played by the engine, one read from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.render.camera import Camera
from rewardlab.cogs.render.replay import Replay
from rewardlab.cogs.render.scene import Infos, Scene, Setting, Summary
from rewardlab.cogs.state import State
from rewardlab.cogs.statistics import agent_stats, team_stats

Decision = tuple[NDArray[np.int32], Infos]  # an action per cog, and what the policy says about it
Decide = Callable[[Any], Decision]  # from the observation [cogs, …]


class EngineSession:
    """An episode of the engine: `decide` is asked once a step, for all cogs."""

    def __init__(self, engine: Engine, camera: Camera, decide: Decide, *, map_index: int = 0) -> None:
        self.engine, self.camera, self.decide = engine, camera, decide
        self._key = jax.random.key(camera.setting.seed)
        self._step = jax.jit(self._advance)
        self._start = jax.jit(engine.start)
        self.state: State = self._start(jnp.asarray([map_index]))
        self._seen = engine.observe(self.state)
        self._scene = camera.first(self.state)

    def _advance(self, state: State, actions: Any, key: Any, step: Any) -> Any:
        state, outcome = self.engine.step(state, actions[:, None], jax.random.fold_in(key, step))
        return state, outcome, self.engine.observe(state)

    @property
    def setting(self) -> Setting:
        """What stays."""
        return self.camera.setting

    @property
    def scene(self) -> Scene:
        """Now."""
        return self._scene

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self._scene.step >= self.setting.max_steps

    def advance(self, steer: Mapping[int, int]) -> Scene:
        """Ask the policy, let the person overrule it, step."""
        seen = None if self._seen is None else np.asarray(self._seen)[0]
        decided, infos = self.decide(seen)
        actions = np.array(decided, np.int32)
        for cog, action in steer.items():
            actions[cog] = action
        self.state, outcome, self._seen = self._step(self.state, jnp.asarray(actions), self._key, self._scene.step)
        success, reward = (np.asarray(x)[:, 0] for x in (outcome.success, outcome.reward))
        self._scene = self.camera.next(self._scene, self.state, actions, success, reward, infos)
        return self._scene

    def summary(self) -> Summary:
        """Rewards and the original's statistics."""
        state, rules = self.state, self.engine.rules
        stats = jax.tree.map(np.asarray, state.stats)
        inventory, store = np.asarray(state.inventory), np.asarray(state.store)
        statistics = {
            "agents": [agent_stats(inventory, stats, cog) for cog in range(self.setting.cogs)],
            "teams": team_stats(rules, store, stats),
        }
        rewards = tuple(self._scene.reward(cog) for cog in range(self.setting.cogs))
        return Summary(self._scene.step, self.over, rewards, statistics)


class ReplaySession:
    """An episode from a file, step by step; nobody can steer what has been."""

    def __init__(self, replay: Replay) -> None:
        self.replay, self._scene = replay, replay.history.scene(0)

    @property
    def setting(self) -> Setting:
        """What stays."""
        return self.replay.setting

    @property
    def scene(self) -> Scene:
        """Now."""
        return self._scene

    @property
    def over(self) -> bool:
        """Whether the file ends here."""
        return self._scene.step + 1 >= len(self.replay.history)

    def advance(self, steer: Mapping[int, int]) -> Scene:
        """The next scene of the file."""
        self._scene = self.replay.history.scene(self._scene.step + 1)
        return self._scene

    def summary(self) -> Summary:
        """As the file has it."""
        return self.replay.summary
