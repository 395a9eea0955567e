"""SARSA: which next action its targets are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.sarsa import SarsaState
from rewardlab.nets.heads import QNet

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

Q = [[0.0, 0.0], [1.0, 2.0], [3.0, 5.0], [7.0, 4.0]]
GREEDY = {"name": "no_decay", "start_val": 0.0}


def learned(lab: Lab, rollout: Any, steps: int, **keys: Any) -> tuple[SarsaState, Any]:
    algorithm = lab.make("SARSA", gamma=0.5, training_frequency=steps, explore_var_spec=GREEDY, **keys)
    net = QNet(lab.table(Q), dueling=False)
    state = SarsaState(net, algorithm.optimizer.init(net), jnp.asarray(0))
    after, metrics = algorithm.learn(state, rollout, lab.clock(), jax.random.key(0))
    return after, metrics


def test_targets_take_the_action_that_was_taken(lab: Lab) -> None:
    # s0 →(a0, r 1)→ s1 →(a0, r 0)→ s2, cut there; a new episode: s0 →(a0, r 2)→ s3, where the rollout ends
    rollout = lab.rollout([0, 1, 0], [0, 0, 0], [1.0, 0.0, 2.0], [1, 2, 3], (), (1,))
    # y0 = 1 + ½ Q(1, 0) = 1½, though action 1 is better;  q 0, error 1½
    # y1 = 0 + ½ Q(2, 1) = 2½: drawn in s2 (greedily, ε = 0), not action 0 of the next episode;  q 1, error 1½
    # y2 = 2 + ½ Q(3, 0) = 5½: drawn in s3;  q 0, error 5½
    state, metrics = learned(lab, rollout, 3)
    assert float(metrics["loss"]) == pytest.approx((1.5**2 + 1.5**2 + 5.5**2) / 3)
    assert float(metrics["q"]) == pytest.approx(1 / 3)
    moved = np.asarray(state.net.net.output.weight) - np.asarray(Q)
    expected = np.zeros((4, 2))
    expected[0, 0], expected[1, 0] = 2 / 3 * (1.5 + 5.5), 2 / 3 * 1.5  # both steps in s0; no gradient through targets
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


def test_nothing_follows_a_true_end(lab: Lab) -> None:
    rollout = lab.rollout([0, 1], [0, 0], [1.0, 4.0], [1, 2], (0, 1))
    _, metrics = learned(lab, rollout, 2)
    assert float(metrics["loss"]) == pytest.approx((1.0**2 + 3.0**2) / 2)  # y = r: 1 − 0, 4 − 1


def test_what_it_draws_itself_explores_as_its_acting_does(lab: Lab) -> None:
    always = {"name": "no_decay", "start_val": 1.0}
    algorithm = lab.make("SARSA", env={"num_envs": 400}, explore_var_spec=always, training_frequency=1)
    q = jnp.broadcast_to(jnp.asarray(Q[3]), (400, 2))
    drawn = algorithm.explore(q, lab.clock(), algorithm.noise(jax.random.key(0), 1)[0])
    assert 150 < int(drawn.sum()) < 250  # ε = 1: a coin, though action 0 is the better


def test_boltzmann(lab: Lab) -> None:
    cold = {"name": "no_decay", "start_val": 0.01}
    algorithm = lab.make("SARSA", env={"num_envs": 50}, action_policy="boltzmann", explore_var_spec=cold)
    noise = algorithm.noise(jax.random.key(0), 1)[0]
    assert noise.shape == (50, 2)
    assert (algorithm.explore(jnp.broadcast_to(jnp.asarray(Q[3]), (50, 2)), lab.clock(), noise) == 0).all()
