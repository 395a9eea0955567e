"""What learning from a replay memory has in common: when to learn, what to draw, how often."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics, made, setting
from rewardlab.envs.base import Discrete, MultiDiscrete
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.replay import Replay
from rewardlab.memory.rollout import Transition
from rewardlab.spec import MemorySpec, NetSpec, Spec, SpecError, build

Learner = Any  # an algorithm's networks and optimisers


class OffPolicyState(NamedTuple):
    """A learner and what it remembers."""

    learner: Learner
    memory: Replay


class OffPolicyAlgorithm(Algorithm):
    """Every `training_frequency` vector steps, once `training_start_step` frames are in: `training_iter` batches are
    drawn and each is learned from `training_batch_iter` times."""

    on_policy = False
    gamma: float | Array = 0.99
    training_frequency: int = setting(1)
    training_start_step: int = setting(1000)
    training_iter: int | None = setting(None)
    training_batch_iter: int = setting(1)
    beta_spec: Schedule = made()
    memory_spec: MemorySpec = made(static=True)
    net_spec: NetSpec = made(static=True)

    def assemble(self, spec: Spec) -> Self:
        """With the memory and networks of the spec."""
        if isinstance(self.action, MultiDiscrete):
            raise SpecError(f"{type(self).__name__} takes one action at a time; for several choices at once take PPO")
        memory = spec.agent.memory
        if memory.name not in ("Replay", "PrioritizedReplay"):
            raise SpecError(
                f"agent.memory.name is {memory.name!r}, "
                f"but {type(self).__name__} learns from a Replay or a PrioritizedReplay"
            )
        beta = Schedule("linear_decay", 0.4, 1.0, 0.0, float(spec.env.max_frame))
        if memory.beta_spec is not None:
            beta = build(Schedule, memory.beta_spec, "agent.memory.beta_spec")
        return self.replace(memory_spec=memory, net_spec=spec.agent.net, beta_spec=beta)

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.training_frequency

    @property
    def iterations(self) -> int:
        """Batches drawn per call of `learn`; by default one per environment."""
        return self.num_envs if self.training_iter is None else self.training_iter

    def init_learner(self, key: PRNGKeyArray) -> Learner:
        """Fresh networks and optimisers."""
        raise NotImplementedError

    def update(
        self, learner: Learner, batch: Transition, weight: Array, clock: Clock, count: Array, key: PRNGKeyArray
    ) -> tuple[Learner, Array, Metrics]:
        """Step `count` on a batch: the learner, the error of each transition, metrics."""
        raise NotImplementedError

    def init(self, key: PRNGKeyArray) -> OffPolicyState:
        """A fresh learner with an empty memory."""
        number = jnp.zeros(())
        flag = jnp.zeros((), bool)
        obs = jnp.zeros(self.observation.shape, self.observation.dtype)
        space = self.action
        action = jnp.zeros((), jnp.int32) if isinstance(space, Discrete) else jnp.zeros(space.size)
        example = Transition(obs, action, number, flag, flag, obs, {})
        memory = Replay.create(example, self.memory_spec, self.horizon * self.num_envs)
        return OffPolicyState(self.init_learner(key), memory)

    def learn(
        self, state: OffPolicyState, rollout: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[OffPolicyState, Metrics]:
        """Remember, then learn, if it is time."""
        stored = clock.frame - clock.memory_start
        memory = state.memory.add(rollout._replace(extras={}), stored)
        seen = stored + self.horizon * self.num_envs

        def train(learner: Learner, rule: Any) -> tuple[Learner, Any, Metrics]:
            draw_key, update_key = jax.random.split(key)
            noise = memory.noise(draw_key, self.iterations, self.memory_spec.batch_size)
            keys = jax.random.split(update_key, (self.iterations, self.training_batch_iter))
            beta = self.beta_spec(clock.frame)

            def one(carry: tuple[Learner, Any], given: tuple[Array, Array, Array]) -> tuple[Any, Metrics]:
                (learner, rule), (i, noise, keys) = carry, given
                batch, index, weight = memory.sample(rule, noise, seen, beta)
                metrics: list[Metrics] = []
                for j in range(self.training_batch_iter):
                    count = (clock.iteration * self.iterations + i) * self.training_batch_iter + j
                    learner, error, more = self.update(learner, batch, weight, clock, count, keys[j])
                    metrics.append(more)
                mean = jax.tree.map(lambda *xs: jnp.nanmean(jnp.stack(xs)), *metrics)
                return (learner, rule.update(index, error)), mean

            given = jnp.arange(self.iterations), noise, keys
            (learner, rule), metrics = jax.lax.scan(one, (learner, rule), given)
            return learner, rule, jax.tree.map(jnp.nanmean, metrics)

        def wait(learner: Learner, rule: Any) -> tuple[Learner, Any, Metrics]:
            shapes = jax.eval_shape(train, learner, rule)[2]
            return learner, rule, jax.tree.map(lambda s: jnp.full(s.shape, jnp.nan, s.dtype), shapes)

        ready = seen > max(self.training_start_step, self.memory_spec.batch_size)
        learner, rule, metrics = jax.lax.cond(ready, train, wait, state.learner, memory.rule)
        memory = Replay(memory.data, rule, memory.use_cer)
        return OffPolicyState(learner, memory), {**self.log(learner, clock), **metrics}

    def log(self, learner: Learner, clock: Clock) -> Metrics:
        """What is logged whether it learned or not."""
        raise NotImplementedError
