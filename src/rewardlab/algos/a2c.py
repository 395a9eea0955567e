"""A2C: the advantage actor-critic, one gradient step on each on-policy rollout (https://arxiv.org/abs/1602.01783)."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics, made, setting
from rewardlab.maths import advantage, loss
from rewardlab.maths.normalize import RunningStats
from rewardlab.maths.reduce import standardize
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.rollout import Transition
from rewardlab.nets.actor_critic import ActorCritic, ActorCriticOptimizer
from rewardlab.nets.heads import action_distribution
from rewardlab.nets.recurrent import Recalled, in_order
from rewardlab.spec import NetSpec, Spec, SpecError


class ActorCriticState(NamedTuple):
    """Networks, how far their optimisers have come, and the scale of the returns (where values are normalised)."""

    nets: ActorCritic
    optimizer: Any
    returns: RunningStats
    opt_step: Array


class ActorCriticAlgorithm(Algorithm):
    """What A2C and PPO share: a Gaussian or categorical actor, a critic, an advantage."""

    on_policy = True
    unrolls = True
    gamma: float | Array = 0.99
    lam: float | Array = 0.95
    entropy_coef_spec: Schedule | None = None
    val_loss_coef: float | Array = 0.5
    normalize_advantage: bool = setting(True)
    normalize_v_targets: bool = setting(False)
    net_spec: NetSpec = made(static=True)
    critic_spec: NetSpec | None = made(static=True)
    optimizer: ActorCriticOptimizer = made()

    def assemble(self, spec: Spec) -> Self:
        """With the networks and optimisers of the spec."""
        if spec.agent.net.shared and spec.agent.critic_net is not None:
            raise SpecError("agent.critic_net has no effect where agent.net.shared is true: leave one of them out")
        optimizer = ActorCriticOptimizer.create(spec)
        return self.replace(net_spec=spec.agent.net, critic_spec=spec.agent.critic_net, optimizer=optimizer)

    def init(self, key: PRNGKeyArray) -> ActorCriticState:
        """Fresh networks."""
        nets = ActorCritic.create(key, self.net_spec, self.critic_spec, self.observation, self.action)
        return ActorCriticState(nets, self.optimizer.init(nets), RunningStats.create(()), jnp.zeros((), jnp.int32))

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """For draws from π."""
        return action_distribution(self.action).noise(key, self.noise_shape(steps))

    def blank(self, policy: ActorCritic, count: int) -> Any:
        """What its recurrent layers remember."""
        return policy.blank(count)

    def remember(self, policy: ActorCritic, obs: Recalled) -> Any:
        """What they remember after observations."""
        return policy.remember(obs)

    def act(self, state: ActorCriticState, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """A draw from π, and what was believed when it was drawn."""
        pi, value = state.nets(obs)
        action = pi.sample(noise)
        return action, {"log_prob": pi.log_prob(action), "value": value}

    def policy(self, state: ActorCriticState) -> ActorCritic:
        """The networks."""
        return state.nets

    def play(self, policy: ActorCritic, obs: Array, key: PRNGKeyArray) -> Array:
        """The likeliest action."""
        return policy.distribution(obs).mode()

    def entropy_coef(self, clock: Clock) -> Array:
        """How much entropy is worth at this moment."""
        return jnp.zeros(()) if self.entropy_coef_spec is None else self.entropy_coef_spec(clock.frame)

    def raw_values(self, state: ActorCriticState, rollout: Transition) -> tuple[Array, Array]:
        """V at each step and V where each step led, in units of reward."""
        value, next_value = rollout.extras["value"], state.nets.value(rollout.next_obs)
        if not self.normalize_v_targets:
            return value, next_value
        scale, shift = jnp.sqrt(state.returns.var + 1e-8), state.returns.mean
        return value * scale + shift, next_value * scale + shift

    def advantages(self, state: ActorCriticState, rollout: Transition) -> tuple[Array, Array]:
        """GAE and the critic's targets, in units of reward."""
        value, next_value = self.raw_values(state, rollout)
        gae = advantage.gae(
            rollout.reward, value, next_value, rollout.terminated, rollout.truncated, self.gamma, self.lam
        )
        return gae, gae + value

    def normalize_targets(self, state: ActorCriticState, target: Array) -> tuple[RunningStats, Array]:
        """Targets in the critic's units, and the statistics that define them."""
        if not self.normalize_v_targets:
            return state.returns, target
        returns = state.returns.update(target.reshape(-1))
        return returns, (target - returns.mean) / jnp.sqrt(returns.var + 1e-8)

    def metrics(self, state: ActorCriticState, clock: Clock, **more: Array) -> Metrics:
        """The columns that every actor-critic logs."""
        lr = self.optimizer.actor.learning_rate(clock.frame)
        return {"opt_step": state.opt_step, "lr": lr, "entropy_coef": self.entropy_coef(clock), **more}


class A2C(ActorCriticAlgorithm):
    """One joint step per rollout of `training_frequency` vector steps; `num_step_returns` n takes n-step returns in
    place of GAE."""

    training_frequency: int = setting(32)
    num_step_returns: int | None = setting(None)
    policy_loss_coef: float | Array = 1.0

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.training_frequency

    def learn(
        self, state: ActorCriticState, rollout: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[ActorCriticState, Metrics]:
        """One gradient step on the whole rollout."""
        if self.num_step_returns is None:
            advantages, target = self.advantages(state, rollout)
        else:
            value, next_value = self.raw_values(state, rollout)
            ends = rollout.terminated, rollout.truncated
            target = advantage.n_step_return(rollout.reward, next_value, *ends, self.gamma, self.num_step_returns)
            advantages = target - value
        if self.normalize_advantage:
            advantages = standardize(advantages)
        returns, target = self.normalize_targets(state, target)
        entropy_coef = self.entropy_coef(clock)

        def objective(nets: ActorCritic) -> tuple[Array, Metrics]:
            pi, value = nets(in_order(rollout.obs, rollout.done))
            policy_loss = loss.policy_gradient(pi.log_prob(rollout.action), advantages)
            value_loss = loss.mse(value, target).mean()
            entropy = pi.entropy().mean()
            total = self.policy_loss_coef * policy_loss - entropy_coef * entropy + self.val_loss_coef * value_loss
            return total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

        (total, parts), grads = jax.value_and_grad(objective, has_aux=True)(state.nets)
        nets, optimizer, norm = self.optimizer.step(state.nets, grads, state.optimizer, clock.frame)
        state = ActorCriticState(nets, optimizer, returns, state.opt_step + 1)
        return state, self.metrics(state, clock, loss=total, grad_norm=norm, **parts)
