"""Running statistics against numpy's over everything at once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.maths.normalize import RunningStats


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 100))
def test_running_stats_are_those_of_all_batches_together(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [rng.normal([3.0, -50.0], [0.5, 9.0], (n, 2)).astype(np.float32) for n in sizes]
    stats = RunningStats.create((2,))
    for batch in batches:
        stats = stats.update(jnp.asarray(batch))
    # before anything is seen there is a ten-thousandth of a sample (mean 0, variance 1): it keeps the variance above 0
    everything, little = np.concatenate(batches).astype(np.float64), 1e-4
    n = len(everything)
    mean = everything.sum(0) / (n + little)
    second = ((everything**2).sum(0) + little) / (n + little)
    np.testing.assert_allclose(stats.mean, mean, rtol=1e-4)
    np.testing.assert_allclose(stats.var, second - mean**2, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(float(stats.seen), n + little, rtol=1e-5)


def test_many_samples_drown_the_beginning() -> None:
    data = np.random.default_rng(0).normal(5.0, 2.0, (500, 3)).astype(np.float32)
    stats = RunningStats.create((3,))
    for batch in np.split(data, 50):
        stats = stats.update(jnp.asarray(batch))
    np.testing.assert_allclose(stats.mean, data.mean(0), rtol=1e-4)
    np.testing.assert_allclose(stats.var, data.var(0), rtol=1e-3)


def test_normalize_and_scale() -> None:
    stats = RunningStats(jnp.asarray(9.0), jnp.asarray(1.0), jnp.asarray(4.0))
    x = jnp.asarray([1.0, 5.0, -1.0, 101.0])
    np.testing.assert_allclose(stats.normalize(x), [0.0, 2.0, -1.0, 10.0], rtol=1e-6)  # (x − 1)/2, the last clipped
    np.testing.assert_allclose(stats.scale(x, clip=20.0), [0.5, 2.5, -0.5, 20.0], rtol=1e-6)  # x/2: signs stay
