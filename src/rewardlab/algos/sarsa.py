"""SARSA: on-policy action values, Q ← r + γ Q(s′, a′) with the action that was really taken next."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics, made, setting
from rewardlab.algos.dqn import EXPLORATION, check_q_learner
from rewardlab.envs.base import Discrete
from rewardlab.maths import advantage, loss
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import QNet
from rewardlab.nets.optimizer import Optimizer
from rewardlab.spec import NetSpec, Spec


class SarsaState(NamedTuple):
    """Action values and how far their optimiser has come."""

    net: QNet
    optimizer: Any
    opt_step: Array


class SARSA(Algorithm):
    """One gradient step per rollout of `training_frequency` vector steps. At a time limit and at the rollout's end,
    where the next action was not taken from where this one led, it is drawn there from the same exploring policy."""

    on_policy = True
    action: Discrete = made(static=True)
    gamma: float | Array = 0.99
    training_frequency: int = setting(32)
    action_policy: str = setting("epsilon_greedy")
    explore_var_spec: Schedule = Schedule("linear_decay", 1.0, 0.05, 0.0, 10_000.0)
    net_spec: NetSpec = made(static=True)
    optimizer: Optimizer = made()

    def assemble(self, spec: Spec) -> Self:
        """With the network and optimiser of the spec."""
        check_q_learner("SARSA", self.action, self.action_policy)
        net = spec.agent.net
        return self.replace(net_spec=net, optimizer=Optimizer.create(net, None, spec.env.max_frame))

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.training_frequency

    def init(self, key: PRNGKeyArray) -> SarsaState:
        """A fresh network."""
        net = QNet.create(key, self.net_spec, self.observation, self.action, self.net_spec.dueling)
        return SarsaState(net, self.optimizer.init(net), jnp.zeros((), jnp.int32))

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """For exploring."""
        return EXPLORATION[self.action_policy].noise(key, self.noise_shape(steps))

    def explore(self, q: Array, clock: Clock, noise: Array) -> Array:
        """ε-greedy, each environment by itself, or Boltzmann."""
        return EXPLORATION[self.action_policy](q, self.explore_var_spec(clock.frame)).sample(noise)

    def act(self, state: SarsaState, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """An exploring action."""
        return self.explore(state.net(obs), clock, noise), {}

    def learn(
        self, state: SarsaState, rollout: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[SarsaState, Metrics]:
        """One gradient step on the whole rollout."""
        q_next = state.net(rollout.next_obs)
        drawn = self.explore(q_next, clock, self.noise(key, self.horizon))
        taken = jnp.concatenate([rollout.action[1:], drawn[-1:]])
        next_action = jnp.where(rollout.truncated, drawn, taken)
        next_value = jnp.take_along_axis(q_next, next_action[..., None], axis=-1)[..., 0]
        target = advantage.td_target(rollout.reward, next_value, rollout.terminated, self.gamma)
        regression = loss.REGRESSION[self.net_spec.loss_spec.name]

        def objective(net: QNet) -> tuple[Array, Array]:
            q = jnp.sum(net(rollout.obs) * jax.nn.one_hot(rollout.action, self.action.n), axis=-1)
            return regression(q, target).mean(), q.mean()

        (value, q), grads = jax.value_and_grad(objective, has_aux=True)(state.net)
        net, optimizer, norm = self.optimizer.step(state.net, grads, state.optimizer, clock.frame)
        state = SarsaState(net, optimizer, state.opt_step + 1)
        metrics = {
            "opt_step": state.opt_step,
            "loss": value,
            "lr": self.optimizer.learning_rate(clock.frame),
            "explore_var": self.explore_var_spec(clock.frame),
            "q": q,
            "grad_norm": norm,
        }
        return state, metrics

    def policy(self, state: SarsaState) -> QNet:
        """The network."""
        return state.net

    def play(self, policy: QNet, obs: Array, key: PRNGKeyArray) -> Array:
        """The best action."""
        return jnp.argmax(policy(obs), axis=-1)
