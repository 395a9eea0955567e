"""Prioritized drawing: frequencies, weights, and the edges where rounding could lead out of what is stored."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.memory.prioritized import Prioritized

ALPHA, EPSILON = 0.5, 0.01
KEY = jax.random.key(0)


def words(key: jax.Array, count: int) -> jax.Array:
    return jax.random.bits(key, (count,), jnp.uint32)


def with_errors(errors: Any, max_size: int | None = None) -> Prioritized:
    """A memory whose entries have these errors."""
    count = len(errors)
    rule = Prioritized.create(max_size or count, ALPHA, EPSILON).add(jnp.asarray(0), count)
    return rule.update(jnp.arange(count), jnp.asarray(errors, jnp.float32))


def priorities(rule: Prioritized) -> Any:
    return np.asarray(rule.priority).ravel()[: rule.max_size]


def test_a_priority_is_the_error_and_epsilon_to_the_alpha() -> None:
    rule = with_errors([0.99, -3.99, 0.0])
    np.testing.assert_allclose(priorities(rule), [1.0, 2.0, 0.1], rtol=1e-5)  # √1, √4, √0.01
    np.testing.assert_allclose(rule.row_sum.sum(), 3.1, rtol=1e-6)


def test_new_ones_enter_at_the_highest_priority_so_far() -> None:
    rule = Prioritized.create(6, ALPHA, EPSILON).add(jnp.asarray(0), 2)
    np.testing.assert_allclose(priorities(rule), [1, 1, 0, 0, 0, 0])
    rule = rule.update(jnp.asarray([1]), jnp.asarray([8.99])).add(jnp.asarray(2), 2)
    np.testing.assert_allclose(priorities(rule), [1, 3, 3, 3, 0, 0], rtol=1e-6)
    rule = rule.update(jnp.asarray([1]), jnp.asarray([0.0])).add(jnp.asarray(4), 2)  # the highest is remembered
    np.testing.assert_allclose(priorities(rule), [1, 0.1, 3, 3, 3, 3], rtol=1e-6)
    rule = rule.add(jnp.asarray(6), 2)  # round the ring: the two oldest are gone
    np.testing.assert_allclose(priorities(rule), [3, 3, 3, 3, 3, 3], rtol=1e-6)
    np.testing.assert_allclose(rule.row_sum.sum(), 18.0, rtol=1e-6)


@pytest.mark.parametrize("wrapped", [False, True])
def test_draws_in_proportion_to_priority(wrapped: bool) -> None:
    stats: Any = pytest.importorskip("scipy.stats")
    errors = np.asarray([1.0, 4.0, 0.0, 9.0, 2.0, 0.5, 30.0])
    rule, seen = with_errors(errors), 7
    if wrapped:
        rule, seen = rule.add(jnp.asarray(7), 2), 9
        errors[:2] = 30.0  # as the highest so far
    expected = np.sqrt(errors + EPSILON) / np.sqrt(errors + EPSILON).sum()
    # batches of one: within a batch each draw has its own share of the total, so counts would vary too little
    one = jax.jit(jax.vmap(lambda k: rule.draw(words(k, 1), jnp.asarray(seen), 0.4)[0][0]))
    counts = np.bincount(np.asarray(one(jax.random.split(KEY, 20_000))), minlength=7)
    assert stats.chisquare(counts, expected * 20_000).pvalue > 0.01


def test_a_batch_takes_one_from_each_share() -> None:
    # priorities 1 1 2: shares of 1 each of a total of 4 give the third twice, always
    rule = with_errors([0.99, 0.99, 3.99])
    for seed in range(5):
        index, _ = rule.draw(words(jax.random.key(seed), 4), jnp.asarray(3), 1.0)
        np.testing.assert_array_equal(index, [0, 1, 2, 2])


def test_weights() -> None:
    # P = ¼ ¼ ½ of n = 3: (n P)^−β = (¾)^−½ and (1½)^−½; over the largest: 1 and √½
    rule = with_errors([0.99, 0.99, 3.99])
    _, weight = rule.draw(words(KEY, 4), jnp.asarray(3), 0.5)
    np.testing.assert_allclose(weight, [1.0, 1.0, 0.5**0.5, 0.5**0.5], rtol=1e-5)
    _, weight = rule.draw(words(KEY, 4), jnp.asarray(3), 0.0)  # β = 0 corrects nothing
    np.testing.assert_allclose(weight, 1.0)


@jax.jit
def draw_nine(errors: jax.Array, seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    rule = with_errors(errors)
    return rule.priority.ravel()[:9], *rule.draw(words(jax.random.key(seed), 9), jnp.asarray(9), 1.0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 50), min_size=9, max_size=9), st.integers(0, 1000))
def test_at_beta_1_the_weighted_mean_is_unbiased(errors: list[float], seed: int) -> None:
    """E_P[w x] / E_P[w] is the plain mean of x, for any x: P·w is the same for all that can be drawn."""
    priority, index, weight = map(np.asarray, draw_nine(jnp.asarray(errors, jnp.float32), seed))
    product = priority[index] / priority.sum() * weight
    np.testing.assert_allclose(product, product[0], rtol=1e-3)
    assert weight.max() == pytest.approx(1.0)


@pytest.mark.parametrize(("max_size", "stored"), [(100, 40), (100, 1), (100, 100), (10, 7), (11, 11), (2, 2)])
def test_rounding_never_leads_out_of_what_is_stored(max_size: int, stored: int) -> None:
    """With the largest word and the smallest: 31 + 0.99999994 is 32 in float32."""
    rule = with_errors(np.linspace(0, 3, stored), max_size)
    for word in (2**32 - 1, 0):
        index, weight = rule.draw(jnp.full(32, word, jnp.uint32), jnp.asarray(stored), 0.4)
        assert int(index.min()) >= 0
        assert int(index.max()) < stored
        assert jnp.isfinite(weight).all()


def test_places_that_only_round_off_the_square_are_never_drawn() -> None:
    rule = with_errors(np.ones(7))
    assert rule.priority.size > rule.max_size  # 3 rows of 3 for 7
    index, _ = rule.draw(words(KEY, 5000), jnp.asarray(7), 0.4)
    assert set(np.unique(index)) == set(range(7))


def test_sessions_draw_apart_under_vmap() -> None:
    both = jax.vmap(with_errors)(jnp.asarray([[9e6, 0, 0, 0], [0, 0, 0, 9e6]], jnp.float32))
    keys = jax.random.split(KEY, 2)
    index, _ = jax.vmap(lambda r, k: r.draw(words(k, 8), jnp.asarray(4), 0.4))(both, keys)
    assert index.tolist() == [[0] * 8, [3] * 8]
