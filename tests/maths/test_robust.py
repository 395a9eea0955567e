"""IQM, bootstrap and profiles on numbers that fit in a head."""

import numpy as np
import pytest

from rewardlab.maths.robust import bootstrap, iqm, profile


def test_the_interquartile_mean_leaves_out_the_outer_quarters() -> None:
    # sorted 0 1 2 3 4 5 6 100: two fall away on each side, (2 + 3 + 4 + 5) / 4 = 3.5
    assert iqm([[100, 0], [1, 2], [6, 3], [5, 4]]) == 3.5
    # of five values one falls on each side: (2 + 3 + 4) / 3
    assert iqm([1, 2, 3, 4, 1000]) == 3.0
    assert iqm([7.0]) == 7.0


def test_the_profile_counts_the_runs_above_a_threshold() -> None:
    scores = [[0.2, 0.9], [0.6, 1.0]]  # two runs of two tasks
    np.testing.assert_allclose(profile(scores, [0.0, 0.2, 0.6, 0.95, 1.0]), [1.0, 0.75, 0.5, 0.25, 0.0])


def test_the_interval_of_a_mean_is_that_of_a_normal_sample() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0.0, 1.0, (400, 1))
    low, high = bootstrap(scores, lambda s: float(s.mean()))
    # ± 1.96 / √400 = 0.098 around the sample's mean
    assert float(high - low) == pytest.approx(2 * 1.96 / 20 * scores.std(), rel=0.1)
    assert low < scores.mean() < high


def test_runs_are_drawn_within_tasks() -> None:
    scores = np.array([[0.0, 10.0], [0.0, 10.0], [0.0, 10.0]])  # tasks differ, runs do not
    low, high = bootstrap(scores, iqm)
    assert low == high == 5.0


def test_it_repeats() -> None:
    scores = np.random.default_rng(0).normal(size=(4, 3))
    assert bootstrap(scores, iqm) == bootstrap(scores, iqm)
