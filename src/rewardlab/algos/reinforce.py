"""REINFORCE: the policy gradient with Monte-Carlo returns (Williams 1992)."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics, made, setting
from rewardlab.maths import advantage, loss
from rewardlab.maths.reduce import standardize
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import Actor, action_distribution
from rewardlab.nets.optimizer import Optimizer
from rewardlab.nets.recurrent import Recalled, in_order
from rewardlab.spec import NetSpec, Spec


class ReinforceState(NamedTuple):
    """A policy and how far its optimiser has come."""

    actor: Actor
    optimizer: Any
    opt_step: Array


class REINFORCE(Algorithm):
    """∇J = E[Σ G_t ∇ log π(a_t|s_t)] over rollouts of `training_frequency` vector steps.

    There is no critic to stand in for what lies beyond a time limit or the rollout's end: the return stops there, and
    `center_return` (the mean taken off the batch's returns) keeps that from favouring early endings.
    """

    on_policy = True
    unrolls = True
    gamma: float | Array = 0.99
    training_frequency: int = setting(512)
    center_return: bool = setting(True)
    normalize_return: bool = setting(False)
    entropy_coef_spec: Schedule | None = None
    net_spec: NetSpec = made(static=True)
    optimizer: Optimizer = made()

    def assemble(self, spec: Spec) -> Self:
        """With the optimiser of the spec."""
        net = spec.agent.net
        return self.replace(net_spec=net, optimizer=Optimizer.create(net, net.actor_optim_spec, spec.env.max_frame))

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.training_frequency

    def init(self, key: PRNGKeyArray) -> ReinforceState:
        """A fresh policy."""
        actor = Actor.create(key, self.net_spec, self.observation, self.action)
        return ReinforceState(actor, self.optimizer.init(actor), jnp.zeros((), jnp.int32))

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """For draws from π."""
        return action_distribution(self.action).noise(key, self.noise_shape(steps))

    def blank(self, policy: Actor, count: int) -> Any:
        """What its recurrent layers remember."""
        return policy.net.blank(count) or None

    def remember(self, policy: Actor, obs: Recalled) -> Any:
        """What they remember after observations."""
        return policy.net.remember(obs)

    def act(self, state: ReinforceState, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """A draw from π."""
        return state.actor(obs).sample(noise), {}

    def learn(
        self, state: ReinforceState, rollout: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[ReinforceState, Metrics]:
        """One gradient step on the whole rollout."""
        no_tail = jnp.zeros_like(rollout.reward)
        returns = advantage.discounted_return(
            rollout.reward, no_tail, rollout.terminated, rollout.truncated, self.gamma
        )
        if self.normalize_return:
            returns = standardize(returns)
        elif self.center_return:
            returns = returns - returns.mean()
        entropy_coef = 0.0 if self.entropy_coef_spec is None else self.entropy_coef_spec(clock.frame)

        def objective(actor: Actor) -> tuple[Array, Array]:
            pi = actor(in_order(rollout.obs, rollout.done))
            entropy = pi.entropy().mean()
            return loss.policy_gradient(pi.log_prob(rollout.action), returns) - entropy_coef * entropy, entropy

        (value, entropy), grads = jax.value_and_grad(objective, has_aux=True)(state.actor)
        actor, optimizer, norm = self.optimizer.step(state.actor, grads, state.optimizer, clock.frame)
        state = ReinforceState(actor, optimizer, state.opt_step + 1)
        metrics = {
            "opt_step": state.opt_step,
            "loss": value,
            "lr": self.optimizer.learning_rate(clock.frame),
            "entropy_coef": jnp.asarray(entropy_coef),
            "entropy": entropy,
            "grad_norm": norm,
        }
        return state, metrics

    def policy(self, state: ReinforceState) -> Actor:
        """The actor."""
        return state.actor

    def play(self, policy: Actor, obs: Array, key: PRNGKeyArray) -> Array:
        """The likeliest action."""
        return policy(obs).mode()
