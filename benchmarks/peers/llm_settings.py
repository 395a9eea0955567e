"""The same work for everyone, and the line that each prints. Standard library only: both interpreters import it."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

VOCABULARY = 103  # the character tokenizer's
PROMPTS, ROLLOUTS, PROMPT_TOKENS, NEW_TOKENS = 8, 8, 48, 64
SAMPLING = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
LEARNING_RATE = 1e-5
# layers, width, feed-forward width, heads, heads of keys and values
SIZES = {"1M": (5, 128, 384, 4, 2), "5M": (6, 256, 768, 4, 2), "25M": (8, 512, 1408, 8, 4)}


def shape(size: str) -> dict[str, Any]:
    """Qwen3's keys."""
    layers, width, inner, heads, keys = SIZES[size]
    made = {"vocab_size": VOCABULARY, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers}
    made |= {"num_attention_heads": heads, "num_key_value_heads": keys, "head_dim": width // heads}
    return made | {"tie_word_embeddings": True, "max_position_embeddings": 512}


def words(count: int) -> list[str]:
    """Prompts that become PROMPT_TOKENS tokens between <bos> and <sep>."""
    return [f"{i:04d}".ljust(PROMPT_TOKENS - 2, "abcdefghij"[i % 10]) for i in range(count)]


def luck(text: str) -> float:
    """A reward that differs between completions, so that there is something to learn from."""
    return sum(map(ord, text)) % 97 / 97


def one_core() -> None:
    """Before anything heavy is imported: one core, one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=("decode", "step", "step-tuned"), required=True)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def measure(run: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """CPU-seconds and seconds of each repeat, after one that is not counted."""
    begun = time.perf_counter()
    run()
    warm = time.perf_counter() - begun
    cpu, wall = [], []
    for _ in range(repeats):
        before, begun = time.process_time(), time.perf_counter()
        run()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - begun)
    return {"cpu_seconds": cpu, "seconds": wall, "warmup_seconds": warm}


def report(peer: str, options: argparse.Namespace, found: dict[str, Any], **more: Any) -> None:
    """One line of JSON."""
    middle = statistics.median(found["cpu_seconds"])
    row = {"peer": peer, "task": options.task, "size": options.size, "cpu_seconds_median": middle}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({**row, **found, **more, "memory_mb": memory}))
