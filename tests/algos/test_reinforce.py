"""REINFORCE and Random: four steps under a policy that tosses a coin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.reinforce import ReinforceState
from rewardlab.nets.heads import Actor

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

# γ = ½: rewards 1 2 | 3 4, an end of either kind after step 1: G = 1 + ½·2, 2, 3 + ½·4, 4 (nothing is added at the
# rollout's end, where no critic stands in)
RETURNS = np.asarray([2.0, 2.0, 5.0, 4.0])
ACTIONS = np.asarray([0, 1, 1, 1])


def learned(lab: Lab, ends: Any = ((1,), ()), **keys: Any) -> tuple[Any, Any]:
    algorithm = lab.make("REINFORCE", gamma=0.5, training_frequency=4, **keys)
    actor = Actor(lab.table([[0.0, 0.0]] * 4), None)
    state = ReinforceState(actor, algorithm.optimizer.init(actor), jnp.asarray(0))
    rollout = lab.rollout([0, 1, 2, 3], ACTIONS, [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 0], *ends)
    after, metrics = algorithm.learn(state, rollout, lab.clock(), jax.random.key(0))
    return np.asarray(after.actor.net.output.weight), metrics


def step_of(weights: Any) -> Any:
    """The step of logit z(s, a): the mean of G (1[a taken] − π(a)), each state being visited once."""
    chosen = np.eye(2)[ACTIONS]
    return weights[:, None] * (chosen - 0.5) / 4


@pytest.mark.parametrize("ends", [((1,), ()), ((), (1,))])
def test_the_step_is_the_policy_gradient(lab: Lab, ends: Any) -> None:
    weight, metrics = learned(lab, ends, center_return=False)
    np.testing.assert_allclose(weight, step_of(RETURNS), rtol=1e-5)
    assert float(metrics["loss"]) == pytest.approx(math.log(2) * RETURNS.mean(), rel=1e-5)  # −log ½ · G
    assert float(metrics["entropy"]) == pytest.approx(math.log(2), rel=1e-5)
    by_bias = step_of(RETURNS).sum(0)
    norm = np.sqrt((step_of(RETURNS) ** 2).sum() + (by_bias**2).sum())
    assert float(metrics["grad_norm"]) == pytest.approx(norm, rel=1e-5)


def test_centred_and_standardised_returns(lab: Lab) -> None:
    weight, _ = learned(lab)
    np.testing.assert_allclose(weight, step_of(RETURNS - RETURNS.mean()), rtol=1e-5)
    weight, _ = learned(lab, normalize_return=True)
    np.testing.assert_allclose(weight, step_of((RETURNS - RETURNS.mean()) / RETURNS.std()), rtol=1e-5)


def test_entropy_is_worth_its_coefficient(lab: Lab) -> None:
    coefficient = {"name": "no_decay", "start_val": 0.1}
    _, metrics = learned(lab, center_return=False, entropy_coef_spec=coefficient)
    assert float(metrics["loss"]) == pytest.approx(math.log(2) * (RETURNS.mean() - 0.1), rel=1e-5)
    assert float(metrics["entropy_coef"]) == pytest.approx(0.1)


def test_random_covers_its_actions_and_learns_nothing(lab: Lab) -> None:
    numbered = lab.make("Random", env={"num_envs": 300})
    obs = jnp.zeros((300, 4))
    noise = numbered.noise(jax.random.key(0), 2)
    drawn, _ = numbered.act(numbered.init(jax.random.key(0)), obs, lab.clock(), noise[0])
    assert 100 < int(drawn.sum()) < 200
    real = lab.make("Random", lab.continuous, env={"num_envs": 300})
    drawn, _ = real.act(real.init(jax.random.key(0)), obs, lab.clock(), noise[1])
    assert drawn.shape == (300, 2)
    assert -1 <= float(drawn.min()) < -0.9
    assert 0.9 < float(drawn.max()) <= 1
