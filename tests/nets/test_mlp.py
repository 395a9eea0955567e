"""Feed-forward bodies: shapes, initialisers, layers by hand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.nets.linear import Linear, initializer, orthogonal
from rewardlab.nets.mlp import ACTIVATIONS, MLP, LayerNorm
from rewardlab.spec import ACTIVATIONS as ACTIVATION_NAMES
from rewardlab.spec import INITIALISERS, NetSpec

KEY = jax.random.key(3)


def test_a_linear_layer_is_the_product_and_the_bias() -> None:
    layer = Linear(jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), jnp.asarray([10.0, 20.0]))
    np.testing.assert_allclose(layer(jnp.asarray([1.0, -1.0])), [8.0, 18.0])  # 1 − 3 + 10, 2 − 4 + 20


def test_the_default_initialiser_is_pytorchs() -> None:
    """Weights and biases uniform in ±1/√fan_in."""
    layer = Linear.create(KEY, 25, 400)
    for values in (layer.weight, layer.bias):
        assert 0.19 < float(jnp.abs(values).max()) <= 0.2
        assert float(values.std()) == pytest.approx(0.2 / 3**0.5, rel=0.1)


@pytest.mark.parametrize("shape", [(16, 4), (4, 16), (8, 8), (1, 5)])
def test_orthogonal_columns_or_rows(shape: tuple[int, int]) -> None:
    q = np.asarray(orthogonal(KEY, shape))
    gram = q.T @ q if shape[0] >= shape[1] else q @ q.T
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-5)


# of a layer 100 → 300 for relu (gain √2): deviations by PyTorch's formulas
@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("orthogonal_", math.sqrt(2) * 100**0.5 / 300**0.5 / 100**0.5),  # rows of length √2 over 300 entries
        ("xavier_uniform_", math.sqrt(2) * math.sqrt(2 / 400)),
        ("xavier_normal_", math.sqrt(2) * math.sqrt(2 / 400)),
        ("kaiming_uniform_", math.sqrt(2 / 100)),
        ("kaiming_normal_", math.sqrt(2 / 100)),
        ("normal_", 1.0),  # PyTorch's own has no gain
        ("zeros_", 0.0),
    ],
)
def test_initialisers_by_their_pytorch_names(name: str, deviation: float) -> None:
    layer = Linear.create(KEY, 100, 300, name, math.sqrt(2))
    assert float(layer.weight.std()) == pytest.approx(deviation, rel=0.02)
    assert (layer.bias == 0).all()
    if "uniform" in name:
        assert float(jnp.abs(layer.weight).max()) == pytest.approx(deviation * 3**0.5, rel=0.01)


def test_every_name_of_the_spec_has_its_function() -> None:
    assert set(ACTIVATIONS) == set(ACTIVATION_NAMES)
    for name in INITIALISERS:
        assert initializer(name, 1.0) is not None
    with pytest.raises(ValueError, match="init_fn 'lecun' is unknown"):
        initializer("lecun", 1.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", (0.0, 2.0)),
        ("tanh", (math.tanh(-1), math.tanh(2))),
        ("selu", (1.0507010 * 1.6732632 * (math.exp(-1) - 1), 1.0507010 * 2)),
        ("elu", (math.exp(-1) - 1, 2.0)),
        ("gelu", (-0.5 * (1 + math.erf(-1 / 2**0.5)), 1 + math.erf(2 / 2**0.5))),
        ("silu", (-1 / (1 + math.e), 2 / (1 + math.exp(-2)))),
        ("sigmoid", (1 / (1 + math.e), 1 / (1 + math.exp(-2)))),
        ("leaky_relu", (-0.01, 2.0)),
        ("softplus", (math.log1p(math.exp(-1)), math.log1p(math.exp(2)))),
        ("mish", (-math.tanh(math.log1p(math.exp(-1))), 2 * math.tanh(math.log1p(math.exp(2))))),
        ("identity", (-1.0, 2.0)),
    ],
)
def test_activations_at_minus_one_and_two(name: str, expected: tuple[float, float]) -> None:
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray([-1.0, 2.0])), expected, rtol=1e-5)


def test_layer_norm() -> None:
    layer = LayerNorm(jnp.asarray([1.0, 1.0, 2.0]), jnp.asarray([0.0, 5.0, 0.0]))
    # 1 2 6: mean 3, variance (4 + 1 + 9)/3 = 14/3
    expected = np.asarray([-2.0, -1.0, 3.0]) / math.sqrt(14 / 3 + 1e-5) * [1, 1, 2] + [0, 5, 0]
    np.testing.assert_allclose(layer(jnp.asarray([1.0, 2.0, 6.0])), expected, rtol=1e-6)


def test_shapes_and_layers_of_a_body() -> None:
    net = MLP.create(KEY, NetSpec(hid_layers=(8, 5), layer_norm=True), (3,), 2)
    assert [type(layer).__name__ for layer in net.layers] == ["Linear", "LayerNorm", "Activation"] * 2
    assert net.output.weight.shape == (5, 2)
    assert net(jnp.zeros((7, 4, 3))).shape == (7, 4, 2)
    assert MLP.create(KEY, NetSpec(hid_layers=()), (3,), 2).layers == ()


def test_an_explicit_body_with_the_same_layers_is_the_same_net() -> None:
    plain = NetSpec(hid_layers=(4,), hid_layers_activation="tanh")
    explicit = NetSpec(hid_layers_activation="tanh", layers=({"linear": 4}, {"activation": "tanh"}))
    x = jnp.ones((1, 3))
    np.testing.assert_array_equal(MLP.create(KEY, plain, (3,), 2)(x), MLP.create(KEY, explicit, (3,), 2)(x))


def test_no_two_layers_share_their_random_numbers() -> None:
    net = MLP.create(KEY, NetSpec(hid_layers=(4, 4)), (4,), 4)
    weights = [np.asarray(layer.weight) for layer in (*net.layers, net.output) if isinstance(layer, Linear)]
    assert len({w.tobytes() for w in weights}) == 3


def test_an_output_gain_makes_the_last_layer_orthogonal() -> None:
    net = MLP.create(KEY, NetSpec(hid_layers=(6,)), (3,), 2, 0.01)
    w = np.asarray(net.output.weight)
    np.testing.assert_allclose(w.T @ w, 1e-4 * np.eye(2), atol=1e-9)
    assert (MLP.create(KEY, NetSpec(hid_layers=(6,)), (3,), 2, 0.0).output.weight == 0).all()


def test_batch_renorm_in_a_body_keeps_its_statistics_beside_the_weights() -> None:
    options = {"momentum": 0.5, "eps": 0.0, "warmup_steps": 0}
    net = MLP.create(KEY, NetSpec(layers=({"batch_renorm": options},)), (1,), 1)
    net = MLP(net.layers, Linear(jnp.ones((1, 1)), jnp.zeros(1)))
    x, stats = jnp.asarray([[2.0], [6.0]]), net.init_stats()
    out, stats = net.train(x, stats)
    np.testing.assert_allclose(out, x)  # by the running mean 0 and deviation 1: r = 2, d = 4
    np.testing.assert_allclose([stats[0].mean[0], stats[0].std[0]], [2.0, 1.5])  # half way to 4 and to 2
    np.testing.assert_allclose(net(x, stats), [[0.0], [4 / 1.5]], rtol=1e-6)
