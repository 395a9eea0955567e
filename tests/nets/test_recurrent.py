"""Layers that remember: by hand, step by step as all at once, and forgetting at an episode's end."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.nets.mlp import MLP
from rewardlab.nets.recurrent import Recalled, Recurrent, Sequence, forget, in_order
from rewardlab.spec import NetSpec

KEY = jax.random.key(0)
T, N = 6, 3
STARTS = jnp.zeros((T, N), bool).at[2, 0].set(True).at[4, 2].set(True)


def net(*layers: dict[str, Any]) -> MLP:
    return MLP.create(KEY, NetSpec(layers=layers), (4,), 2)


def test_a_gru_by_hand() -> None:
    """All weights 0 but the candidate's bias: r = z = σ(0) = ½, n = tanh(1), h′ = (1 − z) n + z h = ½ tanh(1) + ½ h."""
    cell: Any = jax.tree.map(jnp.zeros_like, Recurrent.create(KEY, "gru", 1, 1).cell)
    layer = Recurrent(eqx.tree_at(lambda c: c.bias, cell, jnp.array([0.0, 0.0, 1.0])))
    out, memory = layer.step(jnp.zeros((1, 1)), jnp.full((1, 1), 0.5))
    assert float(out[0, 0]) == pytest.approx(0.5 * np.tanh(1) + 0.25)
    assert float(memory[0, 0]) == float(out[0, 0])


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_sequence_is_its_steps(kind: str) -> None:
    made = net({"linear": 5}, {"activation": "tanh"}, {kind: 7}, {kind: 3})
    x = jax.random.normal(KEY, (T, N, 4))
    memory, steps = made.blank(N), []
    for t in range(T):
        memory = forget(memory, STARTS[t])
        steps.append(made(Recalled(x[t], memory)))
        memory = made.remember(Recalled(x[t], memory))
    np.testing.assert_allclose(made(Sequence(x, made.blank(N), STARTS)), jnp.stack(steps), atol=1e-6)


def test_what_came_before_a_start_is_forgotten_and_the_rest_is_not() -> None:
    made = net({"lstm": 7})
    x = jax.random.normal(KEY, (T, N, 4))
    other = x.at[1].add(1.0)  # before copy 0 begins anew at 2, before copy 2 does at 4; copy 1 never does
    one, two = (made(Sequence(x, made.blank(N), STARTS)) for x in (x, other))
    same = np.asarray(np.isclose(one, two).all(-1))
    assert same[2:, 0].all()
    assert not same[1:, 1].any()
    assert not same[1:4, 2].any()
    assert same[4:, 2].all()


def test_a_gradient_reaches_back_through_the_sequence() -> None:
    made = net({"gru": 7})
    x = jax.random.normal(KEY, (T, N, 4))
    slope = jax.grad(lambda x: made(Sequence(x, made.blank(N), STARTS))[-1].sum())(x)
    reached = np.abs(slope).sum(-1) > 0
    np.testing.assert_array_equal(reached[:, 0], [False, False, True, True, True, True])
    np.testing.assert_array_equal(reached[:, 1], [True] * T)
    np.testing.assert_array_equal(reached[:, 2], [False] * 4 + [True] * 2)


def test_a_rollout_in_order_begins_with_what_was_remembered_there() -> None:
    obs = Recalled(jnp.zeros((T, N, 4)), (jnp.arange(T * N * 2.0).reshape(T, N, 2),))
    done = jnp.zeros((T, N), bool).at[1, 0].set(True).at[5, 1].set(True)
    made: Any = in_order(obs, done)
    np.testing.assert_array_equal(made.memory[0], [[0, 1], [2, 3], [4, 5]])
    assert np.argwhere(made.starts).tolist() == [[2, 0]]  # what ends with the rollout begins in the next one
    plain = jnp.zeros((T, N, 4))
    assert in_order(plain, done) is plain


def test_pixels_can_be_remembered() -> None:
    layers = ({"conv": {"channels": 4, "kernel": 3, "stride": 2}}, {"activation": "relu"}, {"gru": 6})
    made = MLP.create(KEY, NetSpec(layers=layers), (2, 9, 9), 3)
    pixels = jax.random.randint(KEY, (T, N, 2, 9, 9), 0, 256).astype(jnp.uint8)
    whole = made(Sequence(pixels, made.blank(N), STARTS))
    assert whole.shape == (T, N, 3)
    np.testing.assert_allclose(made(Recalled(pixels[0], made.blank(N))), whole[0], atol=1e-6)
