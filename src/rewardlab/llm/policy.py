"""A model with its tokenizer, by name: `builtin:tiny`, `builtin:blank`, a folder, or an id of the Hugging Face hub."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rewardlab.llm import model as decoder
from rewardlab.llm.errors import LlmError
from rewardlab.llm.model import Model, ModelConfig
from rewardlab.llm.tokenizer import CharacterTokenizer, FolderTokenizer, Tokenizer
from rewardlab.llm.weights import load_model, save_model

DEFAULT_CACHE = Path("~/.cache/rewardlab/models")
BLANK, TINY = "builtin:blank", "builtin:tiny"
WARMUP = "warmup.yaml"  # how builtin:tiny is made of builtin:blank


class Policy(NamedTuple):
    """What speaks."""

    model: Model
    tokenizer: Tokenizer


def tiny_config() -> ModelConfig:
    """Two thirds of a million weights; 103 characters."""
    return ModelConfig(
        vocab_size=CharacterTokenizer().size,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        query_key_norm=True,
        tie_word_embeddings=True,
        max_position_embeddings=512,
    )


def blank(seed: int) -> Policy:
    """The tiny model with random weights."""
    return Policy(decoder.create(tiny_config(), jax.random.key(seed)), CharacterTokenizer())


def load_policy(name: str, cache: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Policy:
    """The model of a name in float32, and its tokenizer."""
    if name == BLANK:
        return blank(0)
    if name == TINY:
        return _tiny((cache or DEFAULT_CACHE).expanduser(), say)
    if name.startswith("builtin:"):
        raise LlmError(f"there is no model {name}; there are {TINY} and {BLANK}")
    folder = Path(name)
    if not folder.is_dir():
        if name.startswith((".", "/", "~")) or name.count("/") != 1:
            raise LlmError(
                f"there is no model folder {name}; a model is a folder, an id such as Qwen/Qwen3-1.7B, or {TINY}"
            )
        folder = _download(name)
    if (folder / CHARACTERS).is_file():
        return Policy(load_model(folder, jnp.float32), CharacterTokenizer())
    tokenizer = FolderTokenizer(folder)
    model = load_model(folder, jnp.float32)
    if tokenizer.size > model.config.vocab_size:
        raise LlmError(f"the tokenizer of {name} has {tokenizer.size} tokens, the model {model.config.vocab_size}")
    return Policy(model, tokenizer)


CHARACTERS = "characters.json"  # marks a folder whose tokenizer is ours: it is read without the package tokenizers


def save_policy(folder: Path, policy: Policy, dtype: Any = None) -> None:
    """A folder that `transformers` and `load_policy` read."""
    model = policy.model if dtype is None else jax.tree.map(lambda x: x.astype(dtype), policy.model)
    save_model(folder, model)
    policy.tokenizer.save(folder)
    if isinstance(policy.tokenizer, CharacterTokenizer):
        (folder / CHARACTERS).write_text("{}\n")


def _download(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise LlmError(f'{name} is on the hub: pip install "rewardlab[llm]", or give a folder') from error
    patterns = ["*.json", "*.safetensors", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LlmError(f"{name} is no folder here and could not be fetched from the hub: {first}") from error


def _tiny(cache: Path, say: Callable[[str], None]) -> Policy:
    """Made at first use, which takes about a minute, and kept under the hash of how it is made."""
    from rewardlab.llm import config, sft

    how, _ = sft.load(config.folder() / WARMUP)
    folder = cache / f"tiny-{how.hash()[:16]}"
    if not (folder / "config.json").is_file():
        say(f"making {TINY}: {how.steps} steps of supervised warm-up, once")
        trained = sft.train(how, blank(how.seed), say)
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        save_policy(beside, trained)
        try:
            beside.rename(folder)  # whole or not at all
        except OSError:  # another process was faster, with the same weights
            shutil.rmtree(beside)
    return Policy(load_model(folder, jnp.float32), CharacterTokenizer())
