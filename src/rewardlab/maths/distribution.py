"""The distributions that policies are made of.

A draw is a function of noise that was drawn before, so that a loop can draw the noise of a whole rollout at once:
drawing it step by step is most of the cost of a step in a small environment.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

LOG_2PI = 1.8378770664093453


class Categorical(NamedTuple):
    """Over the last axis of the logits."""

    logits: Array

    @property
    def log_probs(self) -> Array:
        """Normalised logits."""
        return jax.nn.log_softmax(self.logits)

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: Gumbel noise shaped as the logits."""
        return jax.random.gumbel(key, shape)

    def sample(self, noise: Array) -> Array:
        """One draw (the Gumbel maximum)."""
        return jnp.argmax(self.logits + noise, axis=-1)

    def log_prob(self, action: Array) -> Array:
        """log π(a)."""
        # a one-hot product in place of a gather: the same number, and many times faster to differentiate on a CPU
        chosen = jax.nn.one_hot(action, self.logits.shape[-1], dtype=self.logits.dtype)
        return jnp.sum(self.log_probs * chosen, axis=-1)

    def entropy(self) -> Array:
        """−Σ π log π."""
        log_probs = self.log_probs
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def mode(self) -> Array:
        """The likeliest action."""
        return jnp.argmax(self.logits, axis=-1)


class MultiCategorical(NamedTuple):
    """Independent choices, whose logits stand side by side on the last axis."""

    parts: tuple[Categorical, ...]

    @classmethod
    def split(cls, logits: Array, nvec: tuple[int, ...]) -> MultiCategorical:
        """Of one row of logits, `nvec` for each choice."""
        ends = [sum(nvec[: i + 1]) for i in range(len(nvec))]
        return cls(tuple(Categorical(logits[..., end - n : end]) for n, end in zip(nvec, ends, strict=True)))

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: Gumbel noise shaped as all logits."""
        return Categorical.noise(key, shape)

    def sample(self, noise: Array) -> Array:
        """One draw of each."""
        each = MultiCategorical.split(noise, tuple(part.logits.shape[-1] for part in self.parts)).parts
        return jnp.stack([part.sample(own.logits) for part, own in zip(self.parts, each, strict=True)], axis=-1)

    def log_prob(self, action: Array) -> Array:
        """Σ log π(aᵢ)."""
        return sum((part.log_prob(action[..., i]) for i, part in enumerate(self.parts)), start=jnp.zeros(()))

    def entropy(self) -> Array:
        """The sum of the entropies."""
        return sum((part.entropy() for part in self.parts), start=jnp.zeros(()))

    def mode(self) -> Array:
        """The likeliest of each."""
        return jnp.stack([part.mode() for part in self.parts], axis=-1)


class Normal(NamedTuple):
    """Independent Gaussians over the last axis."""

    mean: Array
    log_std: Array

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: standard normal noise shaped as the mean."""
        return jax.random.normal(key, shape)

    def sample(self, noise: Array) -> Array:
        """One draw, differentiable in mean and log_std."""
        return self.mean + jnp.exp(self.log_std) * noise

    def log_prob(self, action: Array) -> Array:
        """Σ log N(a; mean, std)."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z**2 - self.log_std - 0.5 * LOG_2PI, axis=-1)

    def entropy(self) -> Array:
        """Σ (½ + ½ log 2π + log std)."""
        log_std = jnp.broadcast_to(self.log_std, self.mean.shape)
        return jnp.sum(0.5 + 0.5 * LOG_2PI + log_std, axis=-1)

    def mode(self) -> Array:
        """The mean."""
        return self.mean


class TanhNormal(NamedTuple):
    """tanh of a Gaussian: actions in (−1, 1), as in SAC (https://arxiv.org/abs/1812.05905, appendix C)."""

    mean: Array
    log_std: Array

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: standard normal noise shaped as the mean."""
        return jax.random.normal(key, shape)

    def sample(self, noise: Array) -> Array:
        """One draw."""
        return self.sample_log_prob(noise)[0]

    def sample_log_prob(self, noise: Array) -> tuple[Array, Array]:
        """One draw and its log-probability, both differentiable."""
        gaussian = Normal(self.mean, self.log_std)
        u = gaussian.sample(noise)
        # log(1 − tanh²u) written so that it does not overflow
        correction = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
        return jnp.tanh(u), gaussian.log_prob(u) - jnp.sum(correction, axis=-1)

    def mode(self) -> Array:
        """tanh of the mean."""
        return jnp.tanh(self.mean)


class EpsilonGreedy(NamedTuple):
    """The best action, or with probability ε a uniform one; each row of `q` throws its own dice."""

    q: Array
    epsilon: Array

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: a die per row, and one per action to choose among them."""
        return jax.random.uniform(key, (*shape[:-1], shape[-1] + 1))

    def sample(self, noise: Array) -> Array:
        """One draw per row."""
        explore = noise[..., 0] < self.epsilon
        return jnp.argmax(jnp.where(explore[..., None], noise[..., 1:], self.q), axis=-1)


class Boltzmann(NamedTuple):
    """softmax(Q / τ)."""

    q: Array
    temperature: Array

    @staticmethod
    def noise(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """What `sample` needs: Gumbel noise shaped as the action values."""
        return jax.random.gumbel(key, shape)

    def sample(self, noise: Array) -> Array:
        """One draw per row."""
        return Categorical(self.q / self.temperature).sample(noise)
