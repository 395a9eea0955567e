"""An actor and a critic with their optimisers: separate networks, or one body with two heads."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.envs.base import Box, Space
from rewardlab.maths.distribution import Categorical, MultiCategorical, Normal
from rewardlab.nets.heads import Actor, Critic
from rewardlab.nets.linear import Linear
from rewardlab.nets.mlp import MLP
from rewardlab.nets.optimizer import Optimizer
from rewardlab.nets.recurrent import Recalled, Sequence, part
from rewardlab.spec import NetSpec, Spec, SpecError


class ActorCritic(eqx.Module):
    """π and V. With a shared body the critic is the last output of the actor's network."""

    actor: Actor
    critic: Critic | None

    @classmethod
    def create(
        cls, key: PRNGKeyArray, spec: NetSpec, critic_spec: NetSpec | None, observation: Box, action: Space
    ) -> ActorCritic:
        """The networks of a spec."""
        actor_key, critic_key = jax.random.split(key)
        if not spec.shared:
            critic = Critic.create(critic_key, critic_spec or spec, observation)
            return cls(Actor.create(actor_key, spec, observation, action), critic)
        if observation.hidden:
            raise SpecError("agent.net.shared is true, but here a critic sees what an actor must not: leave it out")
        actor = Actor.create(actor_key, spec, observation, action)
        head = actor.net.output
        init, gain = (spec.init_fn, 1.0) if spec.critic_init_std is None else ("orthogonal_", spec.critic_init_std)
        value = Linear.create(critic_key, head.weight.shape[0], 1, init, gain)
        both = Linear(jnp.concatenate([head.weight, value.weight], 1), jnp.concatenate([head.bias, value.bias]))
        return cls(
            Actor(MLP(actor.net.layers, both, actor.net.image, actor.net.inputs), actor.log_std, actor.nvec), None
        )

    def blank(self, count: int) -> dict[str, Any] | None:
        """What the networks remember at the start of an episode, in so many environments; None if they never do."""
        nets = {"actor": self.actor.net} | ({} if self.critic is None else {"critic": self.critic.net})
        memory = {name: net.blank(count) for name, net in nets.items()}
        return memory if any(memory.values()) else None

    def remember(self, obs: Recalled) -> dict[str, Any]:
        """What they remember after an observation."""
        memory = {"actor": self.actor.net.remember(part(obs, "actor"))}
        return memory if self.critic is None else memory | {"critic": self.critic.net.remember(part(obs, "critic"))}

    def __call__(self, obs: Array | Recalled | Sequence) -> tuple[Categorical | MultiCategorical | Normal, Array]:
        """The distribution and the value at an observation."""
        if self.critic is not None:
            return self.actor(part(obs, "actor")), self.critic(part(obs, "critic"))
        out = self.actor.net(part(obs, "actor"))
        head, value = out[..., :-1], out[..., -1]
        return self.actor.distribution(head), value

    def distribution(self, obs: Array | Recalled) -> Categorical | MultiCategorical | Normal:
        """π(·|s)."""
        return self.actor(part(obs, "actor")) if self.critic is not None else self(obs)[0]

    def value(self, obs: Array | Recalled) -> Array:
        """V(s)."""
        return self.critic(part(obs, "critic")) if self.critic is not None else self(obs)[1]


class ActorCriticOptimizer(eqx.Module):
    """An optimiser for the actor and one for the critic; a shared body is stepped as a whole by the actor's."""

    actor: Optimizer
    critic: Optimizer

    @classmethod
    def create(cls, spec: Spec) -> ActorCriticOptimizer:
        """The optimisers of a spec."""
        net, critic_net = spec.agent.net, spec.agent.critic_net or spec.agent.net
        return cls(
            Optimizer.create(net, net.actor_optim_spec, spec.env.max_frame),
            Optimizer.create(critic_net, critic_net.critic_optim_spec, spec.env.max_frame),
        )

    def init(self, nets: ActorCritic) -> tuple[Any, Any]:
        """The optimisers' own states."""
        return self.actor.init(nets.actor), self.critic.init(nets.critic)

    def step(
        self, nets: ActorCritic, grads: ActorCritic, state: tuple[Any, Any], frame: Array
    ) -> tuple[ActorCritic, tuple[Any, Any], Array]:
        """New networks, new states, and the norm of the gradient before clipping."""
        actor, actor_state, norm = self.actor.step(nets.actor, grads.actor, state[0], frame)
        if nets.critic is None:
            return ActorCritic(actor, None), (actor_state, state[1]), norm
        critic, critic_state, critic_norm = self.critic.step(nets.critic, grads.critic, state[1], frame)
        return ActorCritic(actor, critic), (actor_state, critic_state), jnp.hypot(norm, critic_norm)
