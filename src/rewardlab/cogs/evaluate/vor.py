"""Value over replacement: what a candidate adds to a pool of others, cog by cog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewardlab.cogs.evaluate.episode import Result
from rewardlab.cogs.evaluate.summary import policy_rewards


@dataclass(frozen=True)
class Scenario:
    """The candidate plays some cogs, the pool the rest: what each side earned per cog, episode by episode."""

    candidates: int
    candidate_rewards: tuple[float, ...]
    pool_rewards: tuple[float, ...]


def cogs_of(candidates: int, pool: int, cogs: int) -> list[int]:
    """Cogs of the candidate, then of each policy of the pool: spread evenly, the first ones take what is left over."""
    share, extra = divmod(cogs - candidates, pool)
    return [candidates, *(share + (i < extra) for i in range(pool))]


def scenario(candidates: int, results: Sequence[Result]) -> Scenario:
    """Episodes in which the first policy was the candidate."""
    mine = tuple(policy_rewards(result, 0) for result in results) if candidates else ()
    theirs = tuple(
        sum(result.rewards[agent] for agents in result.agents[1:] for agent in agents) / others
        for result in results
        if (others := sum(map(len, result.agents[1:])))
    )
    return Scenario(candidates, mine, theirs)


def value_over_replacement(scenarios: Sequence[Scenario]) -> tuple[float, float, float]:
    """(VOR, the candidate's mean, the replacement's): Σ c·R_c / Σ c over episodes with c candidates, less the pool's
    mean where there is no candidate."""
    weighted = sum(s.candidates * reward for s in scenarios for reward in s.candidate_rewards)
    weight = sum(s.candidates * len(s.candidate_rewards) for s in scenarios)
    alone = [reward for s in scenarios if s.candidates == 0 for reward in s.pool_rewards]
    candidate, replacement = weighted / weight, sum(alone) / len(alone)
    return candidate - replacement, candidate, replacement
