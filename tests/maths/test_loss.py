"""Losses, entry by entry."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.maths import loss
from rewardlab.maths.reduce import mean, standardize


def test_mean_counts_what_the_mask_shows() -> None:
    x = jnp.asarray([[1.0, 2.0], [3.0, 100.0]])
    assert float(mean(x)) == pytest.approx(26.5)  # 106 / 4
    assert float(mean(x, jnp.asarray([[1, 1], [1, 0]]))) == pytest.approx(2.0)  # 6 / 3
    assert float(mean(x, jnp.zeros((2, 2)))) == 0.0


def test_standardize_by_the_mean_and_deviation_of_what_the_mask_shows() -> None:
    # of 1 and 5: mean 3, deviation √((4 + 4)/2) = 2
    actual = standardize(jnp.asarray([1.0, 5.0, 99.0]), jnp.asarray([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(actual[:2], [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(standardize(jnp.full(3, 7.0)), 0.0, atol=1e-6)  # no spread: nothing, not NaN


def test_policy_gradient() -> None:
    log_prob, advantage = jnp.asarray([-1.0, -2.0]), jnp.asarray([3.0, -1.0])
    assert float(loss.policy_gradient(log_prob, advantage)) == pytest.approx(0.5)  # −(−3 + 2)/2
    assert float(loss.policy_gradient(log_prob, advantage, jnp.asarray([1, 0]))) == pytest.approx(3.0)
    gradient = jax.grad(loss.policy_gradient)(log_prob, advantage)
    np.testing.assert_allclose(gradient, [-1.5, 0.5])  # −A/2: a step against it makes the good action likelier


# ε = 0.2, so ρ is clipped to [0.8, 1.2]; the derivative by log π is −ρA where the clip does not bind
@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "gradient"),
    [
        (1.5, 2.0, -2.4, 0.0),  # good and already likelier: min(3, 2.4); no further
        (0.5, 2.0, -1.0, -1.0),  # good and less likely: min(1, 1.6); bring it back
        (0.5, -2.0, 1.6, 0.0),  # bad and already rarer: min(−1, −1.6); no further
        (1.5, -2.0, 3.0, 3.0),  # bad and likelier: min(−3, −2.4); take it back
        (1.1, 2.0, -2.2, -2.2),  # inside
    ],
)
def test_ppo_clip(ratio: float, advantage: float, expected: float, gradient: float) -> None:
    def of(log_prob: jax.Array) -> jax.Array:
        return loss.ppo_clip(log_prob[None], jnp.asarray([-1.0]), jnp.asarray([advantage]), 0.2)

    value, slope = jax.value_and_grad(of)(jnp.log(ratio) - 1.0)
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert float(slope) == pytest.approx(gradient, rel=1e-5)


def test_ppo_clip_masks() -> None:
    ratio = jnp.log(jnp.asarray([1.5, 0.5]))
    actual = loss.ppo_clip(ratio, jnp.zeros(2), jnp.asarray([2.0, 2.0]), 0.2, jnp.asarray([0.0, 1.0]))
    assert float(actual) == pytest.approx(-1.0)


# V_old = 1, G = 3, ε = ½: V is followed as far as 1½
@pytest.mark.parametrize(
    ("value", "expected", "gradient"),
    [
        (2.0, 2.25, 0.0),  # max((2−3)², (1½−3)²): clipped, so no pull
        (1.25, 3.0625, -3.5),  # inside: (1¼−3)², 2·(1¼−3)
        (5.0, 4.0, 4.0),  # far past the target: max((5−3)², 2¼), 2·(5−3)
    ],
)
def test_clipped_value(value: float, expected: float, gradient: float) -> None:
    def of(v: jax.Array) -> jax.Array:
        return loss.clipped_value(v[None], jnp.asarray([1.0]), jnp.asarray([3.0]), 0.5)

    actual, slope = jax.value_and_grad(of)(jnp.asarray(value))
    assert float(actual) == pytest.approx(expected)
    assert float(slope) == pytest.approx(gradient)


def test_regression_losses_by_name() -> None:
    prediction, target = jnp.asarray([0.5, 1.0, 2.0, -3.0, 0.0]), jnp.zeros(5)
    # torch.nn.SmoothL1Loss(beta=1): ½e² within 1, |e| − ½ beyond
    np.testing.assert_allclose(loss.REGRESSION["SmoothL1Loss"](prediction, target), [0.125, 0.5, 1.5, 2.5, 0.0])
    np.testing.assert_allclose(loss.REGRESSION["MSELoss"](prediction, target), [0.25, 1.0, 4.0, 9.0, 0.0])
    slope = jax.grad(lambda p: loss.huber(p, target).sum())(prediction)
    np.testing.assert_allclose(slope, [0.5, 1.0, 1.0, -1.0, 0.0])


@settings(max_examples=40, deadline=None)
@given(st.floats(-8, 0), st.floats(-8, 0))
def test_approx_kl_is_never_negative(log_prob: float, old_log_prob: float) -> None:
    assert float(loss.approx_kl(jnp.asarray([log_prob]), jnp.asarray([old_log_prob]))) >= 0


def test_approx_kl_is_the_divergence_from_old_to_new() -> None:
    old, new = np.asarray([0.7, 0.3]), np.asarray([0.4, 0.6])
    # in expectation over actions drawn from the old policy: KL(π_old ‖ π) = 0.7 ln(0.7/0.4) + 0.3 ln(0.3/0.6) = 0.18379
    by_action = [float(loss.approx_kl(jnp.log(new[a]), jnp.log(old[a]))) for a in range(2)]
    assert np.dot(old, by_action) == pytest.approx(np.sum(old * np.log(old / new)), rel=1e-5)
    assert np.sum(new * np.log(new / old)) == pytest.approx(0.19204, rel=1e-4)  # the other direction is another number
    one = jnp.log(jnp.asarray([0.4, 0.4])), jnp.log(jnp.asarray([0.7, 0.4]))
    assert float(loss.approx_kl(*one, jnp.asarray([0.0, 1.0]))) == 0.0  # the mask hides the one that moved
