"""Returns, targets and advantages by hand, and against slow loops in plain Python.

The numbers of most tests: γ = ½, four steps, rewards 1 2 3 4, V(s) = ½ 1 1½ 2, V(s′) = 1 7 2 8. The 7 stands for the
value of the true final observation where an episode was cut off at step 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewardlab.maths import advantage

REWARD = jnp.asarray([1.0, 2.0, 3.0, 4.0])
VALUE = jnp.asarray([0.5, 1.0, 1.5, 2.0])
NEXT_VALUE = jnp.asarray([1.0, 7.0, 2.0, 8.0])
GAMMA = 0.5


def flags(*at: int) -> Any:
    """Four flags, raised at these steps."""
    return jnp.zeros(4, bool).at[jnp.asarray(at, int)].set(True)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-5)


def test_td_target_leaves_the_value_out_where_the_episode_ended() -> None:
    # 1 + ½·1 | 2 (ended) | 3 + ½·2 | 4 + ½·8
    close(advantage.td_target(REWARD, NEXT_VALUE, flags(1), GAMMA), [1.5, 2.0, 4.0, 8.0])


# λ = ½, so γλ = ¼.  δ0 = 1 + ½·1 − ½ = 1,  δ1 = 2 + ½·7 − 1 = 4½ (1 if terminated),  δ2 = 3 + ½·2 − 1½ = 2½,
# δ3 = 4 + ½·8 − 2 = 6 (2 if terminated).
@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), [2.375, 5.5, 4.0, 6.0]),  # 6 | 2½ + ¼·6 | 4½ + ¼·4 | 1 + ¼·5½
        ((), (1,), [2.125, 4.5, 4.0, 6.0]),  # cut, with bootstrap: A1 = δ1 = 4½; A0 = 1 + ¼·4½
        ((1,), (), [1.25, 1.0, 4.0, 6.0]),  # ended: A1 = 2 − 1
        ((1,), (1,), [1.25, 1.0, 4.0, 6.0]),  # both: it ended
        ((3,), (1,), [2.125, 4.5, 3.0, 2.0]),  # A3 = 4 − 2; A2 = 2½ + ¼·2
    ],
)
def test_gae(terminated: tuple[int, ...], truncated: tuple[int, ...], expected: list[float]) -> None:
    ends = flags(*terminated), flags(*truncated)
    close(advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 0.5), expected)


def test_gae_stops_where_the_mask_does() -> None:
    # the first two steps as if there were no others: A1 = δ1 = 4½, A0 = 1 + ¼·4½; the rest is nothing
    mask = jnp.asarray([1.0, 1.0, 0.0, 0.0])
    actual = advantage.gae(REWARD, VALUE, NEXT_VALUE, flags(), flags(), GAMMA, 0.5, mask)
    close(actual, [2.125, 4.5, 0.0, 0.0])


def test_gae_at_lambda_0_is_the_td_error() -> None:
    ends = flags(3), flags(1)
    expected = advantage.td_target(REWARD, NEXT_VALUE, ends[0], GAMMA) - VALUE
    close(advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 0.0), expected)


def test_gae_at_lambda_1_is_the_return_less_the_value() -> None:
    # G3 = 4; G2 = 3 + ½·4 = 5; G1 = 2 + ½·7 = 5½ (cut); G0 = 1 + ½·5½ = 3¾
    ends = flags(3), flags(1)
    actual = advantage.gae(REWARD, VALUE, NEXT_VALUE, *ends, GAMMA, 1.0)
    close(actual, [3.25, 4.5, 3.5, 2.0])
    close(actual, advantage.discounted_return(REWARD, NEXT_VALUE, *ends, GAMMA) - VALUE)


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((), (), [3.5, 5.0, 6.0 + 1.0 - 1.0, 8.0]),  # see below
        ((), (1,), [3.75, 5.5, 7.0, 8.0]),  # G3 = 4 + ½·8; G2 = 3 + ½·8; G1 = 2 + ½·7; G0 = 1 + ½·5½
        ((1,), (), [2.0, 2.0, 7.0, 8.0]),  # G1 = 2; G0 = 1 + ½·2
        ((1,), (1,), [2.0, 2.0, 7.0, 8.0]),
        ((3,), (), [3.25, 4.5, 5.0, 4.0]),  # G3 = 4; G2 = 5; G1 = 2 + ½·5; G0 = 1 + ½·4½
    ],
)
def test_discounted_return(terminated: tuple[int, ...], truncated: tuple[int, ...], expected: list[float]) -> None:
    if not terminated and not truncated:
        expected = [3.75, 5.5, 7.0, 8.0]  # G3 = 4 + ½·8 at the rollout's end; G1 = 2 + ½·7 with G2 = 7 by chance
    actual = advantage.discounted_return(REWARD, NEXT_VALUE, flags(*terminated), flags(*truncated), GAMMA)
    close(actual, expected)
