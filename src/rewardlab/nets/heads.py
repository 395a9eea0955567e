"""What stands on a body: action distributions, values, action values."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rewardlab.envs.base import Box, Discrete, MultiDiscrete, Space
from rewardlab.maths.distribution import Categorical, MultiCategorical, Normal, TanhNormal
from rewardlab.nets.mlp import MLP
from rewardlab.nets.recurrent import Recalled, Sequence
from rewardlab.spec import NetSpec

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


def action_distribution(action: Space) -> type[Categorical] | type[MultiCategorical] | type[Normal]:
    """What a policy over these actions draws from."""
    if isinstance(action, Box):
        return Normal
    return Categorical if isinstance(action, Discrete) else MultiCategorical


class Actor(eqx.Module):
    """π(·|s): Categorical for discrete actions, several of them for several choices at once, a Gaussian with a free
    log-deviation for continuous ones."""

    net: MLP
    log_std: Float[Array, " n"] | None
    nvec: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def create(cls, key: PRNGKeyArray, spec: NetSpec, observation: Box, action: Space) -> Actor:
        """The actor of a spec."""
        n_out = action.n if isinstance(action, Discrete) else action.size
        net = MLP.create(key, spec, observation.open.shape, n_out, spec.actor_init_std)
        log_std = jnp.full(n_out, spec.log_std_init or 0.0) if isinstance(action, Box) else None
        return cls(net, log_std, action.nvec if isinstance(action, MultiDiscrete) else None)

    def __call__(self, obs: Array | Recalled | Sequence) -> Categorical | MultiCategorical | Normal:
        """The distribution at an observation."""
        return self.distribution(self.net(obs))

    def distribution(self, out: Array) -> Categorical | MultiCategorical | Normal:
        """The distribution that an output of the net stands for."""
        if self.log_std is not None:
            return Normal(out, self.log_std)
        return Categorical(out) if self.nvec is None else MultiCategorical.split(out, self.nvec)


class SquashedActor(eqx.Module):
    """SAC's actor for continuous actions: tanh of a Gaussian whose deviation depends on the state."""

    net: MLP

    @classmethod
    def create(cls, key: PRNGKeyArray, spec: NetSpec, observation: Box, action: Box) -> SquashedActor:
        """The actor of a spec."""
        return cls(MLP.create(key, spec, observation.open.shape, 2 * action.size, spec.actor_init_std))

    def __call__(self, obs: Array) -> TanhNormal:
        """The distribution at an observation."""
        mean, log_std = jnp.split(self.net(obs), 2, axis=-1)
        return TanhNormal(mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX))


class Critic(eqx.Module):
    """V(s)."""

    net: MLP

    @classmethod
    def create(cls, key: PRNGKeyArray, spec: NetSpec, observation: Box) -> Critic:
        """The critic of a spec."""
        return cls(MLP.create(key, spec, observation.shape, 1, spec.critic_init_std))

    def __call__(self, obs: Array | Recalled | Sequence) -> Array:
        """The value at an observation."""
        return self.net(obs)[..., 0]


class QNet(eqx.Module):
    """Q(s, ·) over discrete actions; dueling: V + A − mean A (https://arxiv.org/abs/1511.06581)."""

    net: MLP
    dueling: bool = eqx.field(static=True)

    @classmethod
    def create(cls, key: PRNGKeyArray, spec: NetSpec, observation: Box, action: Discrete, dueling: bool) -> QNet:
        """The Q network of a spec."""
        return cls(MLP.create(key, spec, observation.shape, action.n + dueling), dueling)

    def __call__(self, obs: Array) -> Array:
        """The action values at an observation."""
        out = self.net(obs)
        if not self.dueling:
            return out
        value, advantage = out[..., :1], out[..., 1:]
        return value + advantage - advantage.mean(-1, keepdims=True)


def to_env_action(action: Array, space: Space) -> Array:
    """A policy's action in the environment's units: bounded boxes are acted on in [−1, 1] and rescaled."""
    if not isinstance(space, Box):
        return action
    low, high = jnp.reshape(jnp.asarray(space.low), (-1,)), jnp.reshape(jnp.asarray(space.high), (-1,))
    bounded = jnp.isfinite(low) & jnp.isfinite(high)
    scaled = jnp.where(bounded, low + 0.5 * (jnp.clip(action, -1, 1) + 1) * (high - low), action)
    return jnp.reshape(scaled, (*action.shape[:-1], *space.shape))
