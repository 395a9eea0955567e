"""A decoder-only transformer: the Qwen3, Qwen2.5 and Llama families in one page.

Weights are stored as [in, out], and what is multiplied by the same input stands in one matrix: query, key and value;
gate and up. Rows of a batch are padded on the left, so that all rows write the same slot of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

MASKED = -1e30
NARROW = 1024  # tokens
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
        return self.read(tokens, padding, None, remat)[0]

    def read(
        self,
        tokens: Int[Array, "B S"],
        padding: Int[Array, " B"],
        before: tuple[Cache, ...] | None = None,
        remat: bool = False,
    ) -> tuple[Float[Array, "B S D"], tuple[Cache, ...]]:
        """Hidden states of rows that go on after `before`, and every layer's keys and values from the start."""
        done = 0 if before is None else before[0].keys.shape[2]
        slots = jnp.arange(done + tokens.shape[1])
        mask = (slots <= slots[done:, None])[None] & (slots >= padding[:, None])[:, None, :]
        positions = jnp.maximum(slots[done:] - padding[:, None], 0)
        rotation = rotate_by(self.config, positions, self.embedding.dtype)

        def through(x: Array, layer: tuple[Layer, Cache | None]) -> tuple[Array, Cache]:
            return block(self.config, layer[0], x, rotation, mask, layer[1])

        if remat:
            through = jax.checkpoint(through)
        x, caches = self.embed(tokens), []
        if len(self.layers) <= UNROLLED_LAYERS:
            for i, layer in enumerate(self.layers):
                x, cache = through(x, (layer, None if before is None else before[i]))
                caches.append(cache)
        else:
            x, stacked = jax.lax.scan(through, x, (_stack(self.layers), None if before is None else _stack(before)))
            caches = [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(len(self.layers))]
        return rms_norm(x, self.norm, self.config.rms_norm_eps), tuple(caches)

    def decode(
        self, token: Int[Array, " B"], padding: Int[Array, " B"], caches: tuple[Cache, ...], slot: Int[Array, ""]
    ) -> tuple[Array, tuple[Cache, ...]]:
        """The hidden state after one more token, which is written into a slot of the caches."""
        slots = jnp.arange(caches[0].keys.shape[2])
        mask = (slots <= slot)[None, None, :] & (slots >= padding[:, None])[:, None, :]
        rotation = rotate_by(self.config, (slot - padding)[:, None], self.embedding.dtype)
        x = self.embed(token)[:, None]
        written = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = block(self.config, layer, x, rotation, mask, cache, slot)
            written.append(cache)
        return rms_norm(x[:, 0], self.norm, self.config.rms_norm_eps), tuple(written)

    def embed(self, tokens: Int[Array, "*batch"]) -> Float[Array, "*batch D"]:
        """Rows of the embedding; of few tokens by a product: a gather is dear to differentiate on a CPU."""
        if len(self.embedding) > NARROW:
            return self.embedding[tokens]
        return affine(jax.nn.one_hot(tokens, len(self.embedding), dtype=self.embedding.dtype), self.embedding, None)

    def logits(self, hidden: Float[Array, "*batch D"]) -> Float[Array, "*batch V"]:
        """Scores of the next token, in float32."""
        head = self.embedding if self.head is None else self.head
        flat = hidden.reshape(-1, hidden.shape[-1])
        scores = jnp.einsum("nd,vd->nv", flat, head, preferred_element_type=jnp.float32)
        return scores.reshape(*hidden.shape[:-1], len(head))


def _stack(parts: tuple[Any, ...]) -> Any:
    """Trees of one shape as one tree with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def block(
    config: ModelConfig,
    layer: Layer,
    x: Float[Array, "B S D"],
    rotation: Rotation,
    mask: Array,
    cache: Cache | None = None,
    slot: Array | None = None,
) -> tuple[Array, Cache]:
    """One layer; with a cache, these keys and values come behind those, or into its `slot`."""
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
    if cache is not None and slot is None:
        own = Cache(*(jnp.concatenate(parts, axis=2) for parts in zip(cache, own, strict=True)))
    elif cache is not None and slot is not None:
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
    grouped = query.reshape(B, S, K, H // K, hd).transpose(0, 2, 3, 1, 4).reshape(B, K, -1, hd)
    scores = jnp.einsum("bkqd,bktd->bkqt", grouped, cache.keys, preferred_element_type=jnp.float32)
    scores = scores.reshape(B, K, H // K, S, -1)
    scores = jnp.where(mask[:, None, None], scores * hd**-0.5, MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(query.dtype).reshape(B, K, (H // K) * S, -1)
    mixed = jnp.einsum("bkqt,bktd->bkqd", weights, cache.values).reshape(B, K, H // K, S, hd)
    return mixed.transpose(0, 3, 1, 2, 4).reshape(B, S, H * hd)


def affine(x: Array, weight: Array, bias: Array | None) -> Array:
    """xW + b, as a product of two matrices: over more axes XLA's gradient is four times slower on a CPU."""
    y = (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[-1])
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
