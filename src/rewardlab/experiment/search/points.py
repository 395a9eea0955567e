"""What a search tries: points of the unit cube, and the values that they stand for in a spec's ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from rewardlab.spec import SearchRange

Point = dict[str, Any]  # dotted keys and their values
EDGE = 1e-9  # a normal number is not drawn from beyond this quantile


def value_at(given: SearchRange, u: float) -> Any:
    """The value of a range at a quantile from 0 to 1."""
    if given.kind == "choice":
        return given.args[min(int(u * len(given.args)), len(given.args) - 1)]
    if given.kind == "normal":
        return NormalDist(*given.args).inv_cdf(min(max(u, EDGE), 1 - EDGE))
    low, high, *step = given.args
    if given.kind == "loguniform":
        return math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    if given.kind == "randint":
        return min(low + int(u * (high - low)), high - 1)
    value = low + u * (high - low)
    if step:  # the nearest step of those that lie inside
        last = int((high - low) / step[0] + 1e-9)
        value = low + min(round((value - low) / step[0]), last) * step[0]
    return value


def point_at(ranges: Sequence[SearchRange], us: Sequence[float]) -> Point:
    """The values of all ranges at a point of the unit cube."""
    return {given.path: value_at(given, float(u)) for given, u in zip(ranges, us, strict=True)}


def draw(ranges: Sequence[SearchRange], count: int, seed: int) -> list[Point]:
    """A Latin hypercube: in each range, one trial in each of `count` equal parts, so that few trials cover much."""
    rng = np.random.default_rng((seed, 0x5EA2C4))
    parts = np.stack([rng.permutation(count) for _ in ranges], axis=1)
    cube = (parts + rng.random(parts.shape)) / count
    return [point_at(ranges, row) for row in cube]
