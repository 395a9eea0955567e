"""Which matches a pool still owes, in the order in which they should be played. Pure: facts in, plans out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rewardlab.arena.season import Pool


@dataclass(frozen=True)
class Plan:
    """A match to come: who plays how many cogs, on which seed. Its key is the same whoever plans it."""

    policies: tuple[str, ...]
    cogs: tuple[int, ...]
    number: int  # of the meeting; the season's seed + number is the match's

    @property
    def key(self) -> str:
        """What makes the match the one it is within its pool."""
        return "/".join((*(f"{p}x{n}" for p, n in zip(self.policies, self.cogs, strict=True)), str(self.number)))


def owed(pool: Pool, cogs: int, policies: Sequence[str]) -> list[Plan]:
    """All matches of a pool with these policies; a freeplay pool has no such list."""
    if pool.kind == "self_play":
        return [Plan((policy,), (cogs,), k) for policy in policies for k in range(pool.matches)]
    splits = ((cogs // 2, cogs // 2),) if pool.kind == "teams" else pool.splits
    pairs = combinations(sorted(policies), 2)
    return [Plan(pair, split, k) for pair in pairs for split in splits for k in range(pool.seeds)]


def plan(
    pool: Pool,
    cogs: int,
    policies: Sequence[str],
    planned: Iterable[Plan],
    uncertainty: Mapping[str, float],
    most: int,
) -> list[Plan]:
    """The next matches, `most` of them: those that cover most that is unknown first, then the least certain ratings.

    `planned` are all matches of the pool so far, played or not.
    """
    if most <= 0:
        return []
    planned = list(planned)
    if pool.kind == "freeplay":
        return _freeplay(pool, policies, planned, uncertainty, most)
    if pool.kind == "self_play":
        known = {plan.key for plan in planned}
        return [one for one in owed(pool, cogs, policies) if one.key not in known][:most]
    return _pairs(pool, cogs, sorted(policies), planned, uncertainty, most)


def _pairs(
    pool: Pool, cogs: int, policies: Sequence[str], planned: Sequence[Plan], uncertainty: Mapping[str, float], most: int
) -> list[Plan]:
    """A round at a time: all pairs that have met least. As arrays: thousands of policies are millions of pairs."""
    place = {policy: i for i, policy in enumerate(policies)}
    first, second = np.triu_indices(len(policies), 1)
    met = np.zeros((len(policies),) * 2, np.int32)
    left: dict[tuple[str, ...], list[Plan]] = {}  # of pairs that have met: what they still owe
    for one in planned:
        if all(policy in place for policy in one.policies):
            met[place[one.policies[0]], place[one.policies[1]]] += 1
            owing = left.setdefault(one.policies, owed(pool, cogs, one.policies))
            left[one.policies] = [other for other in owing if other != one]
    doubt = np.array([uncertainty.get(policy, 0.0) for policy in policies])
    counts, doubts = met[first, second], doubt[first] + doubt[second]
    each = len(owed(pool, cogs, ("a", "b")))
    chosen: list[Plan] = []
    while len(chosen) < most and len(counts) and (count := counts.min()) < each:
        level = _largest(doubts, np.flatnonzero(counts == count), most - len(chosen))
        for pair in level:
            names = (policies[first[pair]], policies[second[pair]])
            chosen.append(left.setdefault(names, owed(pool, cogs, names)).pop(0))
        counts[level] += 1
    return chosen


def _largest(values: NDArray[np.float64], among: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """The places of the largest values, equal ones in the order of their places."""
    if len(among) > most:
        bound = -np.partition(-values[among], most - 1)[most - 1]
        above, equal = among[values[among] > bound], among[values[among] == bound]
        among = np.concatenate([above, equal[: most - len(above)]])
    return among[np.lexsort((among, -values[among]))]


def _freeplay(
    pool: Pool, policies: Sequence[str], planned: Sequence[Plan], uncertainty: Mapping[str, float], most: int
) -> list[Plan]:
    """Who has played least meets whom it has met least; of those, the least certain. Until each has its matches."""
    played = Counter(policy for plan in planned for policy in plan.policies)
    met = Counter(plan.policies for plan in planned)
    chosen: list[Plan] = []
    while len(chosen) < most and len(policies) > 1:
        order = sorted(policies, key=lambda p: (played[p], -uncertainty.get(p, 0.0), p))
        first = order[0]
        if played[first] >= pool.matches:
            break
        pairs = [tuple(sorted((first, other))) for other in order[1:]]
        pair = min(pairs, key=lambda p: (met[p], pairs.index(p)))
        split = pool.splits[met[pair] % len(pool.splits)]
        one = Plan(pair, split, met[pair])
        chosen.append(one)
        met[pair] += 1
        played.update(pair)
    return chosen
