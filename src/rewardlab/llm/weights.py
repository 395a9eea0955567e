"""Hugging Face folders: config.json and safetensors (one file or sharded), read into a model and written from one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.flax import save_file

from rewardlab.files import read_json, write_json
from rewardlab.llm.errors import LlmError
from rewardlab.llm.model import Layer, Model, ModelConfig, RopeScaling

ARCHITECTURES = {"qwen3": "Qwen3ForCausalLM", "qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
INDEX = "model.safetensors.index.json"
SHARD_BYTES = 5_000_000_000
Take = Callable[[str], np.ndarray[Any, Any]]


def read_config(folder: Path) -> ModelConfig:
    """The shape of a model, or one sentence on what this decoder cannot do."""
    path = folder / "config.json"
    if not path.is_file():
        raise LlmError(f"{folder} has no config.json: a model folder holds it, *.safetensors and tokenizer.json")
    raw = read_json(path)
    kind = raw.get("model_type")
    if kind not in ARCHITECTURES:
        raise LlmError(f"{path} says model_type {kind!r}; there are {', '.join(ARCHITECTURES)}")
    if raw.get("hidden_act", "silu") != "silu":
        raise LlmError(f"{path} says hidden_act {raw['hidden_act']!r}; there is silu")
    if raw.get("use_sliding_window") or "sliding_attention" in (raw.get("layer_types") or ()):
        raise LlmError(f"{path} asks for a sliding window, which is not built")
    rope = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    heads = raw["num_attention_heads"]
    try:
        return ModelConfig(
            vocab_size=raw["vocab_size"],
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_hidden_layers=raw["num_hidden_layers"],
            num_attention_heads=heads,
            num_key_value_heads=raw.get("num_key_value_heads") or heads,
            head_dim=raw.get("head_dim") or (128 if kind == "qwen3" else raw["hidden_size"] // heads),
            model_type=kind,
            rope_theta=float(rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0),
            rope_scaling=_rope_scaling(path, rope),
            rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
            tie_word_embeddings=raw.get("tie_word_embeddings", False),
            attention_bias=kind == "qwen2" or raw.get("attention_bias", False),
            output_bias=kind != "qwen2" and raw.get("attention_bias", False),
            mlp_bias=raw.get("mlp_bias", False),
            query_key_norm=kind == "qwen3",
            max_position_embeddings=raw.get("max_position_embeddings", 32_768),
        )
    except KeyError as missing:
        raise LlmError(f"{path} has no {missing.args[0]}") from missing


def _rope_scaling(path: Path, rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise LlmError(f"{path} asks for rope scaling {kind!r}; there are default and llama3")
    return RopeScaling(
        float(rope["factor"]),
        float(rope["low_freq_factor"]),
        float(rope["high_freq_factor"]),
        int(rope["original_max_position_embeddings"]),
    )


def load_model(folder: Path, dtype: Any = None) -> Model:
    """The model of a folder; `dtype` (as stored if left out) is that of every weight."""
    config = read_config(folder)
    files = _files(folder)

    def take(name: str) -> np.ndarray[Any, Any]:
        if name not in files:
            raise LlmError(f"the weights of {folder} hold no {name}, which config.json asks for")
        array: np.ndarray[Any, Any] = files[name](name)
        return array if dtype is None else array.astype(dtype)

    try:
        embedding = take("model.embed_tokens.weight")
        layers = tuple(_layer(config, take, f"model.layers.{i}.") for i in range(config.num_hidden_layers))
        head = None if config.tie_word_embeddings else take("lm_head.weight")
        model = Model(config, embedding, layers, take("model.norm.weight"), head)
    except SafetensorError as error:
        raise LlmError(f"the weights of {folder} are damaged: {error}") from error
    if embedding.shape != (config.vocab_size, config.hidden_size):
        raise LlmError(f"the embedding of {folder} is {list(embedding.shape)}, which is not what config.json says")
    loaded: Model = jax.tree.map(jnp.asarray, model)
    return loaded


def _files(folder: Path) -> dict[str, Take]:
    """Every tensor's name, and what reads it."""
    index = folder / INDEX
    if index.is_file():
        paths = sorted({folder / name for name in read_json(index)["weight_map"].values()})
    else:
        paths = sorted(folder.glob("*.safetensors"))
    missing = [path.name for path in paths if not path.is_file()]
    if missing or not paths:
        what = f"lacks {', '.join(missing)}" if missing else "holds no *.safetensors"
        raise LlmError(f"{folder} has no weights: it {what}")
    found: dict[str, Take] = {}
    for path in paths:
        try:
            opened = safe_open(path, framework="flax")
        except (SafetensorError, OSError) as error:
            raise LlmError(f"{path} is damaged or cannot be read: {error}") from error
        read = partial(_read, opened)
        found.update(dict.fromkeys(opened.keys(), read))  # type: ignore[no-untyped-call]
    return found


def _read(opened: Any, name: str) -> np.ndarray[Any, Any]:
    return np.asarray(opened.get_tensor(name))


def _layer(config: ModelConfig, take: Take, at: str) -> Layer:
    def weight(*names: str) -> Any:
        return np.concatenate([take(f"{at}{name}.weight").T for name in names], axis=1)

    def bias(wanted: bool, *names: str) -> Any:
        return np.concatenate([take(f"{at}{name}.bias") for name in names]) if wanted else None

    three = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    two = ("mlp.gate_proj", "mlp.up_proj")
    return Layer(
        attention_norm=take(f"{at}input_layernorm.weight"),
        query_key_value=weight(*three),
        query_key_value_bias=bias(config.attention_bias, *three),
        query_norm=take(f"{at}self_attn.q_norm.weight") if config.query_key_norm else None,
        key_norm=take(f"{at}self_attn.k_norm.weight") if config.query_key_norm else None,
        output=weight("self_attn.o_proj"),
        output_bias=bias(config.output_bias, "self_attn.o_proj"),
        feed_forward_norm=take(f"{at}post_attention_layernorm.weight"),
        gate_up=weight(*two),
        gate_up_bias=bias(config.mlp_bias, *two),
        down=weight("mlp.down_proj"),
        down_bias=bias(config.mlp_bias, "mlp.down_proj"),
    )


def named_tensors(model: Model) -> Iterator[tuple[str, Any]]:
    """Every weight under its Hugging Face name, [out, in] as there."""
    config = model.config
    yield "model.embed_tokens.weight", model.embedding
    for i, layer in enumerate(model.layers):
        at = f"model.layers.{i}."
        cuts = (config.query_size, config.query_size + config.key_size)
        split = {
            ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"): (
                jnp.split(layer.query_key_value, cuts, axis=1),
                None if layer.query_key_value_bias is None else jnp.split(layer.query_key_value_bias, cuts),
            ),
            ("mlp.gate_proj", "mlp.up_proj"): (
                jnp.split(layer.gate_up, 2, axis=1),
                None if layer.gate_up_bias is None else jnp.split(layer.gate_up_bias, 2),
            ),
            ("self_attn.o_proj",): ([layer.output], None if layer.output_bias is None else [layer.output_bias]),
            ("mlp.down_proj",): ([layer.down], None if layer.down_bias is None else [layer.down_bias]),
        }
        for names, (weights, biases) in split.items():
            for name, weight in zip(names, weights, strict=True):
                yield f"{at}{name}.weight", weight.T
            for name, bias in zip(names, biases or (), strict=False):
                yield f"{at}{name}.bias", bias
        yield f"{at}input_layernorm.weight", layer.attention_norm
        yield f"{at}post_attention_layernorm.weight", layer.feed_forward_norm
        if layer.query_norm is not None:
            yield f"{at}self_attn.q_norm.weight", layer.query_norm
            yield f"{at}self_attn.k_norm.weight", layer.key_norm
    yield "model.norm.weight", model.norm
    if model.head is not None:
        yield "lm_head.weight", model.head


def save_model(folder: Path, model: Model, shard_bytes: int = SHARD_BYTES) -> None:
    """Write config.json and the weights as `transformers` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Any]] = [{}]
    size = total = 0
    for name, tensor in named_tensors(model):
        if size and size + tensor.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = jnp.asarray(tensor)
        size, total = size + tensor.nbytes, total + tensor.nbytes
    where = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        where.update(dict.fromkeys(shard, file))
    if len(shards) > 1:
        write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": where})
    write_json(folder / "config.json", config_json(model.config, str(model.embedding.dtype)))


def config_json(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """config.json in the words of `transformers`."""
    kept: tuple[str, ...] = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim")
    kept += ("num_attention_heads", "num_key_value_heads", "model_type", "rope_theta", "rms_norm_eps")
    kept += ("tie_word_embeddings", "mlp_bias", "max_position_embeddings")
    scaling = config.rope_scaling
    return {
        "architectures": [ARCHITECTURES[config.model_type]],
        **{name: getattr(config, name) for name in kept},
        "attention_bias": config.output_bias,
        "hidden_act": "silu",
        "rope_scaling": None if scaling is None else {"rope_type": "llama3", **vars(scaling)},
        "dtype": dtype,
        "torch_dtype": dtype,
    }


def weights_hash(model: Model) -> str:
    """SHA-256 of all weights, in the order of their names."""
    import hashlib

    digest = hashlib.sha256(json.dumps(config_json(model.config, str(model.embedding.dtype)), sort_keys=True).encode())
    for name, tensor in sorted(named_tensors(model), key=lambda item: item[0]):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(np.asarray(tensor)).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
