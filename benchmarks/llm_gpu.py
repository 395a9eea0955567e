"""A language model of Qwen3-1.7B's shape with random weights on one accelerator: tokens/s, and seconds per GRPO step.

    python benchmarks/llm_gpu.py                                              # on a GPU, about two minutes
    python benchmarks/llm_gpu.py --layers 2 --hidden 64 --vocab 20000 --new-tokens 32   # a quick look anywhere

Completions: `prompts` × `rollouts` rows, T = 0.6, top-k 20, top-p 0.95, every one of full length. A GRPO step is the
trainer's own: completions, rewards, four updates (rlhf-book's batches) with float32 master weights. Each is printed as
soon as it is known, and everything at the end as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rewardlab.llm import learn, sample
from rewardlab.llm.config import Config, from_dict
from rewardlab.llm.model import Model, ModelConfig, create
from rewardlab.llm.policy import Policy
from rewardlab.llm.rewards import Reward
from rewardlab.llm.sample import generate
from rewardlab.llm.tasks import Entry
from rewardlab.llm.tokenizer import Message
from rewardlab.llm.trainer import Trainer

PUBLISHED = 113.0  # seconds per step of 4 × 8 × 512 tokens, rlhf-book's fastest published run (RTX 4090 Laptop)


class Numbers:
    """A tokenizer of nothing: prompts are random, nothing ends a text."""

    def __init__(self, size: int, prompt: int) -> None:
        self.size, self.prompt = size, prompt
        self.pad, self.stops, self.forbidden = 0, (size,), ()  # no token has the number `size`

    def encode(self, text: str) -> list[int]:
        return [1 + ord(c) % (self.size - 1) for c in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens[:8]))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        dice = np.random.default_rng(sum(map(ord, messages[-1]["content"])))
        return [int(t) for t in dice.integers(1, self.size, self.prompt)]

    def save(self, folder: Path) -> None:
        raise NotImplementedError


class Lottery(Trainer):
    """The trainer with rewards by chance: random weights earn nothing, and then there would be nothing to learn."""

    def _reward(self, entry: Entry, text: str, length: int) -> Reward:
        luck = zlib.crc32((entry.question + text).encode()) % 1000 / 1000
        return Reward(luck, luck, 0.0, 0.0, 0.0)


def timed(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - begun


def settings(options: argparse.Namespace) -> Config:
    """rlhf-book's values, at these sizes."""
    specs = [{"name": "builtin:spell_backward"}]
    sizes = {"prompts_per_step": options.prompts, "num_rollouts": options.rollouts}
    sizes |= {"max_new_tokens": options.new_tokens, "tokens_per_batch": options.tokens_per_batch}
    return from_dict({"data": {"specs": specs, "size": 3000}, "loss": "grpo", "dtype": options.dtype, **sizes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=512)
    parser.add_argument("--tokens-per-batch", type=int, default=16_384)
    parser.add_argument("--growth", type=int, default=sample.GROWTH, help="slots by which the cache grows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--no-step", action="store_true", help="completions only")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    sample.GROWTH = options.growth
    shape = ModelConfig(
        vocab_size=options.vocab,
        hidden_size=options.hidden,
        intermediate_size=3 * options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=max(options.heads // 2, 1),
        head_dim=max(options.hidden // options.heads, 2),
        rope_theta=1e6,
        query_key_norm=True,
        tie_word_embeddings=True,
    )
    result: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__}
    model: Model = jax.jit(create, static_argnums=(0, 2))(shape, jax.random.key(0), "float32")
    result |= {"weights": sum(x.size for x in jax.tree.leaves(model)), **vars(options), "output": None}
    print(f"{result['device']}, JAX {result['jax']}, {result['weights'] / 1e9:.2f} G weights", flush=True)

    tokenizer = Numbers(options.vocab, options.prompt_tokens)
    trainer = Lottery.create(settings(options), Policy(model, tokenizer), start_hash="random")
    speaking = jax.jit(learn.in_type, static_argnums=1)(model, options.dtype)
    prompts = [trainer._prompt(trainer.data[i]) for i in range(options.prompts)]
    tokens = options.prompts * options.rollouts * options.new_tokens
    rates = []
    for repeat in range(options.repeats + 1):
        key = jax.random.key(repeat)
        seconds = timed(lambda key=key: generate(speaking, trainer.sampling, prompts, options.rollouts, key).tokens)
        if repeat == 0:
            result["generate_compile_seconds"] = seconds
            print(f"completions: first call {seconds:.1f} s", flush=True)
        else:
            rates.append(tokens / seconds)
            print(f"completions: {rates[-1]:,.0f} tokens/s", flush=True)
    result["tokens_per_second"] = float(np.median(rates))
    del speaking

    if not options.no_step:
        steps = []
        for repeat in range(options.repeats + 1):
            step = trainer.advance()
            seconds = step.metrics["generate_seconds"] + step.metrics["learn_seconds"]
            what = f"completions {step.metrics['generate_seconds']:.2f}, learning {step.metrics['learn_seconds']:.2f}"
            print(f"GRPO step {repeat}: {seconds:.2f} s ({what}, loss {step.metrics['loss']:.4f})", flush=True)
            if repeat:
                steps.append(seconds)
        result |= {"seconds_per_step": float(np.median(steps)), "published_seconds_per_step": PUBLISHED}
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
