"""Episodes summed up, per policy and over all: averages are averages, and the teams' figures are among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewardlab.cogs.evaluate.episode import Result

Figures = dict[str, float]


def mean_of(figures: Sequence[Mapping[str, float]]) -> Figures:
    """The mean of each figure; one that an episode or agent lacks counts as 0 there."""
    names = sorted({name for each in figures for name in each})
    return {name: sum(each.get(name, 0.0) for each in figures) / max(len(figures), 1) for name in names}


def policy_rewards(result: Result, policy: int) -> float:
    """The mean reward of a policy's agents in an episode; NaN where it played none."""
    agents = result.agents[policy]
    return sum(result.rewards[agent] for agent in agents) / len(agents) if agents else float("nan")


def summarise(mission: str, names: Sequence[str], results: Sequence[Result]) -> dict[str, Any]:
    """A mission's part of the JSON; its keys are the original's, and those it lacked."""
    return {
        "mission_name": mission,
        "mission_summary": {
            "episodes": len(results),
            "policy_summaries": [_policy(names, policy, results) for policy in range(len(names))],
            "avg_game_stats": mean_of([result.game_stats for result in results]),
            "avg_team_stats": {
                team: mean_of([result.team_stats.get(team, {}) for result in results]) for team in _teams(results)
            },
            "per_episode_per_policy_avg_rewards": {
                str(i): [_number(policy_rewards(result, policy)) for policy in range(len(names))]
                for i, result in enumerate(results)
            },
        },
    }


def _policy(names: Sequence[str], policy: int, results: Sequence[Result]) -> dict[str, Any]:
    played = [result.agent_stats[agent] for result in results for agent in result.agents[policy]]
    faults = [result.faults[policy] for result in results]
    rewards = [r for result in results if (r := policy_rewards(result, policy)) == r]
    return {
        "policy_name": names[policy],
        "agent_count": max((len(result.agents[policy]) for result in results), default=0),
        "avg_reward": _number(sum(rewards) / len(rewards)) if rewards else None,
        "avg_agent_metrics": mean_of(played),
        "action_timeouts": sum(fault.timeouts for fault in faults),
        "action_errors": sum(fault.errors for fault in faults),
        "invalid_actions": sum(fault.nonsense for fault in faults),
        "first_fault": next((fault.first for fault in faults if fault.first), None),
    }


def _teams(results: Iterable[Result]) -> list[str]:
    return sorted({team for result in results for team in result.team_stats})


def _number(value: float) -> float | None:
    return None if value != value else value
