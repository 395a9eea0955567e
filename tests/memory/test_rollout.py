"""Random orders: every index once, whatever the size, and no place that an index prefers."""

import jax
import numpy as np
import pytest

from rewardlab.memory.rollout import orders


@pytest.mark.parametrize("size", [1, 3, 512, 8192, 2**16 + 1])
def test_every_order_holds_every_index_once(size: int) -> None:
    made = np.asarray(orders(jax.random.key(size), 3, size))
    assert made.shape == (3, size)
    assert (np.sort(made, axis=1) == np.arange(size)).all()


@pytest.mark.parametrize("size", [6, 8192])
def test_an_index_is_as_likely_in_the_first_half_as_in_the_second(size: int) -> None:
    # 6000 orders of 6 or 40 of 8192: the share of places in the first half lies within 5 deviations of a half
    count = 6000 if size == 6 else 40
    made = np.asarray(orders(jax.random.key(1), count, size))
    first_half = np.zeros(size)
    np.add.at(first_half, made[:, : size // 2].reshape(-1), 1)
    low, high = first_half[: size // 2].sum(), first_half[size // 2 :].sum()
    assert abs(low - high) / (low + high) < 5 / np.sqrt(count * size / 2)
    assert np.abs(first_half / count - 0.5).max() < 5 * 0.5 / np.sqrt(count)


def test_two_keys_give_two_orders() -> None:
    one, other = (np.asarray(orders(jax.random.key(seed), 1, 512)) for seed in (0, 1))
    assert (one != other).any()
