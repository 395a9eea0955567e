"""Convolutions against XLA's own, alone and inside a network."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.nets.conv import Conv, Impala
from rewardlab.nets.linear import Linear
from rewardlab.nets.mlp import MLP, Image
from rewardlab.spec import NetSpec, SpecError

KEY = jax.random.key(0)


def reference(layer: Conv, x: Any) -> Any:
    """The same layer by `lax.conv`."""
    kernel = layer.linear.weight.reshape(layer.kernel, layer.kernel, x.shape[-1], -1)
    pad = [(layer.padding, layer.padding)] * 2
    names = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(x, kernel, (layer.stride,) * 2, pad, dimension_numbers=names)
    return out + layer.linear.bias


@pytest.mark.parametrize(
    ("height", "width", "kernel", "stride", "padding"),
    [
        (84, 84, 8, 4, 0),
        (20, 20, 4, 2, 0),
        (9, 9, 3, 1, 0),
        (9, 7, 3, 1, 1),
        (11, 8, 3, 2, 1),
        (10, 13, 5, 3, 2),
        (6, 6, 1, 2, 0),
    ],
)
def test_a_convolution_is_xlas(height: int, width: int, kernel: int, stride: int, padding: int) -> None:
    sizes = {"channels": 5, "kernel": kernel, "stride": stride, "padding": padding}
    layer = Conv.create(KEY, 3, sizes, None, 1.0)
    x = jax.random.normal(KEY, (2, height, width, 3))
    expected = reference(layer, x)
    np.testing.assert_allclose(layer(x), expected, atol=2e-5)
    assert expected.shape[1:] == (layer.size(height), layer.size(width), layer.channels)
    ours, theirs = (jax.grad(lambda x, f=f: jnp.sum(f(x) ** 2))(x) for f in (layer, lambda x: reference(layer, x)))
    np.testing.assert_allclose(ours, theirs, atol=2e-4)


def test_a_convolution_by_hand() -> None:
    """A kernel that sums 2 × 2 pixels, at every second: 0 + 1 + 4 + 5 = 10, 2 + 3 + 6 + 7 = 18, and so on."""
    layer = Conv(Linear(jnp.ones((4, 1)), jnp.zeros(1)), 2, 2, 0)
    x = jnp.arange(16.0).reshape(1, 4, 4, 1)
    np.testing.assert_array_equal(layer(x)[0, :, :, 0], [[10, 18], [42, 50]])


def test_bytes_are_shares_of_one_and_channels_may_stand_in_front() -> None:
    pixels = jax.random.randint(KEY, (3, 2, 7, 7), 0, 256).astype(jnp.uint8)
    shown = Image((2, 7, 7))(pixels)
    np.testing.assert_allclose(shown, np.moveaxis(np.asarray(pixels), 1, -1) / 255, rtol=1e-6)
    last = jnp.moveaxis(pixels, 1, -1)
    np.testing.assert_array_equal(Image((7, 7, 2))(last), shown)


def test_a_net_over_pixels_takes_any_batch() -> None:
    spec = NetSpec(layers=({"conv": {"channels": 4, "kernel": 3, "stride": 2}}, {"activation": "relu"}, {"linear": 6}))
    net = MLP.create(KEY, spec, (2, 9, 9), 3)
    pixels = jax.random.randint(KEY, (5, 4, 2, 9, 9), 0, 256).astype(jnp.uint8)
    out = net(pixels)
    assert out.shape == (5, 4, 3)
    np.testing.assert_allclose(out[2, 1], net(pixels[2, 1][None])[0], atol=1e-6)
    assert net.layers[-1].weight.shape == (4 * 4 * 4, 6)  # 9 pixels, kernel 3, stride 2: 4 come out


def test_pixels_without_a_convolution_are_flattened() -> None:
    net = MLP.create(KEY, NetSpec(hid_layers=(6,)), (2, 3, 3), 2)
    assert net(jnp.full((4, 2, 3, 3), 255, jnp.uint8)).shape == (4, 2)


def test_an_impala_stage_halves_the_sides() -> None:
    stage = Impala.create(KEY, 4, 16, None, 1.0)
    assert stage(jnp.ones((2, 21, 84, 4))).shape == (2, stage.size(21), stage.size(84), 16) == (2, 11, 42, 16)


@pytest.mark.parametrize(
    ("layers", "shape", "sentence"),
    [
        (({"conv": {"channels": 4, "kernel": 3}},), (5,), "needs pixels"),
        (({"linear": 4}, {"conv": {"channels": 4, "kernel": 3}}), (2, 9, 9), "needs pixels"),
        (({"conv": {"channels": 4, "kernel": 8}},), (2, 5, 5), "leaves no pixel"),
    ],
)
def test_a_convolution_where_it_cannot_be_is_one_sentence(layers: Any, shape: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        MLP.create(KEY, NetSpec(layers=layers), shape, 2)
