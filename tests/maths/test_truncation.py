"""The distribution that is sampled from, by hand and against the plain definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.maths import truncation
from rewardlab.maths.truncation import NONE, Truncation, draw, largest, log_prob

# probabilities 0.5, 0.25, 0.125, 0.125, not in order
LOGITS = jnp.log(jnp.array([[0.125, 0.5, 0.125, 0.25]]))


def chances(how: Truncation) -> list[float]:
    """How often each of the four tokens is drawn, from a thousand evenly spaced numbers."""
    uniform = (jnp.arange(1000) + 0.5) / 1000
    token = draw(how, jnp.repeat(LOGITS, 1000, axis=0), uniform).token
    return [float(n) / 1000 for n in np.bincount(token, minlength=4)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Truncation(), [0.125, 0.5, 0.125, 0.25]),
        (Truncation(temperature=0.5), [1 / 22, 16 / 22, 1 / 22, 4 / 22]),  # squares 1 16 1 4 over their sum
        (Truncation(top_k=2), [0, 2 / 3, 0, 1 / 3]),
        (Truncation(top_p=0.6), [0, 2 / 3, 0, 1 / 3]),  # 0.5 is not enough, 0.75 is
        (Truncation(top_p=0.5), [0, 1, 0, 0]),
        (Truncation(min_p=0.3), [0, 2 / 3, 0, 1 / 3]),  # 0.3 · 0.5 = 0.15 lies between 0.125 and 0.25
        (Truncation(top_k=3, top_p=0.75), [0, 2 / 3, 0, 1 / 3]),  # of the three: 4/7, 2/7; 6/7 reaches 0.75
        (Truncation(temperature=0.0), [0, 1, 0, 0]),
    ],
)
def test_every_token_is_drawn_as_often_as_it_should(how: Truncation, expected: list[float]) -> None:
    np.testing.assert_allclose(chances(how), expected, atol=1e-3)


@pytest.mark.parametrize("how", [Truncation(0.6, 20, 0.95), Truncation(0.8, 0, 0.9), Truncation(1.3), Truncation(1, 5)])
def test_a_drawn_token_has_the_same_probability_for_who_trains_on_it(how: Truncation) -> None:
    logits = 3 * jax.random.normal(jax.random.key(0), (64, 103))
    drawn = draw(how, logits, jax.random.uniform(jax.random.key(1), (64,)))
    again = log_prob(how, logits, drawn.token, drawn.support)
    np.testing.assert_allclose(again, drawn.log_prob, atol=1e-5)
    assert np.isfinite(again).all()


def test_log_prob_within_a_support_by_hand() -> None:
    # among the tokens 1 and 3 the second has 0.25 / 0.75
    support = jnp.array([[1, 3, NONE]])
    assert float(log_prob(Truncation(top_k=3), LOGITS, jnp.array([3]), support)[0]) == pytest.approx(np.log(1 / 3))
    bits = jnp.packbits(jnp.array([[False, True, False, True]]), axis=-1)
    assert float(log_prob(Truncation(top_p=0.7), LOGITS, jnp.array([3]), bits)[0]) == pytest.approx(np.log(1 / 3))


def test_entropy_by_hand() -> None:
    # two tokens, 2/3 and 1/3: −(2/3 ln 2/3 + 1/3 ln 1/3) = 0.6365
    assert float(draw(Truncation(top_k=2), LOGITS, jnp.array([0.1])).entropy[0]) == pytest.approx(0.6365, abs=1e-4)


def test_a_row_that_drew_nothing_stays_finite() -> None:
    nothing = jnp.full((1, 2), NONE)
    value, gradient = jax.value_and_grad(lambda x: log_prob(Truncation(top_k=2), x, jnp.array([0]), nothing).sum())(
        LOGITS
    )
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_the_largest_of_a_wide_row_are_those_of_a_sort() -> None:
    wide = jax.random.normal(jax.random.key(2), (3, truncation.WIDE + 77))
    scores, tokens = largest(wide, 20)
    expected = np.argsort(-np.asarray(wide), axis=1)[:, :20]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(np.asarray(wide), expected, axis=1))
