"""Every loss of a language model on two tokens, by hand; and what their means are taken over."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.maths import group, loss
from rewardlab.maths import token_loss as t

LN2 = float(np.log(2))
# one row of three tokens, the last masked: ratios 2 and ½
TOKENS = t.Tokens(
    log_prob=jnp.array([[-1.0, -1.0 - LN2, 5.0]]),
    old_log_prob=jnp.array([[-1.0 - LN2, -1.0, 0.0]]),
    advantage=jnp.array([[1.5, -2.0, 9.0]]),
    mask=jnp.array([[1.0, 1.0, 0.0]]),
)
SHAPE = t.Shape(0.2, 0.28, 1.0, 1.05)


def of(found: jax.Array) -> list[float]:
    return [float(x) for x in found[0, :2]]


def test_policy_gradient() -> None:
    # −1.5 · −1 and 2 · −(1 + ln 2)
    assert of(t.policy_gradient(TOKENS, SHAPE)) == pytest.approx([1.5, -2 * (1 + LN2)])


def test_clipped() -> None:
    # −min(2 · 1.5, 1.28 · 1.5) = −1.92; −min(½ · −2, 0.8 · −2) = 1.6
    assert of(t.clipped(TOKENS, SHAPE)) == pytest.approx([-1.92, 1.6])


def test_sequence_clipped() -> None:
    # the ratios' geometric mean √(2 · ½) = 1 is within the bounds: −1 · A
    assert of(t.sequence_clipped(TOKENS, SHAPE)) == pytest.approx([-1.5, 2.0])
    # with both ratios 2 the mean is 2: −min(3, 1.28 · 1.5) and −min(−4, −2.56) = 4
    both = TOKENS._replace(old_log_prob=jnp.array([[-1.0 - LN2, -1.0 - 2 * LN2, 0.0]]))
    assert of(t.sequence_clipped(both, SHAPE)) == pytest.approx([-1.92, 4.0])


def test_weight_clipped() -> None:
    # weights 1.28 and 0.8: −1.28 · 1.5 · −1 and 0.8 · 2 · −(1 + ln 2)
    assert of(t.weight_clipped(TOKENS, SHAPE)) == pytest.approx([1.92, -1.6 * (1 + LN2)])
    # the weight is a constant: the derivative by log π is −w A, on both sides of the bounds
    slope = jax.grad(lambda x: t.weight_clipped(TOKENS._replace(log_prob=x), SHAPE)[0, :2].sum())(TOKENS.log_prob)
    assert of(slope) == pytest.approx([-1.92, 1.6])


def test_soft_gate() -> None:
    # −4 · σ(1) · 1.5 and (4 / 1.05) · σ(1.05 · −½) · 2
    sigmoid = [1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(0.525))]
    assert of(t.soft_gate(TOKENS, SHAPE)) == pytest.approx([-6 * sigmoid[0], 8 / 1.05 * sigmoid[1]])


@pytest.mark.parametrize("form", [t.clipped, t.sequence_clipped, t.weight_clipped, t.soft_gate])
def test_on_policy_every_gradient_is_that_of_the_policy_gradient(form: Any) -> None:
    at = TOKENS._replace(log_prob=TOKENS.old_log_prob)

    def slope(one: Any) -> Any:
        return jax.grad(lambda x: (one(at._replace(log_prob=x), SHAPE) * at.mask).sum())(at.log_prob)

    expected = slope(t.policy_gradient)
    if form is t.sequence_clipped:  # the sum over the row's tokens has each token's share of every advantage
        expected = jnp.where(at.mask > 0, expected.sum() / 2, 0)
    np.testing.assert_allclose(slope(form), expected, atol=1e-6)


def test_weights_of_rows() -> None:
    length = jnp.array([2.0, 8.0])
    np.testing.assert_allclose(t.mean_of_sequences(length, 16), [1 / 4, 1 / 16])
    np.testing.assert_allclose(t.mean_of_tokens(length, 16), [1 / 10, 1 / 10])
    np.testing.assert_allclose(t.sum_over_constant(length, 16), [1 / 32, 1 / 32])


REWARD = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])


def test_advantages_of_groups() -> None:
    np.testing.assert_array_equal(group.plain(REWARD), REWARD)
    np.testing.assert_allclose(group.centred(REWARD)[0], [0.5, -0.5, -0.5, 0.5])
    # the mean of the others is 1/3 or 2/3
    np.testing.assert_allclose(group.leave_one_out(REWARD)[0], [2 / 3, -2 / 3, -2 / 3, 2 / 3])
    # std with G − 1: √(4 · ¼ / 3) = 0.57735
    np.testing.assert_allclose(group.standardized(REWARD)[0], np.array([1, -1, -1, 1]) * 0.5 / 0.57735, rtol=1e-5)
    # (r − ½) / ½
    np.testing.assert_allclose(group.over_mean(REWARD)[0], [1, -1, -1, 1])
    for form in (group.centred, group.leave_one_out, group.standardized, group.over_mean):
        np.testing.assert_array_equal(form(REWARD)[1], np.zeros(4))


def test_estimates_of_the_kl_have_its_sign_and_direction() -> None:
    # π = (0.8, 0.2), π_ref = (0.5, 0.5): KL(π ‖ π_ref) = 0.8 ln 1.6 + 0.2 ln 0.4 = 0.1927
    p, q = np.array([0.8, 0.2]), np.array([0.5, 0.5])
    exact = float((p * np.log(p / q)).sum())
    for estimate in (loss.kl_k1, loss.kl_k3):
        assert float((p * estimate(jnp.log(p), jnp.log(q))).sum()) == pytest.approx(exact, abs=1e-6)
    assert float(loss.kl_k3(jnp.array(0.3), jnp.array(0.1))) == pytest.approx(np.exp(-0.2) - 1 + 0.2, abs=1e-6)
    assert float(loss.kl_k2(jnp.array(0.3), jnp.array(0.1))) == pytest.approx(0.02)
