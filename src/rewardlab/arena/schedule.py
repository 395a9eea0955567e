"""Which matches a pool still owes, in the order in which they should be played. Pure: facts in, plans out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

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
    known = {plan.key for plan in planned}
    met = Counter(plan.policies for plan in planned)
    open_ = [one for one in owed(pool, cogs, policies) if one.key not in known]
    chosen: list[Plan] = []
    queues: dict[tuple[str, ...], list[Plan]] = {}
    for one in open_:
        queues.setdefault(one.policies, []).append(one)
    while queues and len(chosen) < most:
        pair = min(queues, key=lambda pair: (met[pair], -sum(uncertainty.get(p, 0.0) for p in pair), pair))
        count = met[pair]
        level = [p for p in queues if met[p] == count]  # a whole round at once: all pairs that have met least
        level.sort(key=lambda p: (-sum(uncertainty.get(one, 0.0) for one in p), p))
        for pair in level[: most - len(chosen)]:
            chosen.append(queues[pair].pop(0))
            met[pair] += 1
            if not queues[pair]:
                del queues[pair]
    return chosen


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
