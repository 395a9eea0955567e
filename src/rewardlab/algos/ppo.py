"""PPO: several epochs of clipped policy gradient on each rollout (https://arxiv.org/abs/1707.06347)."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.a2c import ActorCriticAlgorithm, ActorCriticState
from rewardlab.algos.base import Clock, Metrics, setting
from rewardlab.maths import loss
from rewardlab.maths.reduce import standardize
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.rollout import Transition, orders
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.nets.mlp import is_recurrent
from rewardlab.nets.recurrent import Sequence, in_order
from rewardlab.spec import Spec, SpecError

Batch = tuple[Any, Array, dict[str, Array], Array, Array]  # obs, action, what `act` kept, advantage, value target
Carry = tuple[ActorCriticState, Array]  # and whether the update has ended early


def turned(batch: Batch) -> Batch:
    """Time before environments as environments before time, or back; what is remembered at the start has no time."""
    seen, *rest = batch
    obs, starts, *rest = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (seen.obs, seen.starts, *rest))
    return Sequence(obs, seen.memory, starts), *rest


class PPO(ActorCriticAlgorithm):
    """Rollouts of `time_horizon` vector steps, `training_epoch` epochs of minibatches of `minibatch_size` transitions
    (what does not fill a minibatch is left out of that epoch); `target_kl` ends an update early; `clip_vloss` clips the
    critic's step as well. With recurrent layers a minibatch is made of whole rollouts of some environments."""

    clip_eps_spec: Schedule = Schedule(start_val=0.2)
    time_horizon: int = setting(128)
    minibatch_size: int = setting(64)
    training_epoch: int = setting(4)
    clip_vloss: bool = setting(False)
    target_kl: float | Array | None = None

    def assemble(self, spec: Spec) -> Self:
        """With the networks and optimisers of the spec."""
        if self.minibatch_size > self.time_horizon * self.num_envs:
            raise SpecError(
                f"agent.algorithm.minibatch_size is {self.minibatch_size}, more than a rollout holds "
                f"(time_horizon {self.time_horizon} × num_envs {self.num_envs})"
            )
        nets = [net for net in (spec.agent.net, spec.agent.critic_net) if net is not None]
        if any(map(is_recurrent, nets)) and self.minibatch_size % self.time_horizon:
            raise SpecError(
                f"agent.algorithm.minibatch_size is {self.minibatch_size}: with recurrent layers a multiple of "
                f"time_horizon, {self.time_horizon}, because a minibatch holds whole rollouts of some environments"
            )
        return super().assemble(spec)

    @property
    def horizon(self) -> int:
        """Vector steps between two calls of `learn`."""
        return self.time_horizon

    def learn(
        self, state: ActorCriticState, rollout: Transition, clock: Clock, key: PRNGKeyArray
    ) -> tuple[ActorCriticState, Metrics]:
        """Epochs of minibatches."""
        advantages, target = self.advantages(state, rollout)
        returns, target = self.normalize_targets(state, target)
        seen = in_order(rollout.obs, rollout.done)
        whole = seen, rollout.action, rollout.extras, advantages, target
        remembers = isinstance(seen, Sequence)
        rows = turned(whole) if remembers else jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), whole)
        per_row = self.time_horizon if remembers else 1
        size, fill = self.time_horizon * self.num_envs // per_row, self.minibatch_size // per_row
        count = size // fill

        def epoch(carry: Carry, order: Array) -> tuple[Carry, Metrics]:
            index = order[: count * fill].reshape(count, fill)
            return jax.lax.scan(minibatch, carry, jax.tree.map(lambda x: x[index], rows))

        def minibatch(carry: Carry, batch: Batch) -> tuple[Carry, Metrics]:
            state, stopped = carry
            batch = turned(batch) if remembers else batch
            grads, metrics = jax.grad(self.objective, has_aux=True)(state.nets, batch, clock)
            nets, optimizer, norm = self.optimizer.step(state.nets, grads, state.optimizer, clock.frame)
            new = ActorCriticState(nets, optimizer, returns, state.opt_step + 1)
            if self.target_kl is not None:
                stopped = stopped | (metrics["approx_kl"] > 1.5 * self.target_kl)
                new = jax.tree.map(lambda a, b: jnp.where(stopped, a, b), state._replace(returns=returns), new)
            return (new, stopped), {**metrics, "grad_norm": norm}

        (state, _), metrics = jax.lax.scan(epoch, (state, jnp.asarray(False)), orders(key, self.training_epoch, size))
        return state, self.metrics(state, clock, **jax.tree.map(jnp.mean, metrics))

    def objective(self, nets: ActorCritic, batch: Batch, clock: Clock) -> tuple[Array, Metrics]:
        """The clipped surrogate, less the entropy bonus, plus the value loss."""
        obs, action, before, advantages, target = batch
        if self.normalize_advantage:
            advantages = standardize(advantages)
        clip_eps = self.clip_eps_spec(clock.frame)
        pi, value = nets(obs)
        log_prob = pi.log_prob(action)
        policy_loss = loss.ppo_clip(log_prob, before["log_prob"], advantages, clip_eps)
        if self.clip_vloss:
            value_loss = loss.clipped_value(value, before["value"], target, clip_eps)
        else:
            value_loss = loss.mse(value, target).mean()
        entropy = pi.entropy().mean()
        total = policy_loss - self.entropy_coef(clock) * entropy + self.val_loss_coef * value_loss
        kl = loss.approx_kl(log_prob, before["log_prob"])
        clip_fraction = jnp.mean(jnp.abs(jnp.exp(log_prob - before["log_prob"]) - 1) > clip_eps)
        return total, {
            "loss": total,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": kl,
            "clip_fraction": clip_fraction,
        }
