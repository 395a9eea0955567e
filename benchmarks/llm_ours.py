"""RewardLab's side of benchmarks/llm.py: completions, and steps of the trainer; one line of JSON.

python benchmarks/llm_ours.py --task step --size 5M
"""

from __future__ import annotations

import argparse
from typing import Any

from peers import llm_settings as s

s.one_core()
import jax  # noqa: E402

from rewardlab.llm.config import from_dict  # noqa: E402
from rewardlab.llm.model import ModelConfig, create  # noqa: E402
from rewardlab.llm.policy import Policy  # noqa: E402
from rewardlab.llm.rewards import Reward  # noqa: E402
from rewardlab.llm.sample import generate  # noqa: E402
from rewardlab.llm.tasks import Entry  # noqa: E402
from rewardlab.llm.tokenizer import CharacterTokenizer  # noqa: E402
from rewardlab.llm.trainer import Trainer  # noqa: E402


class Endless(CharacterTokenizer):
    """Never ends a text, as the peers are told with min_new_tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden = (*self.forbidden, *self.stops)


class Lucky(Trainer):
    """The trainer with the peers' prompts and rewards."""

    asked = 0

    def _prompt(self, entry: Entry) -> list[int]:
        self.asked += 1
        return self.tokenizer.encode(f"<bos>{s.words(self.asked)[-1]}<sep>")

    def _reward(self, entry: Entry, text: str, length: int) -> Reward:
        return Reward(s.luck(text), 0.0, 0.0, 0.0, 0.0)


def trainer(size: str) -> Lucky:
    data = {"specs": [{"name": "builtin:spell_backward"}], "size": 100_000}
    sizes = {"prompts_per_step": s.PROMPTS, "num_rollouts": s.ROLLOUTS, "max_new_tokens": s.NEW_TOKENS}
    sizes |= {"train_batch_size": s.PROMPTS * s.ROLLOUTS, "batch_acc": 1, "lr": s.LEARNING_RATE}
    config = from_dict({"data": data, "loss": "grpo", **sizes, **s.SAMPLING})
    shape = ModelConfig(**s.shape(size), query_key_norm=True)
    return Lucky.create(config, Policy(create(shape, jax.random.key(0)), Endless()), start_hash="random")


def main() -> None:
    options: argparse.Namespace = s.arguments()
    made = trainer(options.size)
    keys = iter(jax.random.split(jax.random.key(0), 100))

    def decode() -> Any:
        prompts = [made.tokenizer.encode(f"<bos>{word}<sep>") for word in s.words(s.PROMPTS)]
        assert {len(p) for p in prompts} == {s.PROMPT_TOKENS}
        out = generate(made.learner.policy, made.sampling, prompts, s.ROLLOUTS, next(keys))
        assert (out.length == s.NEW_TOKENS).all()
        return out

    found = s.measure(decode if options.task == "decode" else made.advance, options.repeats)
    s.report("rewardlab", options, found, versions={"jax": jax.__version__}, weights=weights(made))


def weights(made: Trainer) -> int:
    return sum(x.size for x in jax.tree.leaves(made.learner.policy))


if __name__ == "__main__":
    main()
