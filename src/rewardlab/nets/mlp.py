"""Feed-forward bodies: linear layers, activations, layer norm and batch renorm, in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rewardlab.nets.batch_renorm import BatchRenorm
from rewardlab.spec import NetSpec, SpecError

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "selu": jax.nn.selu,
    "elu": jax.nn.elu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid,
    "leaky_relu": jax.nn.leaky_relu,
    "softplus": jax.nn.softplus,
    "mish": jax.nn.mish,
    "identity": lambda x: x,
}

# PyTorch's `calculate_gain`, which the seeds' initialisers use
GAINS = {"tanh": 5 / 3, "relu": 2**0.5, "leaky_relu": 2**0.5, "selu": 0.75}


def initializer(name: str | None, gain: float) -> Callable[[PRNGKeyArray, tuple[int, int]], Array] | None:
    """A weight initialiser by its PyTorch name; None is PyTorch's default, uniform in ±1/√fan_in."""
    scaled = {"fan_avg": gain**2, "fan_in": gain**2}
    match (name or "").removesuffix("_"):
        case "":
            return None
        case "orthogonal":
            return lambda key, shape: gain * orthogonal(key, shape)
        case "xavier_uniform":
            return jax.nn.initializers.variance_scaling(scaled["fan_avg"], "fan_avg", "uniform")
        case "xavier_normal":
            return jax.nn.initializers.variance_scaling(scaled["fan_avg"], "fan_avg", "normal")
        case "kaiming_uniform":
            return jax.nn.initializers.variance_scaling(scaled["fan_in"], "fan_in", "uniform")
        case "kaiming_normal":
            return jax.nn.initializers.variance_scaling(scaled["fan_in"], "fan_in", "normal")
        case "normal":
            return jax.nn.initializers.normal(1.0)
        case "zeros":
            return jax.nn.initializers.zeros
    raise ValueError(f"init_fn {name!r} is unknown")


def orthogonal(key: PRNGKeyArray, shape: tuple[int, int]) -> Float[Array, "in out"]:
    """A random matrix with orthonormal rows or columns: the polar factor of a Gaussian one, by Newton's iteration.

    Not by QR: eight LAPACK calls in one compiled program wait for each other for ever on a CPU of two cores (jaxlib
    0.10.2), and a trial makes all its layers in one program.
    """
    gaussian = jax.random.normal(key, shape)
    tall = gaussian if shape[0] >= shape[1] else gaussian.T
    x = tall / jnp.linalg.norm(tall)  # the Frobenius norm bounds the singular values by one: the iteration converges
    x = jax.lax.fori_loop(0, 60, lambda _, x: 1.5 * x - 0.5 * x @ (x.T @ x), x)
    q: Array = x if shape[0] >= shape[1] else x.T
    return q


class Linear(eqx.Module):
    """x W + b."""

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"]

    @classmethod
    def create(cls, key: PRNGKeyArray, n_in: int, n_out: int, init_fn: str | None = None, gain: float = 1.0) -> Linear:
        """A layer with weights by the named initialiser."""
        bound = n_in**-0.5
        weight_key, bias_key = jax.random.split(key)
        init = initializer(init_fn, gain)
        if init is None:
            weight = jax.random.uniform(weight_key, (n_in, n_out), minval=-bound, maxval=bound)
            return cls(weight, jax.random.uniform(bias_key, (n_out,), minval=-bound, maxval=bound))
        return cls(init(weight_key, (n_in, n_out)), jnp.zeros(n_out))

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        """The product over the last axis."""
        return x @ self.weight + self.bias


class LayerNorm(eqx.Module):
    """Layer normalisation over the last axis (https://arxiv.org/abs/1607.06450)."""

    scale: Float[Array, " n"]
    bias: Float[Array, " n"]

    def __call__(self, x: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """Zero mean, unit variance, then scale and shift."""
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * self.scale + self.bias


class Activation(eqx.Module):
    """An element-wise function by name."""

    name: str = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """The function of x."""
        return ACTIVATIONS[self.name](x)


def body_layers(spec: NetSpec) -> tuple[Mapping[str, Any], ...]:
    """The body as a list of one-key layers, from `layers` or from `hid_layers` and its companions."""
    if spec.layers is not None:
        return tuple(spec.layers)
    layers: list[Mapping[str, Any]] = []
    for width in spec.hid_layers:
        layers.append({"linear": width})
        if spec.batch_renorm is not None:
            layers.append({"batch_renorm": spec.batch_renorm})
        if spec.layer_norm:
            layers.append({"layer_norm": True})
        layers.append({"activation": spec.hid_layers_activation})
    return tuple(layers)


class MLP(eqx.Module):
    """A stack of layers and a linear output. Batch renorm's running statistics travel beside the parameters:
    `train` returns them updated, calling the net uses them as they are."""

    layers: tuple[eqx.Module, ...]
    output: Linear

    @classmethod
    def create(cls, key: PRNGKeyArray, spec: NetSpec, n_in: int, n_out: int, output_gain: float | None = None) -> MLP:
        """The net of a spec; `output_gain` makes the last layer orthogonal with that gain."""
        layers: list[eqx.Module] = []
        gain = GAINS.get(spec.hid_layers_activation, 1.0)
        width = n_in
        for entry in body_layers(spec):
            ((kind, value),) = entry.items()
            key, layer_key = jax.random.split(key)
            if kind == "linear":
                layers.append(Linear.create(layer_key, width, value, spec.init_fn, gain))
                width = value
            elif kind == "activation":
                layers.append(Activation(value))
            elif kind == "layer_norm":
                layers.append(LayerNorm(jnp.ones(width), jnp.zeros(width)))
            elif kind == "batch_renorm":
                layers.append(BatchRenorm.create(width, **value))
            elif kind != "flatten":
                raise SpecError(f"a layer of kind {kind!r} does not belong in an MLP")
        output_init = "orthogonal_" if output_gain is not None else spec.init_fn
        output = Linear.create(key, width, n_out, output_init, 1.0 if output_gain is None else output_gain)
        return cls(tuple(layers), output)

    def init_stats(self) -> tuple[Any, ...]:
        """The running statistics of the batch-renorm layers, none seen yet."""
        return tuple(layer.init_stats() for layer in self.layers if isinstance(layer, BatchRenorm))

    def __call__(self, x: Float[Array, "*batch in"], stats: tuple[Any, ...] = ()) -> Float[Array, "*batch out"]:
        """The output, with running statistics as they are."""
        remaining = iter(stats)
        for layer in self.layers:
            x = layer(x, next(remaining)) if isinstance(layer, BatchRenorm) else layer(x)
        return self.output(x)

    def train(self, x: Float[Array, "batch in"], stats: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
        """The output by this batch's statistics, and the running statistics with the batch in them."""
        remaining, updated = iter(stats), []
        for layer in self.layers:
            if isinstance(layer, BatchRenorm):
                x, new = layer.train(x, next(remaining))
                updated.append(new)
            else:
                x = layer(x)
        return self.output(x), tuple(updated)
