"""CoGsGuard as a PettingZoo parallel environment (`pip install "rewardlab[pettingzoo]"`)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from rewardlab.cogs.missions import Mission, make_mission
from rewardlab.cogs.rules import ACTIONS
from rewardlab.cogs.simulation import Simulation

Tokens = NDArray[np.uint8]
PerAgent = dict[str, Any]


class CogsParallelEnv(ParallelEnv):
    """Every cog is an agent: token observations [200, 3], 12 actions. Each `reset` plays another map, by its seed."""

    metadata: ClassVar[dict[str, Any]] = {"name": "cogsguard_v0", "render_modes": ["ansi"], "is_parallelizable": True}

    def __init__(self, mission: str | Mission = "cogsguard_arena.basic", render_mode: str | None = None) -> None:
        self.mission = make_mission(mission) if isinstance(mission, str) else mission
        self.render_mode = render_mode
        rules = self.mission.rules
        self.possible_agents = [f"cog_{i}" for i in range(rules.num_agents)]
        self.agents: list[str] = []
        self.observation_spaces = {name: Box(0, 255, (rules.tokens, 3), np.uint8) for name in self.possible_agents}
        self.action_spaces = {name: Discrete(len(ACTIONS)) for name in self.possible_agents}
        self._seeds = np.random.default_rng()
        self._simulation: Simulation | None = None

    def observation_space(self, agent: str) -> Box:
        """What a cog sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """What a cog can do."""
        return self.action_spaces[agent]

    @property
    def simulation(self) -> Simulation:
        """The episode as it stands."""
        if self._simulation is None:
            raise RuntimeError("There is no episode yet: call reset first.")
        return self._simulation

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[PerAgent, PerAgent]:
        """A fresh episode; the same seed gives the same one."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        number = int(self._seeds.integers(2**31))
        self._simulation = Simulation(self.mission, seed=number)
        self.agents = list(self.possible_agents)
        return self._each(self.simulation.observations), {name: {} for name in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[PerAgent, PerAgent, PerAgent, PerAgent, PerAgent]:
        """One step of all cogs; one that is not told does nothing."""
        acted = [int(actions.get(name, 0)) for name in self.possible_agents]
        seen = self.simulation.step(acted)
        result = (
            self._each(seen.observations),
            self._each(seen.rewards.astype(float).tolist()),
            dict.fromkeys(self.agents, seen.terminated),
            dict.fromkeys(self.agents, seen.truncated),
            {name: {"success": bool(seen.success[i])} for i, name in enumerate(self.agents)},
        )
        if self.simulation.done:
            self.agents = []
        return result

    def _each(self, values: Any) -> PerAgent:
        return dict(zip(self.possible_agents, values, strict=True))

    def render(self) -> str | None:
        """The map in ASCII."""
        return self.simulation.text() if self.render_mode == "ansi" else None

    def state(self) -> Tokens:
        """All observations."""
        return self.simulation.observations

    def close(self) -> None:
        """Nothing is held open."""
