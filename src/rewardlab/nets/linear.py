"""Linear layers and how their weights begin, by the names of PyTorch's initialisers."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

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
