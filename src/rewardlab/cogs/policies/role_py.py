"""A crew of scripted cogs in plain Python: `role_py`, and what the named crews derive from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.policies.api import (
    Action,
    AgentObservation,
    AgentPolicy,
    MultiAgentPolicy,
    PolicyEnvInterface,
    Structures,
)
from rewardlab.cogs.policies.beliefs import of_boards
from rewardlab.cogs.policies.bitboard import CENTRE, NOWHERE, SIZE
from rewardlab.cogs.policies.mind import Mind
from rewardlab.cogs.policies.settings import MODES, ROLES, Settings
from rewardlab.cogs.policies.team import Team
from rewardlab.cogs.rules import ACTIONS


class Scripted(MultiAgentPolicy):
    """A crew of cogs that share one map."""

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", **kwargs: Any) -> None:
        super().__init__(policy_env_info, device)
        self.team = Team(policy_env_info, self.settings(**kwargs))
        self.mind = Mind(self.team)
        self.claimed: set[int] = set()
        self.claimed_at = self.told_at = -1
        self.told: Structures = {}

    @classmethod
    def settings(cls, **kwargs: Any) -> Settings:
        """The crew that the arguments ask for."""
        return Settings(**kwargs)

    def reset(self) -> None:
        """Forget the episode."""
        self.team.reset()
        self.claimed_at = self.told_at = -1

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """A cog of the crew."""
        self.team.join(agent_id)
        if agent_id not in self._agents:
            self._agents[agent_id] = ScriptedCog(self, agent_id)
        return self._agents[agent_id]

    def decide(self, agent_id: int) -> int:
        """The action of one cog, once `team` is up to date."""
        if self.claimed_at != self.team.step:
            self.claimed, self.claimed_at = set(), self.team.step
        return self.mind.decide(self.team.cogs[agent_id], self.claimed)

    def structures(self, agent_id: int) -> Structures | None:
        """The map that all share."""
        if self.told_at != self.team.step:
            self.told, self.told_at = of_boards(self.team.planes), self.team.step
        return self.told

    def infos(self, agent_id: int) -> dict[str, Any]:
        """The role of a cog, and what it is about."""
        cog = self.team.cogs[agent_id]
        return {"role": ROLES[cog.role], "about": MODES[cog.mode]}

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """All cogs see, then all decide."""
        agents = range(len(raw_observations))
        for agent_id in agents:
            self.team.join(agent_id)
        for agent_id in agents:
            self.team.see(agent_id, raw_observations[agent_id])
        self.team.update()
        for agent_id in agents:
            raw_actions[agent_id] = self.decide(agent_id)
            cog = self.team.cogs[agent_id]
            self.agent_policy(agent_id).infos = told(cog.role, cog.mode, cog.target)


def told(role: int, mode: int, target: int) -> dict[str, Any]:
    """What the views show of a cog; a target is rows south and columns east of the hub."""
    row, column = divmod(target, SIZE)
    place = (row - CENTRE, column - CENTRE) if target != NOWHERE else None
    return {"role": ROLES[role], "about": MODES[mode], "target": place}


class ScriptedCog(AgentPolicy):
    """One cog; it sees and decides when it is asked, with what the others saw before."""

    def __init__(self, crew: Scripted, agent_id: int) -> None:
        super().__init__(crew.policy_env_info)
        self.crew, self.agent_id = crew, agent_id

    def step(self, obs: AgentObservation) -> Action:
        """See, think, act."""
        team = self.crew.team
        team.see(self.agent_id, obs.raw(self.policy_env_info.observation_space.shape[0]))
        team.update()
        action = ACTIONS[self.crew.decide(self.agent_id)]
        cog = team.cogs[self.agent_id]
        self.infos = told(cog.role, cog.mode, cog.target)
        return Action(action)

    def reset(self, simulation: object | None = None) -> None:
        """Before an episode: the whole crew forgets, once."""
        if self.crew.team.step >= 0:
            self.crew.reset()
