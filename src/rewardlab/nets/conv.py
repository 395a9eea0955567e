"""Convolution as slices and one matrix product."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rewardlab.nets.linear import Linear


class Conv(eqx.Module):
    """A convolution over images [batch, height, width, channels].

    Not by `lax.conv`: on a CPU that is 20 times slower inside a `scan` and, with a weight per session under `vmap`, a
    grouped convolution. Blocks of `stride` pixels are first folded into the channels, so that the kernel steps by one;
    what it covers is then a few slices side by side, and the rest is the product that a linear layer is.
    """

    linear: Linear  # [kernel · kernel · channels, out]: the last axis of an image runs fastest
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    @classmethod
    def create(cls, key: PRNGKeyArray, n_in: int, sizes: Mapping[str, int], init_fn: str | None, gain: float) -> Conv:
        """A layer of `channels`, `kernel`, `stride` (1), `padding` (0); weights by the named initialiser."""
        kernel = sizes["kernel"]
        linear = Linear.create(key, kernel * kernel * n_in, sizes["channels"], init_fn, gain)
        return cls(linear, kernel, sizes.get("stride", 1), sizes.get("padding", 0))

    @property
    def channels(self) -> int:
        """How many come out."""
        return int(self.linear.bias.shape[0])

    def size(self, n: int) -> int:
        """Of `n` pixels along a side, how many come out."""
        return (n + 2 * self.padding - self.kernel) // self.stride + 1

    def __call__(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch rows columns out"]:
        """The convolution of a batch."""
        step, span = self.stride, -(-self.kernel // self.stride)  # the kernel's side, in blocks
        rows, columns = self.size(x.shape[1]), self.size(x.shape[2])
        ends = [(size + span - 1) * step for size in (rows, columns)]
        pads = [(self.padding, max(0, end - n - self.padding)) for end, n in zip(ends, x.shape[1:3], strict=True)]
        x = jnp.pad(x, ((0, 0), *pads, (0, 0)))[:, : ends[0], : ends[1]]
        x = fold(x, step)
        seen = [x[:, i : i + rows, j : j + columns] for i in range(span) for j in range(span)]
        spare = span * step - self.kernel  # where the stride does not divide the kernel, its last block is part zeros
        weight = self.linear.weight.reshape(self.kernel, self.kernel, -1, self.linear.bias.shape[0])
        weight = jnp.pad(jnp.moveaxis(weight, -1, 0), ((0, 0), (0, spare), (0, spare), (0, 0)))
        product = fold(weight, step).reshape(self.linear.bias.shape[0], -1).T
        out: Array = jnp.concatenate(seen, axis=-1) @ product + self.linear.bias
        return out


def fold(x: Float[Array, "batch height width channels"], step: int) -> Array:
    """Blocks of step × step pixels as channels of one."""
    if step == 1:
        return x
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height // step, step, width // step, step, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // step, width // step, -1)


class Impala(eqx.Module):
    """One stage of the residual network of IMPALA (https://arxiv.org/abs/1802.01561): a convolution, a maximum over
    3 × 3 pixels at every second, two residual blocks."""

    first: Conv
    blocks: tuple[tuple[Conv, Conv], ...]

    @classmethod
    def create(cls, key: PRNGKeyArray, n_in: int, channels: int, init_fn: str | None, gain: float) -> Impala:
        """A stage of so many channels."""
        keys = jax.random.split(key, 5)
        sizes = {"channels": channels, "kernel": 3, "padding": 1}
        made = [Conv.create(k, n, sizes, init_fn, gain) for k, n in zip(keys, (n_in, *[channels] * 4), strict=True)]
        return cls(made[0], ((made[1], made[2]), (made[3], made[4])))

    @property
    def channels(self) -> int:
        """How many come out."""
        return self.first.channels

    def size(self, n: int) -> int:
        """Of `n` pixels along a side, how many come out."""
        return (n + 1) // 2

    def __call__(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch rows columns out"]:
        """The stage of a batch."""
        x = jax.lax.reduce_window(self.first(x), -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for one, two in self.blocks:
            x = x + two(jax.nn.relu(one(jax.nn.relu(x))))
        return jax.nn.relu(x)
