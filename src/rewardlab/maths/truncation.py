"""The distribution that a language model is sampled from: temperature, then top-k, top-p and min-p.

Who trains on what was sampled needs the same distribution. So a draw comes with its support, the tokens that could
have been drawn, and `log_prob` is taken within a support: the same number in the sampler and in the trainer, and after
an update still a probability of the token among the same alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

WIDE = 16_384  # from so many tokens on, the largest are looked for in two passes
NARROW = 1024  # up to so many tokens, comparing with all of them is cheaper than gathering
NONE = -1  # fills a list of tokens that is shorter than its row


@dataclass(frozen=True)
class Truncation:
    """How the distribution is cut; temperature 0 is the likeliest token."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def cuts(self) -> bool:
        """Whether some tokens cannot be drawn."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


class Draw(NamedTuple):
    """A token of each row, its log-probability, the entropy, and the support (None: all tokens)."""

    token: Int[Array, " B"]
    log_prob: Float[Array, " B"]
    entropy: Float[Array, " B"]
    support: Array | None


def draw(how: Truncation, logits: Float[Array, "B V"], uniform: Float[Array, " B"]) -> Draw:
    """One token per row by the inverse of the distribution function, from one uniform number per row."""
    if how.temperature == 0:
        token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        zero = jnp.zeros(token.shape, jnp.float32)
        return Draw(token, zero, zero, token[:, None] if how.cuts else None)
    scaled = logits / how.temperature
    if how.top_k > 0:  # few candidates: their tokens are the support
        scores, tokens = largest(scaled, min(how.top_k, logits.shape[-1]))
        log_probs = _within(scores, _nucleus(how, scores))
        chosen, log_prob, entropy = _invert(log_probs, uniform)
        token = jnp.take_along_axis(tokens, chosen[:, None], axis=-1)[:, 0]
        return Draw(token, log_prob, entropy, jnp.where(log_probs > -jnp.inf, tokens, NONE))
    if how.cuts:  # many: one bit per token
        scores, order = jax.lax.top_k(scaled, scaled.shape[-1])
        kept = jnp.zeros(scaled.shape, bool).at[jnp.arange(len(order))[:, None], order].set(_nucleus(how, scores))
        token, log_prob, entropy = _invert(_within(scaled, kept), uniform)
        return Draw(token, log_prob, entropy, jnp.packbits(kept, axis=-1))
    token, log_prob, entropy = _invert(jax.nn.log_softmax(scaled), uniform)
    return Draw(token, log_prob, entropy, None)


def log_prob(
    how: Truncation, logits: Float[Array, "*batch V"], token: Int[Array, "*batch"], support: Array | None
) -> Float[Array, "*batch"]:
    """log π(token) at this temperature among the tokens of the support."""
    scaled = logits / (how.temperature or 1.0)
    V = logits.shape[-1]
    if V > NARROW:
        chosen = jnp.take_along_axis(scaled, token[..., None], axis=-1)[..., 0]
    else:  # a gather is many times dearer to differentiate on a CPU
        chosen = jnp.sum(jnp.where(token[..., None] == jnp.arange(V), scaled, 0), axis=-1)
    if support is None:
        return chosen - jax.nn.logsumexp(scaled, axis=-1)
    if not jnp.issubdtype(support.dtype, jnp.uint8) and V > NARROW:
        # a row without a draw (padding) has an empty support: its own token keeps the number finite
        among = jnp.take_along_axis(scaled, jnp.maximum(support, 0), axis=-1)
        empty = jnp.all(support == NONE, axis=-1, keepdims=True)
        among = jnp.where(support == NONE, jnp.where(empty, chosen[..., None], -jnp.inf), among)
        return chosen - jax.nn.logsumexp(among, axis=-1)
    if jnp.issubdtype(support.dtype, jnp.uint8):
        kept = jnp.unpackbits(support, axis=-1, count=V).astype(bool)
    else:
        kept = jnp.any(support[..., None] == jnp.arange(V), axis=-2)
        kept = kept | (~jnp.any(kept, axis=-1, keepdims=True) & (token[..., None] == jnp.arange(V)))
    return chosen - jax.nn.logsumexp(jnp.where(kept, scaled, -jnp.inf), axis=-1)


def largest(x: Float[Array, "B V"], k: int) -> tuple[Array, Int[Array, "B k"]]:
    """The k largest entries of a row, in order. In a wide row they lie in the k chunks with the largest maxima."""
    V = x.shape[-1]
    size = 128
    if V < WIDE or k * size > V:
        return jax.lax.top_k(x, k)
    padded = jnp.pad(x, ((0, 0), (0, -V % size)), constant_values=-jnp.inf).reshape(len(x), -1, size)
    chunks = jax.lax.top_k(padded.max(-1), k)[1]
    candidates = jnp.take_along_axis(padded, chunks[:, :, None], axis=1).reshape(len(x), -1)
    tokens = (chunks[:, :, None] * size + jnp.arange(size)).reshape(len(x), -1)
    scores, places = jax.lax.top_k(candidates, k)
    return scores, jnp.take_along_axis(tokens, places, axis=-1)


def _nucleus(how: Truncation, scores: Float[Array, "B k"]) -> Array:
    """Which entries of a descending row stay: the fewest whose mass reaches top_p, none below min_p of the first."""
    probs = jax.nn.softmax(scores, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs
    kept = (before < how.top_p) & (probs >= how.min_p * probs[..., :1]) & (scores > -jnp.inf)
    return kept.at[..., 0].set(True)


def _within(scores: Array, kept: Array) -> Array:
    return jax.nn.log_softmax(jnp.where(kept, scores, -jnp.inf), axis=-1)


def _invert(log_probs: Float[Array, "B n"], uniform: Float[Array, " B"]) -> tuple[Array, Array, Array]:
    """The first entry whose cumulative mass exceeds the uniform number; its log-probability; the entropy."""
    probs = jnp.exp(log_probs)
    mass = jnp.cumsum(probs, axis=-1)
    chosen = jnp.sum(mass <= uniform[:, None] * mass[:, -1:], axis=-1)
    possible = jnp.where(probs > 0, jnp.arange(probs.shape[-1]), 0)
    chosen = jnp.minimum(chosen, possible.max(-1)).astype(jnp.int32)  # rounding must not pick what has no mass
    entropy = -jnp.sum(jnp.where(probs > 0, probs * log_probs, 0.0), axis=-1)
    return chosen, jnp.take_along_axis(log_probs, chosen[:, None], axis=-1)[:, 0], entropy
