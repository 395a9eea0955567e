"""What a policy is. Same names and signatures as CoGames', so that a policy of its ports by changing its imports."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.rules import ACTIONS, EMPTY_BYTE, FEATURES, GLOBAL_LOCATION, TOKEN_BASE, Rules

StateType = TypeVar("StateType")
Raw = NDArray[np.uint8]  # [tokens, 3]: location, feature, value
Structures = dict[tuple[int, int], tuple[str, str | None]]  # by rows and columns from the hub: kind; own, enemy or None


@dataclass(frozen=True)
class ObservationFeatureSpec:
    """A kind of token."""

    id: int
    name: str
    normalization: float = 1.0


@dataclass(frozen=True)
class ObservationSpace:
    """The shape and type of one agent's observation."""

    shape: tuple[int, ...]
    dtype: Any = np.uint8
    low: int = 0
    high: int = TOKEN_BASE - 1


@dataclass(frozen=True)
class ActionSpace:
    """How many actions there are."""

    n: int
    dtype: Any = np.int32


@dataclass(frozen=True)
class PolicyEnvInterface:
    """What a policy may know of its environment before it starts."""

    obs_features: list[ObservationFeatureSpec]
    tags: list[str]
    action_names: list[str]
    num_agents: int
    observation_space: ObservationSpace
    obs_width: int
    obs_height: int

    @property
    def action_space(self) -> ActionSpace:
        """One of the actions."""
        return ActionSpace(len(self.action_names))

    @property
    def tag_id_to_name(self) -> dict[int, str]:
        """The tags by the value of their token."""
        return dict(enumerate(self.tags))

    @cached_property
    def feature_id(self) -> dict[str, int]:
        """The features' ids by name."""
        return {feature.name: feature.id for feature in self.obs_features}

    @cached_property
    def _feature(self) -> dict[int, ObservationFeatureSpec]:
        return {feature.id: feature for feature in self.obs_features}

    @classmethod
    def from_rules(cls, rules: Rules) -> PolicyEnvInterface:
        """The interface of a game under these rules."""
        return cls(
            obs_features=[ObservationFeatureSpec(i, name, float(TOKEN_BASE)) for i, name in enumerate(FEATURES.names)],
            tags=list(rules.tags),
            action_names=list(ACTIONS),
            num_agents=rules.num_agents,
            observation_space=ObservationSpace((rules.tokens, 3)),
            obs_width=rules.window,
            obs_height=rules.window,
        )

    def observation(self, agent_id: int, raw: Raw) -> AgentObservation:
        """The tokens of a raw observation, in order, without its padding."""
        tokens = [
            ObservationToken(self._feature[feature], value, (location, feature, value))
            for location, feature, value in raw.tolist()
            if location != EMPTY_BYTE
        ]
        return AgentObservation(agent_id, tokens)


@dataclass(frozen=True)
class ObservationToken:
    """One fact that an agent sees."""

    feature: ObservationFeatureSpec
    value: int
    raw_token: tuple[int, int, int]

    @property
    def location(self) -> tuple[int, int] | None:
        """Row and column in the agent's window; None for what is true everywhere."""
        packed = self.raw_token[0]
        return None if packed == GLOBAL_LOCATION else (packed >> 4, packed & 15)

    @property
    def is_global(self) -> bool:
        """Whether it belongs to no cell."""
        return self.raw_token[0] == GLOBAL_LOCATION

    def row(self) -> int:
        """The row in the agent's window, -1 for a global token."""
        return self.location[0] if self.location else -1

    def col(self) -> int:
        """The column in the agent's window, -1 for a global token."""
        return self.location[1] if self.location else -1


@dataclass(frozen=True)
class AgentObservation:
    """What one agent sees at one step."""

    agent_id: int
    tokens: Sequence[ObservationToken]

    def raw(self, size: int) -> Raw:
        """The tokens as the engine writes them, padded."""
        padded: Raw = np.full((size, 3), EMPTY_BYTE, np.uint8)
        if self.tokens:
            padded[: len(self.tokens)] = [token.raw_token for token in self.tokens][:size]
        return padded


@dataclass(frozen=True)
class Action:
    """What an agent does."""

    name: str


@dataclass(frozen=True)
class PolicySpec:
    """How to make a policy: a class by its path, its weights, its arguments."""

    class_path: str
    data_path: str | None = None
    init_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A short name for tables."""
        return self.class_path.rsplit(".", 1)[-1]


class PolicyRegistryMeta(ABCMeta):
    """Registers every policy class under its `short_names`."""

    registry: ClassVar[dict[str, type[MultiAgentPolicy]]] = {}

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        for short in namespace.get("short_names") or ():
            PolicyRegistryMeta.registry[short] = cls  # type: ignore[assignment]


class AgentPolicy:
    """Decides for one agent."""

    def __init__(self, policy_env_info: PolicyEnvInterface) -> None:
        self._policy_env_info = policy_env_info
        self.infos: dict[str, Any] = {}  # shown by the views

    @property
    def policy_env_info(self) -> PolicyEnvInterface:
        """What is known of the environment."""
        return self._policy_env_info

    def step(self, obs: AgentObservation) -> Action:
        """The action for what the agent sees now."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it acts: it needs a step(obs).")

    def reset(self, simulation: object | None = None) -> None:
        """Before an episode."""


class MultiAgentPolicy(metaclass=PolicyRegistryMeta):
    """Decides for some or all agents of an episode."""

    short_names: ClassVar[list[str] | None] = None

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", **kwargs: Any) -> None:
        if kwargs:
            raise CogsError(f"Policy {type(self).__name__} takes no argument {', '.join(map(repr, kwargs))}.")
        self._policy_env_info = policy_env_info
        self._device = device
        self._agents: dict[int, AgentPolicy] = {}

    @property
    def policy_env_info(self) -> PolicyEnvInterface:
        """What is known of the environment."""
        return self._policy_env_info

    @abstractmethod
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """The policy of one agent."""

    def load_policy_data(self, policy_data_path: str) -> None:
        """Read weights; policies without any have nothing to read."""

    def save_policy_data(self, policy_data_path: str) -> None:
        """Write weights; policies without any have nothing to write."""

    def network(self) -> Any:
        """The network of a trainable policy, else None."""
        return None

    def structures(self, agent_id: int) -> Structures | None:
        """What an agent believes to stand where; None for policies that do not say. The diagnostics check it."""
        return None

    def infos(self, agent_id: int) -> dict[str, Any]:
        """What the views show of an agent."""
        agent = self._agents.get(agent_id)
        return dict(agent.infos) if agent is not None else {}

    def reset(self) -> None:
        """Before an episode."""
        for agent in self._agents.values():
            agent.reset()

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """Write the actions of all agents for their raw observations [agents, tokens, 3]."""
        info = self._policy_env_info
        for agent_id, raw in enumerate(raw_observations):
            if agent_id not in self._agents:
                self._agents[agent_id] = self.agent_policy(agent_id)
                self._agents[agent_id].reset()
            action = self._agents[agent_id].step(info.observation(agent_id, raw))
            raw_actions[agent_id] = info.action_names.index(action.name)


class StatefulPolicyImpl(Generic[StateType]):
    """Decisions that carry a state, which their agent keeps."""

    def reset(self, simulation: object | None = None) -> None:
        """Before an episode."""

    @abstractmethod
    def initial_agent_state(self) -> StateType:
        """The state of an agent at the start."""

    def step_with_state(self, obs: AgentObservation, state: StateType) -> tuple[Action, StateType]:
        """The action and the state after it."""
        raise NotImplementedError(f"{type(self).__name__} needs a step_with_state(obs, state).")


class StatefulAgentPolicy(AgentPolicy, Generic[StateType]):
    """An agent that keeps the state of a `StatefulPolicyImpl` between steps."""

    def __init__(
        self,
        base_policy: StatefulPolicyImpl[StateType],
        policy_env_info: PolicyEnvInterface,
        agent_id: int | None = None,
    ) -> None:
        super().__init__(policy_env_info)
        self._base_policy, self._agent_id = base_policy, agent_id
        self._state: StateType | None = None

    def step(self, obs: AgentObservation) -> Action:
        """The action of the base policy; its state is kept."""
        if self._state is None:
            self.reset()
        action, self._state = self._base_policy.step_with_state(obs, self._state)  # type: ignore[arg-type]
        return action

    def reset(self, simulation: object | None = None) -> None:
        """Back to the initial state."""
        self._base_policy.reset(simulation)
        self._state = self._base_policy.initial_agent_state()
