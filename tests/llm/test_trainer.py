"""The trainer on a few thousand weights: every loss learns, a resumed run is the same run, faults are told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.experiment.record import RunFolder
from rewardlab.files import RecordError
from rewardlab.llm import learn
from rewardlab.llm.config import Config, from_dict
from rewardlab.llm.errors import LlmError
from rewardlab.llm.losses import LOSSES
from rewardlab.llm.model import create
from rewardlab.llm.policy import Policy, tiny_config
from rewardlab.llm.record import Recorder, read_steps
from rewardlab.llm.rewards import Reward
from rewardlab.llm.sample import Rollouts
from rewardlab.llm.tasks import Entry
from rewardlab.llm.tokenizer import CharacterTokenizer
from rewardlab.llm.trainer import NotFinite, Step, Trainer, join, summary, token_advantages

SHAPE = replace(tiny_config(), hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
SHAPE = replace(SHAPE, num_key_value_heads=1, head_dim=16)


def config(loss: str = "grpo", **changes: Any) -> Config:
    spec = {"name": "builtin:spell_backward", "config": {"max_word_len": 4}}
    raw: dict[str, Any] = {"data": {"specs": [spec], "size": 4000, "prompt": "terse"}, "loss": loss}
    raw |= {"model_name": "test", "max_new_tokens": 8, "prompts_per_step": 4, "num_rollouts": 4, "temperature": 1.0}
    raw |= {"train_batch_size": 16, "batch_acc": 1, "lr": 3e-3, "adam_beta2": 0.99, "top_p": 1.0, "top_k": 0}
    return from_dict(raw | changes)


class Letters(Trainer):
    """Earns the share of its letters that are an e: what even a blank model finds by chance."""

    def _reward(self, entry: Entry, text: str, length: int) -> Reward:
        share = text.count("e") / max(len(text), 1)
        return Reward(share, share, 0.0, 0.0, float(share > 0))


def trainer(made: Config, cls: type[Trainer] = Letters) -> Trainer:
    return cls.create(made, Policy(create(SHAPE, jax.random.key(0)), CharacterTokenizer()), start_hash="blank")


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss: str) -> None:
    alone = {"num_rollouts": 1, "prompts_per_step": 16} if loss in ("reinforce", "ppo") else {}
    steps = [step.metrics["reward"] for step in trainer(config(loss, steps=40, **alone)).march()]
    assert np.mean(steps[:5]) < 0.03  # a hundredth by chance
    assert np.mean(steps[-5:]) > 0.06


@pytest.mark.parametrize("loss", ["grpo", "ppo", "dapo", "drgrpo"])
def test_rlhf_books_forms_run_too(loss: str) -> None:
    made = trainer(config(loss, steps=2, compat="rlhf-book", beta=0.1, temperature=0.6, top_k=20, top_p=0.95))
    assert all(np.isfinite(step.metrics["loss"]) for step in made.march())


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    made = config("ppo", steps=6, beta=0.05, num_rollouts=2, train_batch_size=4)
    whole = trainer(made)
    rewards = [step.metrics["reward"] for step in whole.march()]
    first = trainer(made)
    for _ in range(3):
        first.advance()
    first.save(tmp_path / "half.safetensors")
    second = trainer(made)
    second.restore(tmp_path / "half.safetensors")
    assert [step.metrics["reward"] for step in second.march()] == rewards[3:]
    for one, other in zip(jax.tree.leaves(whole.learner), jax.tree.leaves(second.learner), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_of_another_config_is_refused(tmp_path: Path) -> None:
    trainer(config()).save(tmp_path / "a.safetensors")
    with pytest.raises(LlmError, match="written with another config"):
        trainer(config(lr=1e-4)).restore(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"broken")
    with pytest.raises(RecordError, match="is damaged"):
        trainer(config()).restore(tmp_path / "a.safetensors")


def test_microbatches_change_nothing() -> None:
    """The gradient of a batch is the same in one piece and in many, whatever the mean is over."""
    for loss in ("grpo", "dapo", "drgrpo"):
        pieces = []
        for budget in (16_384, 64):
            made = trainer(config(loss, tokens_per_batch=budget))
            scored = made.complete([made.data[i] for i in range(4)], 4, jax.random.key(3))
            experience = made._compare(scored, summary([scored]))
            made._learn(experience, Step(1, {}, {}))
            pieces.append(jax.tree.leaves(made.optimizer.mu))
        for one, other in zip(*pieces, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


class Even(Trainer):
    """Every completion earns the same."""

    def _reward(self, entry: Entry, text: str, length: int) -> Reward:
        return Reward(0.5, 0.5, 0.0, 0.0, 0.0)


def test_groups_that_say_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(config(), Even)
    monkeypatch.setattr(learn, "accumulate", lambda *_: pytest.fail("a backward pass for nothing"))
    metrics = made.advance().metrics
    assert (metrics["updates"], metrics["learned_share"]) == (0, 0)


def test_dapo_draws_again_until_its_groups_differ() -> None:
    made = trainer(config("dapo", temperature=0.6))
    step = made.advance()
    assert step.metrics["learned_share"] == 1
    assert made.cursor >= 4
    assert made.cursor % 4 == 0
    everything = trainer(config("dapo"), Even)
    everything.advance()
    assert everything.cursor == 20 * 4  # and gives up after twenty


class Broken(Trainer):
    """Its completions become impossible after two steps."""

    def _compare(self, scored: Any, metrics: dict[str, float]) -> Any:
        made = super()._compare(scored, metrics)
        return made._replace(advantage=made.advantage * (np.nan if self.step == 2 else 1))


def test_a_loss_that_is_no_number_stops_the_run_with_everything_on_disk(tmp_path: Path) -> None:
    made = trainer(config(), Broken)
    recorder = Recorder(made, RunFolder.create("broken", tmp_path))
    for _ in range(2):
        recorder.take(made.advance())
    before = jax.tree.map(np.array, made.learner)
    with pytest.raises(NotFinite, match=r"step 3: the loss is not finite, so nothing was learned; lower lr") as told:
        made.advance()
    recorder.take(told.value.step)
    assert [row["step"] for row in read_steps(recorder.folder)] == [1, 2, 3]
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(made.learner), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_kill_cuts_lines_ahead_of_the_checkpoint(tmp_path: Path) -> None:
    made = trainer(config())
    folder = RunFolder.create("killed", tmp_path)
    recorder = Recorder(made, folder)
    for step in (made.advance(), made.advance()):
        recorder.take(step)
    recorder.save()
    recorder.take(made.advance())
    with (folder.path / "info" / "killed_t0_steps.jsonl").open("a") as file:
        file.write('{"step": 4, "rew')
    again = trainer(config())
    again.restore(folder.checkpoint_path)
    assert len(Recorder(again, folder).history) == 2
    assert [row["step"] for row in read_steps(folder)] == [1, 2]


def rollouts(tokens: Any, length: list[int]) -> Rollouts:
    shape = np.asarray(tokens).shape
    zero = np.zeros(shape, np.float32)
    return Rollouts(
        np.zeros((shape[0], 2), np.int32),
        np.zeros(shape[0], np.int32),
        np.asarray(tokens, np.int32),
        np.asarray(length, np.int32),
        np.ones(shape[0], bool),
        zero,
        zero,
        None,
    )


def test_token_advantages_by_hand() -> None:
    # two tokens, the reward 1 with the second; V = 0.2, 0.5; γ = 1, λ = ½
    # δ₂ = 1 − 0.5 = 0.5, δ₁ = 0.5 − 0.2 = 0.3; A₂ = 0.5, A₁ = 0.3 + ½ · 0.5 = 0.55; nothing after the end
    value = np.asarray([[0.2, 0.5, 0.0]], np.float32)
    found = token_advantages(np.ones(1), np.zeros((1, 3), np.float32), value, rollouts([[5, 6, 0]], [2]), 1.0, 0.5)
    np.testing.assert_allclose(found, [[0.55, 0.5, 0.0]], atol=1e-6)


def test_groups_of_several_draws_are_joined() -> None:
    made = trainer(config())
    one = made.complete([made.data[i] for i in range(4)], 4, jax.random.key(0))
    both = join([(one, 1), (one, 3)])
    assert both.entries == [one.entries[1], one.entries[3]]
    np.testing.assert_array_equal(both.rollouts.tokens[4:], one.rollouts.tokens[12:])
    assert both.texts[:4] == one.texts[4:8]


def test_evaluation_asks_what_training_does_not() -> None:
    spec = {"name": "builtin:spell_backward"}
    made = trainer(config(eval_every=1, eval_size=8, data={"specs": [spec], "size": 400, "prompt": "terse"}), Trainer)
    metrics = made.advance().metrics
    assert {"eval_reward", "eval_accuracy", "eval_exact"} <= set(metrics)
    assert {e.question for e in made.held_out}.isdisjoint(e.question for e in made.data)


def test_the_first_update_has_a_ratio_of_one() -> None:
    made = trainer(config(temperature=0.6, top_k=20, top_p=0.95))
    assert made.advance().metrics["approx_kl"] < 1e-6


def test_two_devices_do_the_work_of_one() -> None:
    assert jax.device_count() == 2
    alone, both = trainer(config("ppo", beta=0.1)), trainer(config("ppo", beta=0.1, shard="fsdp"))
    split = [x for x in jax.tree.leaves(both.learner) if not x.sharding.is_fully_replicated]
    assert split
    for _ in range(2):
        one, other = alone.advance().metrics, both.advance().metrics
        for name in ("reward", "kl", "loss", "grad_norm"):
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5)
    again = [x for x in jax.tree.leaves(both.learner) if not x.sharding.is_fully_replicated]
    assert len(again) == len(split)


def test_steps_are_json(tmp_path: Path) -> None:
    recorder = Recorder(trainer(config()), RunFolder.create("json", tmp_path))
    recorder.take(recorder.trainer.advance())
    (row,) = read_steps(recorder.folder)
    assert {"reward", "accuracy", "format", "kl", "entropy", "tokens_per_second", "sample"} <= set(row)
    assert json.dumps(row)
    assert jnp.isfinite(row["reward"])
