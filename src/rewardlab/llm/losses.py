"""The ten losses by name: which formulas each is made of, in its paper's form and in that of rlhf-book's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from rewardlab.maths import group, loss, token_loss
from rewardlab.maths.token_loss import Shape, Tokens

Place = Literal["loss", "reward", "none"]


@dataclass(frozen=True)
class Form:
    """What one loss is made of."""

    advantage: Callable[[Any], Any] | None  # None: from a value model
    token: Callable[[Tokens, Shape], Any]
    weights: Callable[[Any, int], Any]
    kl: Place
    clip: tuple[float, float] = (0.2, 0.2)
    binary: bool = False  # the advantage is of right or wrong, not of the whole reward
    refill: bool = False  # prompts whose completions are all right or all wrong are drawn again
    overlong: bool = False
    per_microbatch: bool = False  # rlhf-book's DAPO: the mean is over each microbatch


GRPO = Form(group.standardized, token_loss.clipped, token_loss.mean_of_sequences, "loss")
REINFORCE = Form(group.plain, token_loss.policy_gradient, token_loss.sum_over_constant, "reward")
LOSSES: dict[str, Form] = {
    "reinforce": REINFORCE,
    "rloo": replace(REINFORCE, advantage=group.leave_one_out),
    "maxrl": replace(REINFORCE, advantage=group.over_mean, binary=True, kl="none"),
    "ppo": replace(GRPO, advantage=None, weights=token_loss.mean_of_tokens, kl="reward"),
    "grpo": GRPO,
    "drgrpo": replace(GRPO, advantage=group.centred, weights=token_loss.sum_over_constant),
    "gspo": replace(GRPO, token=token_loss.sequence_clipped, clip=(3e-4, 4e-4)),
    "cispo": replace(GRPO, token=token_loss.weight_clipped, weights=token_loss.mean_of_tokens, clip=(1.0, 0.28)),
    "sapo": replace(GRPO, token=token_loss.soft_gate),
    "dapo": replace(GRPO, weights=token_loss.mean_of_tokens, kl="none", clip=(0.2, 0.28), refill=True, overlong=True),
}
BOOK = "rlhf-book"
KL = {"kl1": loss.kl_k1, "kl2": loss.kl_k2, "kl3": loss.kl_k3}


def _book_kl1(log_prob: Any, reference: Any) -> Any:
    return -loss.kl_k1(log_prob, reference)


def _book_kl3(log_prob: Any, reference: Any) -> Any:
    return loss.kl_k3(reference, log_prob)  # e^d − 1 − d with d = log π − log π_ref


BOOK_KL = {"kl1": _book_kl1, "kl2": loss.kl_k2, "kl3": _book_kl3}


def form_of(name: str, compat: str | None) -> Form:
    """The paper's form, or rlhf-book's: there every loss but DAPO's is a mean of sequences, and all clip at 0.2."""
    form = LOSSES[name]
    if compat != BOOK:
        return form
    weights = form.weights if name == "dapo" else token_loss.mean_of_sequences
    clip = form.clip if name == "dapo" else (0.2, 0.2)
    return replace(form, weights=weights, clip=clip, per_microbatch=name == "dapo")
