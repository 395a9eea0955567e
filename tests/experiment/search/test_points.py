"""Ranges and points: quantiles by hand, coverage of the Latin hypercube, rungs and promotion."""

import math

import pytest

from rewardlab.experiment.search.points import draw, value_at
from rewardlab.experiment.search.rungs import promoted, rungs
from rewardlab.spec import SchedulerSpec, SearchRange, parse_search


@pytest.mark.parametrize(
    ("kind", "args", "u", "value"),
    [
        ("uniform", (2.0, 4.0), 0.25, 2.5),
        ("loguniform", (1e-4, 1e-2), 0.5, 1e-3),  # the geometric middle
        ("quniform", (0.0, 1.0, 0.25), 0.6, 0.5),  # 0.6 / 0.25 = 2.4 steps
        ("quniform", (0.0, 1.0, 0.3), 0.999, 0.9),  # 1.2 would lie outside
        ("randint", (3, 6), 0.0, 3),
        ("randint", (3, 6), 0.999, 5),  # the high end is left out
        ("qrandint", (8, 32, 8), 0.5, 24),  # 12 / 8 = 1.5 steps, rounded to even: 2
        ("choice", ("a", "b", "c"), 0.5, "b"),
        ("choice", ("a", "b", "c"), 1.0, "c"),
        ("normal", (1.0, 2.0), 0.5, 1.0),
        ("normal", (0.0, 1.0), 0.975, 1.959964),
    ],
)
def test_a_quantile_of_each_kind(kind: str, args: tuple[object, ...], u: float, value: object) -> None:
    drawn = value_at(SearchRange("x", kind, args), u)
    assert drawn == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)


def test_a_latin_hypercube_has_one_trial_in_each_part_of_each_range() -> None:
    ranges = parse_search({"agent.algorithm.gamma__uniform": [0.0, 10.0], "agent.algorithm.lam__uniform": [0.0, 10.0]})
    points = draw(ranges, 10, seed=0)
    for given in ranges:
        assert sorted(math.floor(point[given.path]) for point in points) == list(range(10))
    assert points == draw(ranges, 10, seed=0)
    assert points != draw(ranges, 10, seed=1)


def test_rungs_grow_by_the_reduction_factor_and_stay_below_the_end() -> None:
    assert rungs(SchedulerSpec(10_000, 3), 200_000) == [10_000, 30_000, 90_000]
    assert rungs(SchedulerSpec(100, 2), 400) == [100, 200]  # at 400 the run ends anyway
    assert rungs(None, 200_000) == []


def test_the_best_third_goes_on() -> None:
    scores = {0: 1.0, 1: 5.0, 2: float("nan"), 3: 4.0, 4: 5.0, 5: 2.0}
    assert promoted(scores, 3) == [1, 4]  # 6 // 3 = 2
    assert promoted({7: float("nan"), 8: 0.0}, 3) == [8]  # one at the least, and never a NaN before a number
