"""The loop of environments that live in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from rewardlab.experiment import session
from rewardlab.experiment.trial import Trial
from rewardlab.spec import from_dict

AGENT = {
    "algorithm": {"name": "PPO", "time_horizon": 8, "minibatch_size": 16, "training_epoch": 1},
    "net": {"hid_layers": [8]},
}


def trained(sessions: int) -> Any:
    env = {"name": "CartPole-v1", "num_envs": 2, "max_frame": 256}
    meta = {"max_session": sessions, "log_frequency": 64, "eval_frequency": 256}
    trial = Trial.create(from_dict({"agent": AGENT, "env": env, "meta": meta}, "small"))
    chunks = list(trial.march())
    policy = jax.vmap(trial.algorithm.policy)(trial.runner.agent)
    return np.concatenate([np.asarray(c.seen.episodes) for c in chunks], 1), jax.tree.leaves(policy)


@pytest.mark.parametrize(("sessions", "size"), [(1, 1), (6, 6), (8, 8), (12, 6), (13, 13), (16, 8), (32, 8), (64, 8)])
def test_a_core_takes_as_many_sessions_at_once_as_its_cache_holds(sessions: int, size: int) -> None:
    """13 is prime: one by one would be slower than all at once."""
    assert session.group_size(sessions) == size


def test_groups_of_sessions_learn_what_all_at_once_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 sessions on two devices: 12 each, in two groups of 6, against one of 12."""
    episodes, weights = trained(24)
    monkeypatch.setattr(session, "group_size", lambda sessions: sessions)
    all_episodes, all_weights = trained(24)
    assert episodes.shape == (24, 4, 32)
    np.testing.assert_array_equal(episodes, all_episodes)
    for ours, theirs in zip(weights, all_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not np.allclose(weights[0][0], weights[0][1])  # and each session is one of its own
