"""SAC: soft actor-critic with twin critics and an automatic temperature (https://arxiv.org/abs/1812.05905), for
continuous actions and for discrete ones (https://arxiv.org/abs/1910.07207)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Clock, Metrics, made, setting
from rewardlab.algos.off_policy import OffPolicyAlgorithm, OffPolicyState
from rewardlab.envs.base import Box, Discrete
from rewardlab.maths import advantage, loss
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import Actor, SquashedActor, action_distribution
from rewardlab.nets.mlp import MLP
from rewardlab.nets.optimizer import Optimizer
from rewardlab.spec import NetSpec, Spec, SpecError

Critics = MLP  # two critics, stacked on a leading axis


class SACLearner(NamedTuple):
    """Actor, twin critics, their slow copies, log α, the optimisers, and what batch renorm has seen (CrossQ)."""

    actor: Any
    critics: Critics
    target: Critics
    log_alpha: Array
    actor_optimizer: Any
    critic_optimizer: Any
    alpha_optimizer: Any
    stats: Any
    opt_step: Array


class SAC(OffPolicyAlgorithm):
    """Until `training_start_step` frames actions are uniform. The entropy that the temperature aims at is
    `target_entropy`, by default −(number of actions) for continuous and `target_entropy_ratio`·log n for discrete ones;
    `fixed_alpha` holds the temperature still. `policy_delay` steps the actor every so many critic steps. `double_q`:
    values are the lower of the two critics' (min), or their mean (average), which keeps the optimism that discrete
    actions explore by (https://arxiv.org/abs/2209.10081)."""

    fixed_alpha: float | Array | None = None
    init_alpha: float | Array = 1.0
    target_entropy: float | Array | None = None
    target_entropy_ratio: float | Array = 0.98
    log_alpha_max: float | Array | None = None
    policy_delay: int = setting(1)
    double_q: str = setting("min")
    critic_spec: NetSpec = made(static=True)
    actor_optimizer: Optimizer = made()
    critic_optimizer: Optimizer = made()

    def assemble(self, spec: Spec) -> Self:
        """With the networks, memory and optimisers of the spec."""
        if self.double_q not in ("min", "average"):
            raise SpecError(f"agent.algorithm.double_q is {self.double_q!r}, expected min or average")
        net, critic_net = spec.agent.net, spec.agent.critic_net or spec.agent.net
        return (
            super()
            .assemble(spec)
            .replace(
                critic_spec=critic_net,
                actor_optimizer=Optimizer.create(net, net.actor_optim_spec, spec.env.max_frame),
                critic_optimizer=Optimizer.create(critic_net, critic_net.critic_optim_spec, spec.env.max_frame),
            )
        )

    @property
    def discrete(self) -> bool:
        """Whether actions are numbered."""
        return isinstance(self.action, Discrete)

    @property
    def entropy_goal(self) -> float | Array:
        """The entropy that the temperature aims at."""
        if self.target_entropy is not None:
            return self.target_entropy
        if isinstance(self.action, Discrete):
            return self.target_entropy_ratio * math.log(self.action.n)
        return -float(self.action.size)

    def init_learner(self, key: PRNGKeyArray) -> SACLearner:
        """Fresh networks; the target critics start as the critics."""
        actor_key, critic_key = jax.random.split(key)
        actor: Actor | SquashedActor
        if isinstance(self.action, Discrete):
            actor = Actor.create(actor_key, self.net_spec, self.observation, self.action)
            shape, n_out = self.observation.shape, self.action.n
        else:
            assert isinstance(self.action, Box)  # `assemble` refuses several choices at once
            actor = SquashedActor.create(actor_key, self.net_spec, self.observation, self.action)
            shape, n_out = (self.observation.size + self.action.size,), 1

        def critic(k: PRNGKeyArray) -> MLP:
            return MLP.create(k, self.critic_spec, shape, n_out, self.critic_spec.critic_init_std)

        critics = jax.vmap(critic)(jax.random.split(critic_key, 2))
        stats = jax.tree.map(lambda x: jnp.stack([x, x]), critic(critic_key).init_stats())
        log_alpha = jnp.log(self.init_alpha if self.fixed_alpha is None else self.fixed_alpha)
        return SACLearner(
            actor,
            critics,
            self.init_target(critics),
            jnp.asarray(log_alpha, jnp.float32),
            self.actor_optimizer.init(actor),
            self.critic_optimizer.init(critics),
            self.actor_optimizer.init(jnp.zeros(())),
            stats,
            jnp.zeros((), jnp.int32),
        )

    def init_target(self, critics: Critics) -> Any:
        """The slow copies."""
        return critics

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """For draws from π."""
        return action_distribution(self.action).noise(key, self.noise_shape(steps))

    def act(self, state: OffPolicyState, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """A draw from π, uniform before learning starts."""
        action = state.learner.actor(obs).sample(noise)
        uniform = jnp.argmax(noise, axis=-1) if self.discrete else 2 * jax.scipy.stats.norm.cdf(noise) - 1
        return jnp.where(clock.frame < self.training_start_step, uniform, action), {}

    def critic_input(self, obs: Array, action: Array) -> Array:
        """What a critic sees: the observation, and for continuous actions the action."""
        return obs if self.discrete else jnp.concatenate([obs, action], axis=-1)

    def soft_value(self, learner: SACLearner, pi: Any, log_prob: Array, q: Array) -> Array:
        """V = E_π[Q − α log π] with the lower Q or the mean of both: over all discrete actions, or one draw."""
        alpha = jnp.exp(learner.log_alpha)
        both = q.min(0) if self.double_q == "min" else q.mean(0)
        if self.discrete:
            return jnp.sum(jnp.exp(pi.log_probs) * (both - alpha * pi.log_probs), axis=-1)
        return both[..., 0] - alpha * log_prob

    def draw(self, actor: Any, obs: Array, key: PRNGKeyArray) -> tuple[Any, Array, Array]:
        """The distribution, a differentiable action (continuous) and its log-probability."""
        pi = actor(obs)
        if self.discrete:
            return pi, jnp.zeros(()), jnp.zeros(())
        return pi, *pi.sample_log_prob(pi.noise(key, pi.mean.shape))

    def chosen(self, q: Array, action: Array) -> Array:
        """Of each critic's output [2, B, n], the value of the action taken."""
        if self.discrete:
            return jnp.sum(q * jax.nn.one_hot(action, q.shape[-1]), axis=-1)
        return q[..., 0]

    def critic_loss(
        self, critics: Critics, learner: SACLearner, batch: Transition, weight: Array, key: PRNGKeyArray
    ) -> tuple[Array, tuple[Array, Array, Any]]:
        """Both critics towards r + γ V_target(s′)."""
        pi, next_action, log_prob = self.draw(learner.actor, batch.next_obs, key)
        q_next = jax.vmap(lambda c: c(self.critic_input(batch.next_obs, next_action)))(learner.target)
        next_value = self.soft_value(learner, pi, log_prob, q_next)
        q = jax.vmap(lambda c: c(self.critic_input(batch.obs, batch.action)))(critics)
        return self.regression(self.chosen(q, batch.action), next_value, batch, weight, learner.stats)

    def regression(
        self, q: Array, next_value: Array, batch: Transition, weight: Array, stats: Any
    ) -> tuple[Array, tuple[Array, Array, Any]]:
        """The summed loss of the two critics, and what comes with it."""
        target = advantage.td_target(batch.reward, next_value, batch.terminated, self.gamma)
        target = jax.lax.stop_gradient(target)
        each = loss.REGRESSION[self.critic_spec.loss_spec.name](q, target)
        return jnp.sum(jnp.mean(weight * each, axis=-1)), (target - q.min(0), q.mean(), stats)

    def judge(self, learner: SACLearner, critics: Critics, obs: Array, action: Array) -> Array:
        """Both critics' values [2, B, n] while the actor learns."""
        q: Array = jax.vmap(lambda c: c(self.critic_input(obs, action)))(critics)
        return q

    def actor_loss(
        self, actor: Any, learner: SACLearner, critics: Critics, batch: Transition, key: PRNGKeyArray
    ) -> tuple[Array, Array]:
        """−V of the observations, and the policy's entropy."""
        pi, action, log_prob = self.draw(actor, batch.obs, key)
        q = self.judge(learner, critics, batch.obs, action)
        entropy = pi.entropy().mean() if self.discrete else -log_prob.mean()
        return -self.soft_value(learner, pi, log_prob, q).mean(), entropy

    def update(
        self, learner: SACLearner, batch: Transition, weight: Array, clock: Clock, count: Array, key: PRNGKeyArray
    ) -> tuple[SACLearner, Array, Metrics]:
        """Critics, then (every `policy_delay` steps) actor and temperature, then the slow copies."""
        critic_key, actor_key = jax.random.split(key)
        (critic_value, (error, q, stats)), grads = jax.value_and_grad(self.critic_loss, has_aux=True)(
            learner.critics, learner, batch, weight, critic_key
        )
        critics, critic_state, norm = self.critic_optimizer.step(
            learner.critics, grads, learner.critic_optimizer, clock.frame
        )
        learner = learner._replace(
            critics=critics, critic_optimizer=critic_state, stats=stats, opt_step=learner.opt_step + 1
        )
        if self.policy_delay == 1:
            learner, entropy = self.update_actor(learner, batch, clock, actor_key)
        else:
            learner, entropy = jax.lax.cond(
                count % self.policy_delay == 0,
                lambda: self.update_actor(learner, batch, clock, actor_key),
                lambda: (learner, jnp.full((), jnp.nan)),
            )
        learner = learner._replace(target=self.follow(learner))
        return learner, error, {"loss": critic_value, "q": q, "entropy": entropy, "grad_norm": norm}

    def update_actor(
        self, learner: SACLearner, batch: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[SACLearner, Array]:
        """One step of the actor and of the temperature."""
        (_, entropy), grads = jax.value_and_grad(self.actor_loss, has_aux=True)(
            learner.actor, learner, learner.critics, batch, key
        )
        actor, state, _ = self.actor_optimizer.step(learner.actor, grads, learner.actor_optimizer, clock.frame)
        learner = learner._replace(actor=actor, actor_optimizer=state)
        if self.fixed_alpha is not None:
            return learner, entropy
        alpha_grad = jnp.exp(learner.log_alpha) * (entropy - self.entropy_goal)
        log_alpha, alpha_state, _ = self.actor_optimizer.step(
            learner.log_alpha, alpha_grad, learner.alpha_optimizer, clock.frame
        )
        if self.log_alpha_max is not None:
            log_alpha = jnp.minimum(log_alpha, self.log_alpha_max)
        return learner._replace(log_alpha=log_alpha, alpha_optimizer=alpha_state), entropy

    def follow(self, learner: SACLearner) -> Any:
        """The slow copies after a step."""
        rate = self.net_spec.polyak_coef
        return jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), learner.target, learner.critics)

    def log(self, learner: SACLearner, clock: Clock) -> Metrics:
        """Progress, temperature, learning rate."""
        lr = self.actor_optimizer.learning_rate(clock.frame)
        return {"opt_step": learner.opt_step, "alpha": jnp.exp(learner.log_alpha), "lr": lr}

    def policy(self, state: OffPolicyState) -> Any:
        """The actor."""
        return state.learner.actor

    def play(self, policy: Actor | SquashedActor, obs: Array, key: PRNGKeyArray) -> Array:
        """The likeliest action."""
        return policy(obs).mode()
