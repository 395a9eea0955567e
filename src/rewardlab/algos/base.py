"""What an algorithm is: pure functions over its own state, driven by a loop it knows nothing of.

The fields of an algorithm are the keys of a spec's `agent.algorithm`. Numbers that a search may vary are array leaves,
so that a population of trials is one compiled program; sizes and names are static. One session is written; the trial
maps over sessions. The clock is the same for all sessions and is never mapped: what depends on it alone stays a plain
branch.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from rewardlab.envs.base import Box, Discrete, Space
from rewardlab.memory.rollout import Transition
from rewardlab.nets.mlp import body_layers, is_recurrent
from rewardlab.nets.recurrent import Recalled
from rewardlab.spec import NetSpec, OptimSpec, Spec, SpecError, build

# what is not a key of the spec's `agent.algorithm` but made from the rest of it
made: Any = lambda **kw: eqx.field(default=None, metadata={"spec": False}, **kw)  # noqa: E731
setting: Any = lambda default: eqx.field(default=default, static=True)  # noqa: E731

State = Any
Policy = Any  # what is needed to act and no more: it is what a best checkpoint holds
Metrics = dict[str, Array]
A = TypeVar("A", bound="Algorithm")


class Clock(NamedTuple):
    """Where the run stands: learning iterations done, frames seen (of one session), and the frame from which memory
    reaches back to now: 0, unless the run was resumed without its replay."""

    iteration: Int[Array, ""]
    frame: Int[Array, ""]
    memory_start: Int[Array, ""]


class Algorithm(eqx.Module):
    """The contract, with what all of them share."""

    on_policy: ClassVar[bool]
    unrolls: ClassVar[bool] = False  # so that recurrent layers can be in its nets
    critic_keeps_statistics: ClassVar[bool] = False  # so that batch renorm can be in the critic's net

    name: str = setting("")
    observation: Box = made(static=True)
    action: Space = made(static=True)
    num_envs: int = made(static=True)

    @classmethod
    def from_spec(cls, spec: Spec, observation: Box, action: Space) -> Self:
        """The algorithm of a checked spec, in an environment with these spaces."""
        cls.check_nets(spec)
        algorithm = build(cls, spec.agent.algorithm, "agent.algorithm")
        if spec.env.normalize_obs or spec.env.clip_obs is not None:
            observation = dataclasses.replace(observation, dtype="float32")
        algorithm = algorithm.replace(observation=observation, action=action, num_envs=spec.env.num_envs)
        return floats_to_arrays(shapes_only(algorithm.assemble(spec)))

    @classmethod
    def check_nets(cls, spec: Spec) -> None:
        """Refuses batch renorm where nothing keeps its running statistics, and memory where nothing unrolls it."""
        for where, net in (("agent.net", spec.agent.net), ("agent.critic_net", spec.agent.critic_net)):
            if net is not None and is_recurrent(net) and not cls.unrolls:
                raise SpecError(
                    f"{where} has a recurrent layer, which learns from sequences: take PPO, A2C or REINFORCE, not "
                    f"{cls.__name__}"
                )
            kept = cls.critic_keeps_statistics and where == "agent.critic_net"
            if net is not None and not kept and any("batch_renorm" in layer for layer in body_layers(net)):
                raise SpecError(
                    f"{where} has batch_renorm, which works in the critic_net of CrossQ only; take layer_norm here"
                )

    def assemble(self, spec: Spec) -> Self:
        """With networks, optimisers and memory of the spec; refuses what cannot work together."""
        return self

    def noise_shape(self, steps: int) -> tuple[int, ...]:
        """Of noise with a number per action: [steps, N, actions]."""
        return steps, self.num_envs, self.action.n if isinstance(self.action, Discrete) else self.action.size

    def replace(self, **fields: Any) -> Self:
        """With some fields changed."""
        return dataclasses.replace(self, **fields)

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        raise NotImplementedError

    def init(self, key: PRNGKeyArray) -> State:
        """A fresh learner."""
        raise NotImplementedError

    def noise(self, key: PRNGKeyArray, steps: int) -> Any:
        """The randomness of `steps` calls of `act`, drawn at once: arrays [steps, N, …]."""
        raise NotImplementedError

    def blank(self, policy: Policy, count: int) -> Any:
        """What a policy remembers at the start of an episode, in so many environments. None: it sees what it sees; else
        what it is given as observations are `Recalled`, here and in rollouts."""
        return None

    def remember(self, policy: Policy, obs: Recalled) -> Any:
        """What it remembers after looking at observations."""
        raise NotImplementedError

    def act(self, state: State, obs: Array, clock: Clock, noise: Any) -> tuple[Array, dict[str, Array]]:
        """Actions for a batch of observations while learning (exploring), and what `learn` wants kept of the moment."""
        raise NotImplementedError

    def learn(self, state: State, rollout: Transition, clock: Clock, key: PRNGKeyArray) -> tuple[State, Metrics]:
        """The learner after one iteration on a rollout [T, N, …]."""
        raise NotImplementedError

    def policy(self, state: State) -> Policy:
        """What is needed to act."""
        raise NotImplementedError

    def play(self, policy: Policy, obs: Array, key: PRNGKeyArray) -> Array:
        """Actions when it counts: no exploration."""
        raise NotImplementedError


def shapes_only(algorithm: A) -> A:
    """Without the numbers in its networks' specs that its optimisers hold as leaves: a search that varies a learning
    rate must not vary the program."""
    nets = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(algorithm)}
    held: dict[str, Any] = {"optim_spec": OptimSpec(), "actor_optim_spec": None, "critic_optim_spec": None}
    held |= {"lr_scheduler_spec": None, "clip_grad_val": None}
    kept = {name: dataclasses.replace(net, **held) for name, net in nets.items() if isinstance(net, NetSpec)}
    return algorithm.replace(**kept)


def floats_to_arrays(algorithm: A) -> A:
    """Python floats become array leaves: traced, not compiled in."""
    made: A = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if isinstance(x, float) else x, algorithm)
    return made
