"""The API: a policy written for CoGames, with nothing but its imports changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import (
    Action,
    AgentObservation,
    AgentPolicy,
    MultiAgentPolicy,
    PolicyEnvInterface,
    PolicyRegistryMeta,
    StatefulAgentPolicy,
    StatefulPolicyImpl,
)
from rewardlab.cogs.rules import Rules

INFO = PolicyEnvInterface.from_rules(Rules())
FEATURE = INFO.feature_id


def raw(*tokens: tuple[int, str, int]) -> Any:
    """One padded observation."""
    padded = np.full((200, 3), 255, np.uint8)
    for i, (location, name, value) in enumerate(tokens):
        padded[i] = (location, FEATURE[name], value)
    return padded


# As CoGames' tutorials write them: a stateful walker that turns where it is blocked, and its container.


@dataclass
class WalkerState:
    heading: str
    steps: int = 0


class WalkerImpl(StatefulPolicyImpl[WalkerState]):
    def __init__(self, policy_env_info: PolicyEnvInterface, agent_id: int):
        self._walls = {i for i, tag in enumerate(policy_env_info.tags) if tag == "type:wall"}
        self._centre = (policy_env_info.obs_height // 2, policy_env_info.obs_width // 2)
        self._agent_id = agent_id

    def initial_agent_state(self) -> WalkerState:
        return WalkerState(heading="move_north")

    def step_with_state(self, obs: AgentObservation, state: WalkerState) -> tuple[Action, WalkerState]:
        ahead = (self._centre[0] - 1, self._centre[1])
        for token in obs.tokens:
            if token.feature.name == "tag" and token.location == ahead and token.value in self._walls:
                state.heading = "move_east"
        state.steps += 1
        return Action(name=state.heading), state


class WalkerPolicy(MultiAgentPolicy):
    short_names = ["test_walker"]  # noqa: RUF012 (as it was written there)

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", start: int = 0, **kwargs: Any):
        super().__init__(policy_env_info, device=device, **kwargs)
        self._made: dict[int, StatefulAgentPolicy[WalkerState]] = {}

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        if agent_id not in self._made:
            impl = WalkerImpl(self._policy_env_info, agent_id)
            self._made[agent_id] = StatefulAgentPolicy(impl, self._policy_env_info, agent_id=agent_id)
        return self._made[agent_id]


def test_a_ported_policy_plays() -> None:
    policy = WalkerPolicy(INFO)
    actions = np.zeros(2, np.int32)
    wall = INFO.tags.index("type:wall")
    policy.step_batch(np.stack([raw(), raw((0x45, "tag", wall))]), actions)
    assert [INFO.action_names[a] for a in actions] == ["move_north", "move_east"]
    policy.step_batch(np.stack([raw(), raw()]), actions)
    assert [INFO.action_names[a] for a in actions] == ["move_north", "move_east"]  # the heading is kept
    policy.reset()
    policy.step_batch(np.stack([raw(), raw()]), actions)
    assert [INFO.action_names[a] for a in actions] == ["move_north", "move_north"]


def test_short_names_are_registered() -> None:
    assert PolicyRegistryMeta.registry["test_walker"] is WalkerPolicy


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(CogsError, match="takes no argument 'speed'"):
        WalkerPolicy(INFO, speed=3)


def test_what_a_policy_knows_of_its_environment() -> None:
    assert INFO.num_agents == 8
    assert INFO.observation_space.shape == (200, 3)
    assert INFO.action_space.n == len(INFO.action_names) == 12
    assert (INFO.obs_height, INFO.obs_width) == (11, 11)
    assert INFO.tag_id_to_name[INFO.tags.index("type:junction")] == "type:junction"


def test_tokens_say_where_and_what() -> None:
    given = raw((254, "last_action", 3), (0x55, "inv:energy", 20), (0x0A, "tag", 2))
    obs = INFO.observation(5, given)
    assert obs.agent_id == 5
    whole, own, corner = obs.tokens
    assert whole.is_global
    assert whole.location is None
    assert (own.feature.name, own.value, own.location) == ("inv:energy", 20, (5, 5))
    assert (corner.row(), corner.col()) == (0, 10)
    assert (whole.row(), whole.col()) == (-1, -1)
    np.testing.assert_array_equal(obs.raw(200), given)


def test_a_policy_without_a_step_says_so() -> None:
    with pytest.raises(NotImplementedError, match="step"):
        AgentPolicy(INFO).step(INFO.observation(0, raw()))
