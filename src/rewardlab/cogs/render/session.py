"""Episodes that a view can follow: one played by the engine, one read from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.render.camera import make_camera
from rewardlab.cogs.render.replay import Replay
from rewardlab.cogs.render.scene import Infos, Scene, Setting, Summary
from rewardlab.cogs.simulation import Simulation

Actions = NDArray[np.integer[Any]]
Decide = Callable[[NDArray[np.uint8]], tuple[Actions, Infos]]  # observations [cogs, tokens, 3] → actions, what is said


class LiveSession:
    """An episode of the engine: `decide` is asked once a step for all cogs, and the person may overrule it."""

    def __init__(self, simulation: Simulation, decide: Decide, *, seed: int = 0, policies: Sequence[str] = ()) -> None:
        self.simulation, self.decide = simulation, decide
        self.camera = make_camera(
            simulation.rules,
            simulation._pool,
            simulation.layout,
            mission=simulation.mission.full_name,
            seed=seed,
            map_seed=simulation.map_seed,
            policies=policies,
        )
        self._scene = self.camera.first(simulation._state)

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
        return self.simulation.done

    def advance(self, steer: Mapping[int, int]) -> Scene:
        """Ask the policy, let the person overrule it, step."""
        decided, infos = self.decide(self.simulation.observations)
        actions = np.array(decided, np.int32)
        for cog, action in steer.items():
            actions[cog] = action
        step = self.simulation.step(actions)
        self._scene = self.camera.next(self._scene, self.simulation._state, actions, step.success, step.rewards, infos)
        return self._scene

    def summary(self) -> Summary:
        """Rewards, and the original's statistics."""
        rewards = tuple(self._scene.reward(cog) for cog in range(self.setting.cogs))
        return Summary(self._scene.step, self.over, rewards, self.simulation.stats())


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
