"""A decoder-only transformer: the Qwen3, Qwen2.5 and Llama families in one page.

Weights are stored as [in, out], and what is multiplied by the same input stands in one matrix: query, key and value;
gate and up. Rows of a batch are padded on the left, so that all rows write the same slot of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

MASKED = -1e30
UNROLLED_LAYERS = 6  # up to so many layers are compiled one by one; more are one scanned layer


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's stretching of low frequencies."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model; the names are those of Hugging Face's config.json."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    model_type: str = "qwen3"
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    attention_bias: bool = False  # of query, key and value
    output_bias: bool = False  # of the attention's output
    mlp_bias: bool = False
    query_key_norm: bool = False
    max_position_embeddings: int = 32_768

    @property
    def query_size(self) -> int:
        """Width of all queries together."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Width of all keys together."""
        return self.num_key_value_heads * self.head_dim


class Layer(eqx.Module):
    """Attention, then a gated feed-forward part, each after a norm and beside a residual path."""

    attention_norm: Float[Array, " D"]
    query_key_value: Float[Array, "D QKV"]
    query_key_value_bias: Float[Array, " QKV"] | None
    query_norm: Float[Array, " hd"] | None
    key_norm: Float[Array, " hd"] | None
    output: Float[Array, "Q D"]
    output_bias: Float[Array, " D"] | None
    feed_forward_norm: Float[Array, " D"]
    gate_up: Float[Array, "D 2F"]
    gate_up_bias: Float[Array, " 2F"] | None
    down: Float[Array, "F D"]
    down_bias: Float[Array, " D"] | None


class Cache(NamedTuple):
    """Keys and values of one layer, one slot per position."""

    keys: Float[Array, "B K T hd"]
    values: Float[Array, "B K T hd"]


class Rotation(NamedTuple):
    """Cosine and sine of every position's angles."""

    cos: Float[Array, "B S 1 half"]
    sin: Float[Array, "B S 1 half"]


class Model(eqx.Module):
    """Tokens in, hidden states out; `logits` reads them."""

    config: ModelConfig = eqx.field(static=True)
    embedding: Float[Array, "V D"]
    layers: tuple[Layer, ...]
    norm: Float[Array, " D"]
    head: Float[Array, "V D"] | None  # None: the embedding itself

    def __call__(self, tokens: Int[Array, "B S"], padding: Int[Array, " B"], remat: bool = False) -> Array:
        """Hidden states of whole rows, each after its own padding."""
        x, rotation, mask = self._enter(tokens, padding)

        def through(x: Array, layer: Layer) -> tuple[Array, None]:
            return block(self.config, layer, x, rotation, mask)[0], None

        if remat:
            through = jax.checkpoint(through)
        if len(self.layers) <= UNROLLED_LAYERS:
            for layer in self.layers:
                x, _ = through(x, layer)
        else:
            x, _ = jax.lax.scan(through, x, jax.tree.map(lambda *leaves: jnp.stack(leaves), *self.layers))
        return rms_norm(x, self.norm, self.config.rms_norm_eps)

    def prefill(self, tokens: Int[Array, "B S"], padding: Int[Array, " B"]) -> tuple[Array, tuple[Cache, ...]]:
        """The hidden state of the last position, and every layer's keys and values."""
        x, rotation, mask = self._enter(tokens, padding)
        caches = []
        for layer in self.layers:
            x, cache = block(self.config, layer, x, rotation, mask)
            caches.append(cache)
        return rms_norm(x[:, -1], self.norm, self.config.rms_norm_eps), tuple(caches)

    def decode(
        self, token: Int[Array, " B"], padding: Int[Array, " B"], caches: tuple[Cache, ...], slot: Int[Array, ""]
    ) -> tuple[Array, tuple[Cache, ...]]:
        """The hidden state after one more token, which is written into a slot of the caches."""
        slots = jnp.arange(caches[0].keys.shape[2])
        mask = (slots <= slot)[None, None, :] & (slots >= padding[:, None])[:, None, :]
        rotation = rotate_by(self.config, (slot - padding)[:, None], self.embedding.dtype)
        x = self.embedding[token][:, None]
        written = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = block(self.config, layer, x, rotation, mask, cache, slot)
            written.append(cache)
        return rms_norm(x[:, 0], self.norm, self.config.rms_norm_eps), tuple(written)

    def logits(self, hidden: Float[Array, "*batch D"]) -> Float[Array, "*batch V"]:
        """Scores of the next token, in float32."""
        head = self.embedding if self.head is None else self.head
        return jnp.einsum("...d,vd->...v", hidden, head, preferred_element_type=jnp.float32)

    def _enter(self, tokens: Array, padding: Array) -> tuple[Array, Rotation, Array]:
        slots = jnp.arange(tokens.shape[1])
        mask = (slots[None, :] <= slots[:, None])[None] & (slots >= padding[:, None])[:, None, :]
        positions = jnp.maximum(slots - padding[:, None], 0)
        return self.embedding[tokens], rotate_by(self.config, positions, self.embedding.dtype), mask


def block(
    config: ModelConfig,
    layer: Layer,
    x: Float[Array, "B S D"],
    rotation: Rotation,
    mask: Array,
    cache: Cache | None = None,
    slot: Array | None = None,
) -> tuple[Array, Cache]:
    """One layer; with a cache, its keys and values are those before, and these at `slot`."""
    B, S, _ = x.shape
    K, hd = config.num_key_value_heads, config.head_dim
    normed = rms_norm(x, layer.attention_norm, config.rms_norm_eps)
    joined = affine(normed, layer.query_key_value, layer.query_key_value_bias)
    query, key, value = jnp.split(joined, (config.query_size, config.query_size + config.key_size), axis=-1)
    query = query.reshape(B, S, config.num_attention_heads, hd)
    key, value = key.reshape(B, S, K, hd), value.reshape(B, S, K, hd)
    if layer.query_norm is not None and layer.key_norm is not None:
        query = rms_norm(query, layer.query_norm, config.rms_norm_eps)
        key = rms_norm(key, layer.key_norm, config.rms_norm_eps)
    query, key = rotate(query, rotation), rotate(key, rotation)
    own = Cache(key.swapaxes(1, 2), value.swapaxes(1, 2))
    if cache is not None and slot is not None:
        place = (0, 0, slot, 0)
        own = Cache(*(jax.lax.dynamic_update_slice(old, new, place) for old, new in zip(cache, own, strict=True)))
    x = x + affine(attend(query, own, mask), layer.output, layer.output_bias)
    normed = rms_norm(x, layer.feed_forward_norm, config.rms_norm_eps)
    gate, up = jnp.split(affine(normed, layer.gate_up, layer.gate_up_bias), 2, axis=-1)
    return x + affine(jax.nn.silu(gate) * up, layer.down, layer.down_bias), own


def attend(query: Float[Array, "B S H hd"], cache: Cache, mask: Array) -> Float[Array, "B S Q"]:
    """softmax(QKᵀ/√d) V; each key and value serves a group of heads."""
    B, S, H, hd = query.shape
    K = cache.keys.shape[1]
    grouped = query.reshape(B, S, K, H // K, hd).transpose(0, 2, 3, 1, 4)
    scores = jnp.einsum("bkgsd,bktd->bkgst", grouped, cache.keys, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores * hd**-0.5, MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(query.dtype)
    mixed = jnp.einsum("bkgst,bktd->bkgsd", weights, cache.values)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(B, S, H * hd)


def affine(x: Array, weight: Array, bias: Array | None) -> Array:
    """xW + b."""
    y = x @ weight
    return y if bias is None else y + bias


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / rms(x) · w, in float32 (https://arxiv.org/abs/1910.07467)."""
    wide = x.astype(jnp.float32)
    scaled = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return weight * scaled.astype(x.dtype)


def rotate_by(config: ModelConfig, positions: Int[Array, "B S"], dtype: jnp.dtype) -> Rotation:
    """The angles of rotary position embedding (https://arxiv.org/abs/2104.09864)."""
    frequency = config.rope_theta ** (-jnp.arange(0, config.head_dim, 2, dtype=jnp.float32) / config.head_dim)
    if config.rope_scaling is not None:
        frequency = _stretch(config.rope_scaling, frequency)
    angle = positions[:, :, None, None] * frequency
    return Rotation(jnp.cos(angle).astype(dtype), jnp.sin(angle).astype(dtype))


def _stretch(scaling: RopeScaling, frequency: Array) -> Array:
    """Llama 3: frequencies whose waves are longer than the original context are slowed by the factor."""
    turns = scaling.original_max_position_embeddings * frequency / (2 * jnp.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = jnp.clip((turns - scaling.low_freq_factor) / span, 0.0, 1.0)
    return kept * frequency + (1 - kept) * frequency / scaling.factor


def rotate(x: Float[Array, "B S H hd"], rotation: Rotation) -> Array:
    """Each pair (x_i, x_{i+hd/2}) turned by its angle."""
    first, second = jnp.split(x, 2, axis=-1)
    cos, sin = rotation
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def create(config: ModelConfig, key: PRNGKeyArray, dtype: str = "float32") -> Model:
    """Random weights (normal, 0.02); what writes into the residual path starts smaller the deeper the model is."""
    D, F = config.hidden_size, config.intermediate_size
    keys = iter(jax.random.split(key, 2 + 4 * config.num_hidden_layers))
    small = 0.02 / (2 * config.num_hidden_layers) ** 0.5

    def normal(shape: tuple[int, ...], std: float = 0.02) -> Array:
        return std * jax.random.normal(next(keys), shape, dtype)

    def ones(size: int) -> Array:
        return jnp.ones(size, dtype)

    def zeros(size: int, wanted: bool) -> Array | None:
        return jnp.zeros(size, dtype) if wanted else None

    def layer() -> Layer:
        joined = config.query_size + 2 * config.key_size
        return Layer(
            attention_norm=ones(D),
            query_key_value=normal((D, joined)),
            query_key_value_bias=zeros(joined, config.attention_bias),
            query_norm=ones(config.head_dim) if config.query_key_norm else None,
            key_norm=ones(config.head_dim) if config.query_key_norm else None,
            output=normal((config.query_size, D), small),
            output_bias=zeros(D, config.output_bias),
            feed_forward_norm=ones(D),
            gate_up=normal((D, 2 * F)),
            gate_up_bias=zeros(2 * F, config.mlp_bias),
            down=normal((F, D), small),
            down_bias=zeros(D, config.mlp_bias),
        )

    head = None if config.tie_word_embeddings else normal((config.vocab_size, D))
    embedding = normal((config.vocab_size, D))
    layers = tuple(layer() for _ in range(config.num_hidden_layers))
    return Model(config, embedding, layers, ones(D), head)
