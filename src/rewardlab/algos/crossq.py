"""CrossQ: SAC without target networks; batch renormalisation sees (s, a) and (s′, a′) together
(https://arxiv.org/abs/1902.05605)."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import setting
from rewardlab.algos.sac import SAC, Critics, SACLearner
from rewardlab.memory.rollout import Transition
from rewardlab.nets.mlp import body_layers
from rewardlab.spec import Spec


class CrossQ(SAC):
    """Critics without batch renorm in their spec get it before each activation."""

    critic_keeps_statistics = True
    policy_delay: int = setting(3)

    def assemble(self, spec: Spec) -> Self:
        """With batch renorm in the critics."""
        algorithm = super().assemble(spec)
        critic = algorithm.critic_spec
        if not any("batch_renorm" in layer for layer in body_layers(critic)):
            critic = dataclasses.replace(critic, batch_renorm={"momentum": 0.01, "warmup_steps": 5000})
        return algorithm.replace(critic_spec=critic)

    def init_target(self, critics: Critics) -> Any:
        """There is none."""
        return None

    def follow(self, learner: SACLearner) -> Any:
        """There is none."""
        return None

    def critic_loss(
        self, critics: Critics, learner: SACLearner, batch: Transition, weight: Array, key: PRNGKeyArray
    ) -> tuple[Array, tuple[Array, Array, Any]]:
        """Both critics on one batch of here and there: the statistics of both make the normalisation."""
        pi, next_action, log_prob = self.draw(learner.actor, batch.next_obs, key)
        here = self.critic_input(batch.obs, batch.action)
        there = self.critic_input(batch.next_obs, next_action)
        both, stats = jax.vmap(lambda c, s: c.train(jnp.concatenate([here, there]), s))(critics, learner.stats)
        q, q_next = jnp.split(both, 2, axis=1)
        next_value = self.soft_value(learner, pi, log_prob, q_next)
        return self.regression(self.chosen(q, batch.action), next_value, batch, weight, stats)

    def judge(self, learner: SACLearner, critics: Critics, obs: Array, action: Array) -> Array:
        """By the running statistics."""
        q: Array = jax.vmap(lambda c, s: c(self.critic_input(obs, action), s))(critics, learner.stats)
        return q
