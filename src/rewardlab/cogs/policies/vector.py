"""Policies for many environments at once: what a trainer calls a teacher, and what plays fast."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8
from numpy.typing import NDArray

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import AgentPolicy, MultiAgentPolicy, PolicyEnvInterface
from rewardlab.cogs.policies.make import find_class
from rewardlab.cogs.policies.spec import parse_policy


class VectorPolicy(Protocol):
    """Pure functions over [environments, agents]. The state is a pytree with environments as its first axis.

    It sees observations only. `key` is for policies that throw dice; scripted ones may be called without.
    """

    def init(self, envs: int) -> Any:
        """The state of `envs` fresh episodes."""

    def act(
        self, state: Any, observations: UInt8[Array, "E A T 3"], key: PRNGKeyArray | None = None
    ) -> tuple[Int[Array, "E A"], Any]:
        """Everybody's action, and the state after it."""

    def restart(self, state: Any, over: Bool[Array, " E"]) -> Any:
        """The state with fresh episodes where the last ones are over."""


def vector_policy(text: str, info: PolicyEnvInterface) -> VectorPolicy:
    """The vectorised form of a policy as written on a command line, such as `metta://policy/cogsguard?gear=10`."""
    request = parse_policy(text)
    make = getattr(find_class(request.spec.class_path), "vector", None)
    if make is None or request.spec.data_path or request.bundle:
        raise CogsError(f"Policy {text!r} has no vectorised form: it cannot play inside a training step.")
    vector: VectorPolicy = make(info, **request.spec.init_kwargs)
    return vector


class VectorMultiAgentPolicy(MultiAgentPolicy):
    """A vectorised policy behind the API of one episode. Subclasses say which in `vector`.

    All agents decide in one compiled call; where somebody asks a single agent, the plain `twin` answers.
    """

    twin: ClassVar[type[MultiAgentPolicy]]

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", **kwargs: Any) -> None:
        super().__init__(policy_env_info, device)
        self._twin = self.twin(policy_env_info, device, **kwargs)
        self._arguments = kwargs
        self._programs: dict[int, tuple[VectorPolicy, Any]] = {}  # by how many agents play
        self._state: Any = None
        self._step = 0

    @classmethod
    def vector(cls, info: PolicyEnvInterface, agents: int | None = None, **kwargs: Any) -> VectorPolicy:
        """The vectorised policy, for a number of agents other than the environment's where one is given."""
        raise NotImplementedError(f"{cls.__name__} does not say its vectorised form.")

    def reset(self) -> None:
        """Forget the episode."""
        self._twin.reset()
        self._state, self._step = None, 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """One of the agents, in plain Python."""
        if agent_id not in self._agents:
            self._agents[agent_id] = self._twin.agent_policy(agent_id)
        return self._agents[agent_id]

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """One compiled call for all agents."""
        agents = len(raw_observations)
        if agents not in self._programs:
            vector = type(self).vector(self._policy_env_info, agents=agents, **self._arguments)
            self._programs[agents] = (vector, jax.jit(vector.act))
        vector, act = self._programs[agents]
        if self._state is None:
            self._state = vector.init(1)
        actions, self._state = act(self._state, raw_observations[None], jax.random.key(self._step))
        self._step += 1
        raw_actions[:] = np.asarray(actions[0])
        self.tell(agents, self._state)

    def tell(self, agents: int, state: Any) -> None:
        """Put into the agents' `infos` what the views should show."""
