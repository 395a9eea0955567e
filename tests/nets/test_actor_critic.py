"""Actor and critic, apart and with one body, and how each is stepped."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab import spec as sp
from rewardlab.envs.base import Box, Discrete
from rewardlab.maths.distribution import Categorical, Normal
from rewardlab.nets.actor_critic import ActorCritic, ActorCriticOptimizer
from rewardlab.spec import NetSpec, Spec

KEY = jax.random.key(1)
OBS = Box((3,))
X = jnp.asarray([[1.0, -2.0, 0.5]])


def spec_of(net: dict[str, Any], **agent: Any) -> Spec:
    raw = {
        "agent": {"name": "A2C", "algorithm": {"name": "A2C"}, "net": {"hid_layers": [4], **net}, **agent},
        "env": {"name": "CartPole-v1", "max_frame": 100},
    }
    return sp.from_dict(raw, "a2c")


def test_apart_they_share_nothing() -> None:
    nets = ActorCritic.create(KEY, NetSpec(hid_layers=(4,)), None, OBS, Discrete(2))
    pi, value = nets(X)
    assert isinstance(pi, Categorical)
    assert pi.logits.shape == (1, 2)
    assert value.shape == (1,)
    by_value = jax.grad(lambda n: n.value(X).sum())(nets)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(by_value.actor))


def test_the_critic_may_have_a_net_of_its_own() -> None:
    nets = ActorCritic.create(KEY, NetSpec(hid_layers=(4,)), NetSpec(hid_layers=(9, 7)), OBS, Discrete(2))
    assert nets.critic is not None
    assert nets.critic.net.output.weight.shape == (7, 1)


@pytest.mark.parametrize("action", [Discrete(2), Box((2,), -1.0, 1.0)])
def test_a_shared_body_has_the_value_as_its_last_output(action: Discrete | Box) -> None:
    nets = ActorCritic.create(KEY, NetSpec(hid_layers=(4,), shared=True), None, OBS, action)
    assert nets.critic is None
    pi, value = nets(X)
    out = nets.actor.net(X)
    np.testing.assert_array_equal(value, out[:, 2])
    np.testing.assert_array_equal(nets.value(X), value)
    assert isinstance(pi, Categorical if isinstance(action, Discrete) else Normal)
    np.testing.assert_array_equal(pi.mode(), nets.distribution(X).mode())
    np.testing.assert_array_equal(pi.logits if isinstance(pi, Categorical) else pi.mean, out[:, :2])
    by_value = jax.grad(lambda n: n.value(X).sum())(nets)
    body: Any = by_value.actor.net.layers[0]
    assert (body.weight != 0).any()


def test_the_heads_of_a_shared_body_start_as_heads_apart_would() -> None:
    plain = ActorCritic.create(KEY, NetSpec(hid_layers=(4,), shared=True), None, OBS, Discrete(2))
    weight = plain.actor.net.output.weight
    assert float(jnp.abs(weight).max()) <= 0.5  # PyTorch's default: 1/√4, the value's column too
    net = NetSpec(hid_layers=(4,), shared=True, actor_init_std=0.01, critic_init_std=3.0)
    weight = ActorCritic.create(KEY, net, None, OBS, Discrete(2)).actor.net.output.weight
    np.testing.assert_allclose(jnp.linalg.norm(weight, axis=0), [0.01, 0.01, 3.0], rtol=1e-5)
    still = NetSpec(hid_layers=(4,), shared=True, critic_init_std=0.0)
    assert (ActorCritic.create(KEY, still, None, OBS, Discrete(2)).value(X) == 0).all()


def test_each_is_stepped_by_its_own_optimiser() -> None:
    rates = {"actor_optim_spec": {"name": "SGD", "lr": 0.5}, "critic_optim_spec": {"name": "SGD", "lr": 2.0}}
    spec = spec_of(rates)
    nets = ActorCritic.create(KEY, spec.agent.net, None, OBS, Discrete(2))
    optimizer = ActorCriticOptimizer.create(spec)
    ones = jax.tree.map(jnp.ones_like, nets)
    stepped, _, norm = optimizer.step(nets, ones, optimizer.init(nets), jnp.asarray(0))
    for rate, before, after in ((0.5, nets.actor, stepped.actor), (2.0, nets.critic, stepped.critic)):
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
            np.testing.assert_allclose(a - b, rate, rtol=1e-5)
    count = sum(leaf.size for leaf in jax.tree.leaves(nets))
    assert float(norm) == pytest.approx(count**0.5)  # of all gradients together


def test_a_shared_body_is_stepped_as_a_whole() -> None:
    spec = spec_of({"shared": True, "optim_spec": {"name": "SGD", "lr": 0.5}})
    nets = ActorCritic.create(KEY, spec.agent.net, None, OBS, Box((2,), -1.0, 1.0))
    optimizer = ActorCriticOptimizer.create(spec)
    ones = jax.tree.map(jnp.ones_like, nets)
    stepped, _, _ = optimizer.step(nets, ones, optimizer.init(nets), jnp.asarray(0))
    for a, b in zip(jax.tree.leaves(nets), jax.tree.leaves(stepped), strict=True):
        np.testing.assert_allclose(a - b, 0.5, rtol=1e-5)
