"""Bodies of networks: convolutions, linear and recurrent layers, activations, norms, in any order that makes sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rewardlab.nets.batch_renorm import BatchRenorm
from rewardlab.nets.conv import Conv, Impala
from rewardlab.nets.linear import GAINS, Linear
from rewardlab.nets.recurrent import Recalled, Recurrent, Sequence
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


class Flatten(eqx.Module):
    """Pixels as one row."""

    def __call__(self, x: Array) -> Array:
        """The rows of a batch."""
        return x.reshape(x.shape[0], -1)


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


class Image(eqx.Module):
    """An observation of pixels as convolutions want it: one batch axis, channels last, bytes as shares of one."""

    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def channels_first(self) -> bool:
        """Whether the channels stand in front, as Atari's frames do: they are fewer than pixels."""
        return self.shape[0] < self.shape[-1]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        (height, width, channels) = self.shape[1:] + self.shape[:1] if self.channels_first else self.shape
        return height, width, channels

    def __call__(self, x: Array) -> Array:
        """The batch."""
        x = x.reshape(-1, *self.shape)
        x = x.astype(jnp.float32) / 255 if x.dtype == jnp.uint8 else x
        return jnp.moveaxis(x, 1, -1) if self.channels_first else x


def is_recurrent(spec: NetSpec) -> bool:
    """Whether a body remembers."""
    return any("gru" in layer or "lstm" in layer for layer in body_layers(spec))


class MLP(eqx.Module):
    """A stack of layers and a linear output, over pixels where `image` says so.

    Batch renorm's running statistics travel beside the parameters: `train` returns them updated, calling the net uses
    them as they are. What recurrent layers remember travels beside the observations.
    """

    layers: tuple[eqx.Module, ...]
    output: Linear
    image: Image | None = None
    inputs: int | None = eqx.field(static=True, default=None)  # of a longer observation it sees the first so many

    @classmethod
    def create(
        cls, key: PRNGKeyArray, spec: NetSpec, shape: tuple[int, ...], n_out: int, output_gain: float | None = None
    ) -> MLP:
        """The net of a spec for inputs of a shape; `output_gain` makes the last layer orthogonal with that gain."""
        layers: list[eqx.Module] = []
        gain = GAINS.get(spec.hid_layers_activation, 1.0)
        image = Image(shape) if len(shape) == 3 else None
        sides: tuple[int, ...] = (
            () if image is None else image.sizes[:2]
        )  # of the pixels that are left, until they are flattened
        width = shape[0] if image is None else image.sizes[2]
        for entry in body_layers(spec):
            ((kind, value),) = entry.items()
            key, layer_key = jax.random.split(key)
            if kind in ("conv", "impala"):
                if not sides:
                    raise SpecError(f"a layer of kind {kind!r} needs pixels: an observation of three axes")
                layer = (Conv if kind == "conv" else Impala).create(layer_key, width, value, spec.init_fn, gain)
                sides, width = tuple(layer.size(n) for n in sides), layer.channels
                if min(sides) < 1:
                    raise SpecError(f"the layer {dict(entry)} leaves no pixel of an observation {shape}")
                layers.append(layer)
            elif kind == "activation":
                layers.append(Activation(value))
            else:
                if sides:  # whether it is said or not
                    width, sides = width * sides[0] * sides[1], ()
                    layers.append(Flatten())
                if kind == "linear":
                    layers.append(Linear.create(layer_key, width, value, spec.init_fn, gain))
                    width = value
                elif kind in ("gru", "lstm"):
                    layers.append(Recurrent.create(layer_key, kind, width, value))
                    width = value
                elif kind == "layer_norm":
                    layers.append(LayerNorm(jnp.ones(width), jnp.zeros(width)))
                elif kind == "batch_renorm":
                    layers.append(BatchRenorm.create(width, **value))
        if sides:
            width *= sides[0] * sides[1]
            layers.append(Flatten())
        output_init = "orthogonal_" if output_gain is not None else spec.init_fn
        output = Linear.create(key, width, n_out, output_init, 1.0 if output_gain is None else output_gain)
        return cls(tuple(layers), output, image, None if image else shape[0])

    def init_stats(self) -> tuple[Any, ...]:
        """The running statistics of the batch-renorm layers, none seen yet."""
        return tuple(layer.init_stats() for layer in self.layers if isinstance(layer, BatchRenorm))

    def blank(self, *batch: int) -> tuple[Any, ...]:
        """What the recurrent layers remember when nothing was seen; empty where there are none."""
        return tuple(layer.blank(*batch) for layer in self.layers if isinstance(layer, Recurrent))

    def __call__(
        self, x: Float[Array, "*batch in"] | Recalled | Sequence, stats: tuple[Any, ...] = ()
    ) -> Float[Array, "*batch out"]:
        """The output, with running statistics as they are."""
        return self._run(x, stats)[0]

    def remember(self, x: Recalled) -> tuple[Any, ...]:
        """What is remembered after an observation."""
        return self._run(x, ())[1]

    def _run(self, seen: Array | Recalled | Sequence, stats: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
        """The output and what is remembered after it."""
        x = seen.obs if isinstance(seen, Recalled | Sequence) else seen
        x = x if self.inputs is None else x[..., : self.inputs]
        batch = x.shape[:-1] if self.image is None else x.shape[:-3]
        remaining, memories = iter(stats), iter(() if isinstance(seen, jax.Array) else seen.memory)
        after: list[Any] = []
        for layer in self._layers:
            if isinstance(layer, BatchRenorm):
                x = layer(x, next(remaining))
            elif isinstance(layer, Recurrent):
                x, memory = x.reshape(*batch, -1), next(memories)
                step = layer.unroll(x, memory, seen.starts) if isinstance(seen, Sequence) else layer.step(x, memory)
                x, after = step[0], [*after, step[1]]
            else:
                x = layer(x)
        out: Array = self.output(x)
        return out.reshape(*batch, -1), tuple(after)

    def train(self, x: Float[Array, "batch in"], stats: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
        """The output by this batch's statistics, and the running statistics with the batch in them."""
        remaining, updated = iter(stats), []
        for layer in self._layers:
            if isinstance(layer, BatchRenorm):
                x, new = layer.train(x, next(remaining))
                updated.append(new)
            else:
                x = layer(x)
        return self.output(x), tuple(updated)

    @property
    def _layers(self) -> tuple[Any, ...]:
        """All that comes before the output."""
        return self.layers if self.image is None else (self.image, *self.layers)
