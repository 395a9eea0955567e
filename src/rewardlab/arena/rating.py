"""From match results to a leaderboard: scores weighted by share, ratings with intervals, value over replacement."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CERTAIN = 1.96  # standard deviations of a 95 % interval
SIGMA = 25 / 3  # the uncertainty of a policy that has not played, as openskill has it


@dataclass(frozen=True)
class Side:
    """What one policy did in a match: it played `cogs` of them and earned `score` per cog."""

    policy: str
    cogs: int
    score: float


Match = Sequence[Side]


@dataclass(frozen=True)
class Standing:
    """A line of a leaderboard."""

    rank: int
    policy: str
    score: float  # Σ score·share / Σ share, share = its cogs / all cogs of the match
    error: float  # half the width of the score's 95 % interval
    matches: int
    rating: float
    uncertainty: float  # the rating's standard deviation
    value: float | None  # over replacement


def leaderboard(matches: Sequence[Match]) -> list[Standing]:
    """The policies of these matches, the best first. Equal scores go by rating, then by name."""
    scores, values, ratings = weighted_scores(matches), values_over_replacement(matches), rate(matches)
    order = sorted(scores, key=lambda p: (-scores[p][0], -ratings[p][0], p))
    return [
        Standing(rank, policy, *scores[policy], *ratings[policy], values.get(policy))
        for rank, policy in enumerate(order, 1)
    ]


def weighted_scores(matches: Iterable[Match]) -> dict[str, tuple[float, float, int]]:
    """Each policy's mean score weighted by share, half its 95 % interval, and its number of matches."""
    seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for match in matches:
        cogs = sum(side.cogs for side in match)
        for side in match:
            seen[side.policy].append((side.score, side.cogs / cogs))
    return {policy: (*_mean(rows), len(rows)) for policy, rows in seen.items()}


def _mean(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """x̄ = Σ w x / Σ w, and 1.96 · √(n/(n−1) · Σ w² (x−x̄)²) / Σ w."""
    weight = math.fsum(w for _, w in rows)
    mean = math.fsum(x * w for x, w in rows) / weight
    n = len(rows)
    if n < 2:
        return mean, math.inf
    spread = math.sqrt(n / (n - 1) * math.fsum((w * (x - mean)) ** 2 for x, w in rows))
    return mean, CERTAIN * spread / weight


def values_over_replacement(matches: Iterable[Match]) -> dict[str, float]:
    """Σ c·R_c / Σ c where a policy plays c cogs, less the mean per cog of the matches that it is not in."""
    matches = list(matches)
    earned: dict[str, float] = defaultdict(float)
    cogs: dict[str, float] = defaultdict(float)
    there: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # all rewards and cogs of the matches it is in
    total = everybody = 0.0
    for match in matches:
        reward, size = sum(s.score * s.cogs for s in match), sum(s.cogs for s in match)
        total, everybody = total + reward, everybody + size
        for side in match:
            earned[side.policy] += side.score * side.cogs
            cogs[side.policy] += side.cogs
        for policy in {side.policy for side in match}:
            there[policy][0] += reward
            there[policy][1] += size
    found = {}
    for policy, (own, present) in there.items():
        if everybody > present:
            found[policy] = earned[policy] / cogs[policy] - (total - own) / (everybody - present)
    return found


def rate(matches: Iterable[Match]) -> dict[str, tuple[float, float]]:
    """Each policy's rating and uncertainty by Plackett-Luce, one match after another; alone nobody wins or loses."""
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    ratings: dict[str, Any] = {}
    for match in matches:
        for side in match:
            ratings.setdefault(side.policy, model.rating())
        if len(match) > 1:
            teams = [[ratings[side.policy]] for side in match]
            for side, (rated,) in zip(match, model.rate(teams, scores=[s.score for s in match]), strict=True):
                ratings[side.policy] = rated
    return {policy: (float(r.mu), float(r.sigma)) for policy, r in ratings.items()}


def uncertainty(ratings: Mapping[str, tuple[float, float]], policies: Iterable[str]) -> dict[str, float]:
    """How little is known of each policy."""
    return {policy: ratings[policy][1] if policy in ratings else SIGMA for policy in policies}


def history(matches: Sequence[Match], points: int = 60) -> dict[str, list[tuple[int, float]]]:
    """Each policy's score as it was after so many matches, at about `points` of them."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
    every = max(1, math.ceil(len(matches) / points))
    for count, match in enumerate(matches, 1):
        cogs = sum(side.cogs for side in match)
        for side in match:
            sums[side.policy][0] += side.score * side.cogs / cogs
            sums[side.policy][1] += side.cogs / cogs
        if count % every == 0 or count == len(matches):
            for policy, (total, weight) in sums.items():
                lines[policy].append((count, total / weight))
    return dict(lines)
