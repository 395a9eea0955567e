"""Policies without a plan: noop, random, starter."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8

from rewardlab.cogs.policies.api import (
    Action,
    AgentObservation,
    AgentPolicy,
    MultiAgentPolicy,
    PolicyEnvInterface,
    StatefulAgentPolicy,
    StatefulPolicyImpl,
)
from rewardlab.cogs.policies.sight import PLANE, Reader, Sight
from rewardlab.cogs.rules import EXTRACTORS, MOVES


class _Uniform:
    """Vectorised: every action of a list equally likely."""

    def __init__(self, actions: int, seed: int = 0) -> None:
        self.actions, self.seed = actions, seed

    def init(self, envs: int) -> Int[Array, " E"]:
        """How many steps each environment has played: all that dice need."""
        return jnp.zeros(envs, jnp.int32)

    def act(
        self, state: Int[Array, " E"], observations: UInt8[Array, "E A T 3"], key: PRNGKeyArray | None = None
    ) -> tuple[Int[Array, "E A"], Int[Array, " E"]]:
        """Dice, or the same dice again where no key is given."""
        key = jax.random.fold_in(jax.random.key(self.seed), state[0]) if key is None else key
        return jax.random.randint(key, observations.shape[:2], 0, self.actions), state + 1

    def restart(self, state: Int[Array, " E"], over: Bool[Array, " E"]) -> Int[Array, " E"]:
        """From the start where the last one is over."""
        return jnp.where(over, 0, state)


class NoopPolicy(MultiAgentPolicy):
    """Does nothing."""

    short_names: ClassVar[list[str] | None] = ["noop"]

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """An agent at rest."""
        return _NoopAgent(self.policy_env_info)

    @classmethod
    def vector(cls, info: PolicyEnvInterface, agents: int | None = None) -> _Uniform:  # noqa: ARG003
        """The first action only."""
        return _Uniform(1)


class _NoopAgent(AgentPolicy):
    def step(self, obs: AgentObservation) -> Action:
        """Nothing."""
        return Action("noop")


class RandomPolicy(MultiAgentPolicy):
    """Every action equally likely: random?seed=0."""

    short_names: ClassVar[list[str] | None] = ["random"]

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", seed: int = 0) -> None:
        super().__init__(policy_env_info, device)
        self._dice = np.random.default_rng(seed)

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """An agent with dice of its own."""
        return _RandomAgent(self.policy_env_info, self._dice.spawn(1)[0])

    @classmethod
    def vector(cls, info: PolicyEnvInterface, agents: int | None = None, seed: int = 0) -> _Uniform:  # noqa: ARG003
        """All actions."""
        return _Uniform(len(info.action_names), seed)


class _RandomAgent(AgentPolicy):
    def __init__(self, info: PolicyEnvInterface, dice: np.random.Generator) -> None:
        super().__init__(info)
        self._dice = dice

    def step(self, obs: AgentObservation) -> Action:
        """Any."""
        names = self.policy_env_info.action_names
        return Action(names[int(self._dice.integers(len(names)))])


class StarterPolicy(MultiAgentPolicy):
    """What `make-policy --scripted` starts from: a step of each agent towards the nearest extractor or hub in view."""

    short_names: ClassVar[list[str] | None] = ["starter"]

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """An agent that remembers where it headed."""
        return StatefulAgentPolicy(_Starter(self.policy_env_info), self.policy_env_info, agent_id)


class _Starter(StatefulPolicyImpl[int]):
    """The state is the direction of the walk."""

    def __init__(self, info: PolicyEnvInterface) -> None:
        self._info, self._reader = info, Reader(info)

    def initial_agent_state(self) -> int:
        """North."""
        return 0

    def step_with_state(self, obs: AgentObservation, state: int) -> tuple[Action, int]:
        """Towards what is wanted; else straight on, turning where something is in the way."""
        sight = self._reader.read(obs.raw(self._info.observation_space.shape[0]))
        names: list[str] = list(MOVES)
        goal = self._goal(sight)
        if goal is not None:
            rows, columns = goal
            vertical = abs(rows) >= abs(columns)
            direction = int(rows > 0) if vertical else 2 + int(columns > 0)  # north, south, west, east
            if goal in MOVES.values() or self._free(sight, direction):
                return Action(names[direction]), direction
        for turn in range(len(names)):
            direction = (state + turn) % len(names)
            if self._free(sight, direction):
                return Action(names[direction]), direction
        return Action("noop"), state

    def _goal(self, sight: Sight) -> tuple[int, int] | None:
        """The nearest extractor, or the hub once something is carried; as rows and columns from the agent."""
        half_rows, half_columns = self._info.obs_height // 2, self._info.obs_width // 2
        hubs, ores = sight.window[PLANE["c:hub"]], [place for name in EXTRACTORS for place in sight.window[PLANE[name]]]
        wanted = hubs if sight.cargo else ores
        offsets = [(row - half_rows, column - half_columns) for row, column in wanted]
        return min(offsets, key=lambda offset: abs(offset[0]) + abs(offset[1]), default=None)

    def _free(self, sight: Sight, direction: int) -> bool:
        row, column = list(MOVES.values())[direction]
        place = (self._info.obs_height // 2 + row, self._info.obs_width // 2 + column)
        return not any(place in seen for seen in sight.window)
