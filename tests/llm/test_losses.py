"""What each loss is made of: the papers' forms, and rlhf-book's where they differ."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.llm.config import Config, from_dict
from rewardlab.llm.learn import kl_estimate
from rewardlab.llm.losses import BOOK, LOSSES, form_of
from rewardlab.maths import group, token_loss
from rewardlab.maths.truncation import Truncation


def config(loss: str, **changes: Any) -> Config:
    return from_dict({"data": {"specs": [{"name": "builtin:chain_sum"}]}, "loss": loss, **changes})


def test_there_are_ten() -> None:
    ten = {"reinforce", "rloo", "ppo", "grpo", "drgrpo", "gspo", "cispo", "sapo", "dapo", "maxrl"}
    assert set(LOSSES) == ten


@pytest.mark.parametrize(
    ("loss", "advantage", "token", "weights", "kl", "clip"),
    [
        ("reinforce", group.plain, token_loss.policy_gradient, token_loss.sum_over_constant, "reward", (0.2, 0.2)),
        ("rloo", group.leave_one_out, token_loss.policy_gradient, token_loss.sum_over_constant, "reward", (0.2, 0.2)),
        ("maxrl", group.over_mean, token_loss.policy_gradient, token_loss.sum_over_constant, "none", (0.2, 0.2)),
        ("ppo", None, token_loss.clipped, token_loss.mean_of_tokens, "reward", (0.2, 0.2)),
        ("grpo", group.standardized, token_loss.clipped, token_loss.mean_of_sequences, "loss", (0.2, 0.2)),
        ("drgrpo", group.centred, token_loss.clipped, token_loss.sum_over_constant, "loss", (0.2, 0.2)),
        ("gspo", group.standardized, token_loss.sequence_clipped, token_loss.mean_of_sequences, "loss", (3e-4, 4e-4)),
        ("cispo", group.standardized, token_loss.weight_clipped, token_loss.mean_of_tokens, "loss", (1.0, 0.28)),
        ("sapo", group.standardized, token_loss.soft_gate, token_loss.mean_of_sequences, "loss", (0.2, 0.2)),
        ("dapo", group.standardized, token_loss.clipped, token_loss.mean_of_tokens, "none", (0.2, 0.28)),
    ],
)
def test_the_papers_forms(loss: str, advantage: Any, token: Any, weights: Any, kl: str, clip: Any) -> None:
    form = form_of(loss, None)
    assert (form.advantage, form.token, form.weights, form.kl) == (advantage, token, weights, kl)
    assert config(loss).clip == clip
    assert (form.refill, form.overlong) == (loss == "dapo",) * 2
    assert form.binary == (loss == "maxrl")


@pytest.mark.parametrize("loss", LOSSES)
def test_rlhf_books_forms(loss: str) -> None:
    form = form_of(loss, BOOK)
    weights = token_loss.mean_of_tokens if loss == "dapo" else token_loss.mean_of_sequences
    assert (form.weights, form.per_microbatch) == (weights, loss == "dapo")
    assert (form.advantage, form.token) == (LOSSES[loss].advantage, LOSSES[loss].token)
    assert config(loss, compat=BOOK).clip == ((0.2, 0.28) if loss == "dapo" else (0.2, 0.2))


def test_log_probabilities_are_of_what_is_sampled_but_for_rlhf_book() -> None:
    assert config("grpo").trained_on == Truncation(0.6, 20, 0.95, 0.0)
    assert config("grpo", compat=BOOK).trained_on == Truncation(1.0, 0, 1.0, 0.0)


@pytest.mark.parametrize(("kind", "paper", "book"), [("kl1", 0.2, -0.2), ("kl2", 0.02, 0.02)])
def test_kl_by_hand(kind: str, paper: float, book: float) -> None:
    now, reference = jnp.array(-1.0), jnp.array(-1.2)
    assert float(kl_estimate(kind, None, now, reference)) == pytest.approx(paper, abs=1e-6)
    assert float(kl_estimate(kind, BOOK, now, reference)) == pytest.approx(book, abs=1e-6)


def test_k3_has_another_direction_there() -> None:
    now, reference = jnp.array(-1.0), jnp.array(-1.2)
    assert float(kl_estimate("kl3", None, now, reference)) == pytest.approx(np.exp(-0.2) - 1 + 0.2, abs=1e-6)
    assert float(kl_estimate("kl3", BOOK, now, reference)) == pytest.approx(np.exp(0.2) - 1 - 0.2, abs=1e-6)
