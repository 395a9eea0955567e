"""Returns, targets and advantages by hand, and against slow loops in plain Python.

The numbers of most tests: γ = ½, four steps, rewards 1 2 3 4, V(s) = ½ 1 1½ 2, V(s′) = 1 9 2 8. The 9 stands for the
value of the true final observation where an episode was cut off at step 1.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.maths import advantage

REWARD = jnp.asarray([1.0, 2.0, 3.0, 4.0])
VALUE = jnp.asarray([0.5, 1.0, 1.5, 2.0])
NEXT_VALUE = jnp.asarray([1.0, 9.0, 2.0, 8.0])
GAMMA = 0.5
Ends = tuple[int, ...]


def flags(at: Ends) -> jax.Array:
    """Four flags, raised at these steps."""
    return jnp.asarray([t in at for t in range(4)])


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-5)


def test_td_target_leaves_the_value_out_where_the_episode_ended() -> None:
    # 1 + ½·1 | 2, for it ended | 3 + ½·2 | 4 + ½·8
    close(advantage.td_target(REWARD, NEXT_VALUE, flags((1,)), GAMMA), [1.5, 2.0, 4.0, 8.0])


# λ = ½, so γλ = ¼.  δ0 = 1 + ½·1 − ½ = 1,  δ1 = 2 + ½·9 − 1 = 5½ (1 if terminated),  δ2 = 3 + ½·2 − 1½ = 2½,
# δ3 = 4 + ½·8 − 2 = 6 (2 if terminated).
@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), [2.625, 6.5, 4.0, 6.0]),  # 6 | 2½ + ¼·6 | 5½ + ¼·4 | 1 + ¼·6½
        ((), (1,), [2.375, 5.5, 4.0, 6.0]),  # cut with bootstrap: A1 = δ1; A0 = 1 + ¼·5½
        ((1,), (), [1.25, 1.0, 4.0, 6.0]),  # ended: A1 = 2 − 1; A0 = 1 + ¼·1
        ((1,), (1,), [1.25, 1.0, 4.0, 6.0]),  # both at once: it ended
        ((3,), (1,), [2.375, 5.5, 3.0, 2.0]),  # A3 = 4 − 2; A2 = 2½ + ¼·2
    ],
)
def test_gae(terminated: Ends, truncated: Ends, expected: list[float]) -> None:
    ends = flags(terminated), flags(truncated)
    close(advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 0.5), expected)


def test_gae_stops_where_the_mask_does() -> None:
    # the first two steps as if there were no others: A1 = δ1 = 5½, A0 = 1 + ¼·5½; the rest is nothing
    mask = jnp.asarray([1.0, 1.0, 0.0, 0.0])
    actual = advantage.gae(REWARD, VALUE, NEXT_VALUE, flags(()), flags(()), GAMMA, 0.5, mask)
    close(actual, [2.375, 5.5, 0.0, 0.0])


def test_gae_at_lambda_0_is_the_td_error() -> None:
    ends = flags((3,)), flags((1,))
    expected = advantage.td_target(REWARD, NEXT_VALUE, ends[0], GAMMA) - VALUE
    close(advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 0.0), expected)


def test_gae_at_lambda_1_is_the_return_less_the_value() -> None:
    # G3 = 4; G2 = 3 + ½·4 = 5; G1 = 2 + ½·9 = 6½ (cut); G0 = 1 + ½·6½ = 4¼; each less V
    ends = flags((3,)), flags((1,))
    close(advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 1.0), [3.75, 5.5, 3.5, 2.0])


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), [3.75, 5.5, 7.0, 8.0]),  # G3 = 4 + ½·8, the rollout's end; 3 + ½·8; 2 + ½·7; 1 + ½·5½
        ((), (1,), [4.25, 6.5, 7.0, 8.0]),  # G1 = 2 + ½·9; G0 = 1 + ½·6½
        ((1,), (), [2.0, 2.0, 7.0, 8.0]),  # G1 = 2; G0 = 1 + ½·2
        ((1,), (1,), [2.0, 2.0, 7.0, 8.0]),
        ((3,), (), [3.25, 4.5, 5.0, 4.0]),  # G3 = 4; 3 + ½·4; 2 + ½·5; 1 + ½·4½
    ],
)
def test_discounted_return(terminated: Ends, truncated: Ends, expected: list[float]) -> None:
    actual = advantage.discounted_return(REWARD, NEXT_VALUE, flags(terminated), flags(truncated), GAMMA)
    close(actual, expected)


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), [4.25, 4.0, 7.0, 8.0]),  # 1 + ½·2 + ¼·9 | 2 + ½·3 + ¼·2 | 3 + ½·4 + ¼·8 | 4 + ½·8
        ((), (1,), [4.25, 6.5, 7.0, 8.0]),  # G1 = 2 + ½·9, one step only
        ((1,), (), [2.0, 2.0, 7.0, 8.0]),  # 1 + ½·2 | 2
        ((1,), (1,), [2.0, 2.0, 7.0, 8.0]),
        ((3,), (0,), [1.5, 4.0, 5.0, 4.0]),  # 1 + ½·1 | 2 + ½·3 + ¼·2 | 3 + ½·4 | 4
    ],
)
def test_two_step_return(terminated: Ends, truncated: Ends, expected: list[float]) -> None:
    ends = flags(terminated), flags(truncated)
    close(advantage.n_step_return(REWARD, NEXT_VALUE, *ends, GAMMA, 2), expected)


def test_n_step_return_between_one_step_and_all() -> None:
    ends = flags((3,)), flags((1,))
    one = advantage.td_target(REWARD, NEXT_VALUE, ends[0], GAMMA)
    close(advantage.n_step_return(REWARD, NEXT_VALUE, *ends, GAMMA, 1), one)
    every = advantage.discounted_return(REWARD, NEXT_VALUE, *ends, GAMMA)
    for n in (4, 9):  # also more than there are
        close(advantage.n_step_return(REWARD, NEXT_VALUE, *ends, GAMMA, n), every)


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_leaks_back_from_the_next_episode(kind: str) -> None:
    """The first episode's numbers have no derivative in what happened after its end at step 1."""
    end, none = flags((1,)), flags(())
    ends = (end, none) if kind == "terminated" else (none, end)

    def first_episode(reward: jax.Array, value: jax.Array, next_value: jax.Array) -> jax.Array:
        gae = advantage.gae(reward, value, next_value, *ends, 0.9, 0.9)
        every = advantage.discounted_return(reward, next_value, *ends, 0.9)
        few = advantage.n_step_return(reward, next_value, *ends, 0.9, 3)
        return jnp.sum((gae + every + few)[:2] ** 2)

    for gradient in jax.grad(first_episode, argnums=(0, 1, 2))(REWARD, VALUE, NEXT_VALUE):
        assert (gradient[2:] == 0).all()
    by_reward, by_value, by_next_value = jax.grad(first_episode, argnums=(0, 1, 2))(REWARD, VALUE, NEXT_VALUE)
    assert (by_reward[:2] != 0).all()
    assert (by_value[:2] != 0).all()
    assert (by_next_value[1] != 0) == (kind == "truncated")


T, N = 7, 2
numbers = st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=T * N, max_size=T * N)
raised = st.lists(st.booleans(), min_size=T * N, max_size=T * N)
series = numbers.map(lambda xs: np.asarray(xs, np.float32).reshape(T, N))
ends_of = raised.map(lambda xs: np.asarray(xs).reshape(T, N))
unit = st.sampled_from([0.0, 0.5, 0.9, 1.0])
fast_gae = jax.jit(advantage.gae)
fast_return = jax.jit(advantage.discounted_return)
fast_n_step = {n: jax.jit(partial(advantage.n_step_return, n=n)) for n in (1, 3, T)}


@settings(max_examples=40, deadline=None)
@given(series, series, series, ends_of, ends_of, unit, unit)
def test_gae_against_its_definition(r: Any, v: Any, nv: Any, term: Any, trunc: Any, gamma: float, lam: float) -> None:
    """A_t = Σ_k (γλ)^k δ_{t+k}, as far as the episode and the rollout go."""
    expected = np.zeros((T, N))
    for n in range(N):
        for t in range(T):
            for k in range(T - t):
                at = t + k, n
                delta = r[at] + (0.0 if term[at] else gamma * nv[at]) - v[at]
                expected[t, n] += (gamma * lam) ** k * delta
                if term[at] or trunc[at]:
                    break
    np.testing.assert_allclose(fast_gae(r, v, nv, term, trunc, gamma, lam), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(series, series, ends_of, ends_of, unit, st.sampled_from([1, 3, T]))
def test_n_step_return_against_its_definition(r: Any, nv: Any, term: Any, trunc: Any, gamma: float, steps: int) -> None:
    """r_t + γ r_{t+1} + … until n steps are done, the episode ends or the rollout does; then V, unless it ended."""
    expected = np.zeros((T, N))
    for n in range(N):
        for t in range(T):
            for k in range(steps):
                at = t + k, n
                expected[t, n] += gamma**k * r[at]
                if term[at]:
                    break
                if trunc[at] or k == steps - 1 or t + k == T - 1:
                    expected[t, n] += gamma ** (k + 1) * nv[at]
                    break
    np.testing.assert_allclose(fast_n_step[steps](r, nv, term, trunc, gamma), expected, rtol=1e-4, atol=1e-4)
    if steps == T:
        np.testing.assert_allclose(fast_return(r, nv, term, trunc, gamma), expected, rtol=1e-4, atol=1e-4)
