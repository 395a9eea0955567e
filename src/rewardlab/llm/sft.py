"""Supervised fine-tuning: the model learns to say what demonstrations say."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rewardlab.files import read_text
from rewardlab.llm import config as run_config
from rewardlab.llm.config import DataConfig
from rewardlab.llm.errors import LlmError
from rewardlab.llm.model import Model
from rewardlab.llm.policy import Policy
from rewardlab.llm.prompts import dataset_of, prompt_of
from rewardlab.llm.sample import bucket
from rewardlab.llm.tasks import Entry
from rewardlab.maths.truncation import Truncation, log_prob
from rewardlab.spec import SpecError, build, near
from rewardlab.spec.build import keys_of
from rewardlab.spec.check import at_least
from rewardlab.spec.text import parse, parse_value


@dataclass(frozen=True)
class SftConfig:
    """One supervised run."""

    data: DataConfig
    model_name: str
    demonstration: str = "<think>{terse}</think><answer>{answer}</answer>"
    steps: int = 500
    batch: int = 64
    lr: float = 1e-3
    lr_schedule: Literal["constant", "cosine"] = "cosine"
    weight_decay: float = 0.0
    max_norm: float = 1.0
    seed: int = 0

    def hash(self) -> str:
        """SHA-256 of everything that decides the weights."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()


def load(path: Path, settings: dict[str, str] | None = None) -> tuple[SftConfig, list[str]]:
    """The config of a file."""
    path, notes = run_config.find(path)
    raw, _ = parse(read_text(path), path)
    for key, value in (settings or {}).items():
        raw[key] = parse_value(value)
    known = keys_of(SftConfig)
    for key in raw:
        if key not in known:
            nearest = near(str(key), known)
            hint = f"did you mean {nearest}?" if nearest else f"the keys are {', '.join(known)}"
            raise SpecError(f"{path}: the key {key} is unknown; {hint}")
    try:
        made = build(SftConfig, raw, "")
        at_least(made, "config", steps=1, batch=1, lr=0, weight_decay=0, max_norm=0, seed=0)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error
    return made, notes


class Demonstrations(NamedTuple):
    """Rows padded on the right; the model learns the tokens where `said` is one."""

    tokens: Any
    said: Any


def demonstrations(config: SftConfig, policy: Policy) -> Iterator[Demonstrations]:
    """Batches for ever, every entry once per round, in a random order of each round."""
    data = dataset_of(config.data, config.seed)
    rows = [_row(config, policy, entry) for entry in data]
    width = bucket(max(len(prompt) + len(said) for prompt, said in rows))
    dice = np.random.default_rng(config.seed)
    order = np.zeros(0, np.int64)
    while True:
        while len(order) < config.batch:
            order = np.concatenate([order, dice.permutation(len(rows))])
        chosen, order = order[: config.batch], order[config.batch :]
        tokens = np.full((config.batch, width), policy.tokenizer.pad, np.int32)
        mask = np.zeros((config.batch, width), np.float32)
        for i, index in enumerate(chosen):
            prompt, said = rows[index]
            tokens[i, : len(prompt) + len(said)] = prompt + said
            mask[i, len(prompt) : len(prompt) + len(said)] = 1
        yield Demonstrations(tokens, mask)


def _row(config: SftConfig, policy: Policy, entry: Entry) -> tuple[list[int], list[int]]:
    fields = {"question": entry.question, "answer": entry.answer, "terse": entry.metadata.get("terse", entry.question)}
    try:
        text = config.demonstration.format(**fields)
    except (KeyError, IndexError, ValueError) as error:
        raise SpecError(
            f"demonstration {config.demonstration!r}: there are {{question}}, {{answer}}, {{terse}}"
        ) from error
    return prompt_of(config.data, policy.tokenizer, entry), [*policy.tokenizer.encode(text), policy.tokenizer.stops[0]]


def loss(model: Model, batch: Demonstrations) -> jax.Array:
    """−mean log π of what was said."""
    hidden = model(batch.tokens[:, :-1], jnp.zeros(len(batch.tokens), jnp.int32))
    said = log_prob(Truncation(), model.logits(hidden), batch.tokens[:, 1:], None)
    return -jnp.sum(said * batch.said[:, 1:]) / jnp.sum(batch.said)


def train(config: SftConfig, policy: Policy, say: Callable[[str], None] = lambda _: None) -> Policy:
    """Learn the demonstrations."""
    rate = optax.cosine_decay_schedule(config.lr, config.steps) if config.lr_schedule == "cosine" else config.lr
    chain = [optax.clip_by_global_norm(config.max_norm)] if config.max_norm else []
    optimizer = optax.chain(*chain, optax.adamw(rate, b2=0.99, weight_decay=config.weight_decay))

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(model: Model, state: Any, batch: Demonstrations) -> tuple[Model, Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(model, batch)
        change, state = optimizer.update(gradient, state, model)
        return optax.apply_updates(model, change), state, value

    model = jax.tree.map(jnp.array, policy.model)  # a copy: the update takes the place of what it is given
    state = optimizer.init(model)
    batches = demonstrations(config, policy)
    for step in range(1, config.steps + 1):
        model, state, value = update(model, state, Demonstrations(*map(jnp.asarray, next(batches))))
        if step % max(config.steps // 10, 1) == 0 or step == config.steps:
            if not np.isfinite(float(value)):
                raise LlmError(f"the loss of step {step} is not finite: lower lr ({config.lr:g})")
            say(f"sft | step {step}/{config.steps} | loss {float(value):.4f}")
    return Policy(model, policy.tokenizer)
