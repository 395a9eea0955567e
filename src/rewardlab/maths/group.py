"""Advantages of completions among those of the same prompt. Rewards are [prompts, rollouts]; numpy or JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

Group = Float[Any, "P G"]


def plain(reward: Group) -> Group:
    """A = r: REINFORCE without a baseline (Williams 1992)."""
    return reward


def centred(reward: Group) -> Group:
    """A = r − mean (Dr. GRPO, https://arxiv.org/abs/2503.20783)."""
    return reward - reward.mean(1, keepdims=True)


def standardized(reward: Group) -> Group:
    """A = (r − mean) / (std + 1e-8), std with G − 1 (GRPO, https://arxiv.org/abs/2402.03300)."""
    return centred(reward) / (reward.std(1, ddof=1, keepdims=True) + 1e-8)


def leave_one_out(reward: Group) -> Group:
    """A = r − the mean of the others = G/(G−1) (r − mean) (RLOO, https://arxiv.org/abs/2402.14740)."""
    rollouts = reward.shape[1]
    return centred(reward) * (rollouts / (rollouts - 1))


def over_mean(reward: Group) -> Group:
    """A = (r − mean) / mean, 0 where all are 0 (MaxRL, https://arxiv.org/abs/2602.02710)."""
    mean = reward.mean(1, keepdims=True)
    return centred(reward) / np.where(mean > 0, mean, 1)
