"""Averages are averages, and the value over replacement is computed by hand here."""

import pytest

from rewardlab.cogs.evaluate.episode import Job, Result, play_job, play_jobs
from rewardlab.cogs.evaluate.seats import Faults
from rewardlab.cogs.evaluate.summary import mean_of, policy_rewards, summarise
from rewardlab.cogs.evaluate.vor import cogs_of, scenario, value_over_replacement
from rewardlab.cogs.missions import make_mission


def result(agents: tuple[tuple[int, ...], ...], rewards: tuple[float, ...], **stats: float) -> Result:
    agent_stats = tuple(dict(stats) for _ in rewards)
    faults = tuple(Faults(timeouts=i) for i in range(len(agents)))
    return Result(agents, rewards, 100, agent_stats, {"cogs": {"heart.amount": rewards[0]}}, {"tokens": 2.0}, faults)


def test_a_figure_that_one_lacks_counts_as_nothing() -> None:
    assert mean_of([{"a": 3.0}, {"a": 1.0, "b": 4.0}]) == {"a": 2.0, "b": 2.0}
    assert mean_of([]) == {}


def test_an_agents_figure_is_the_mean_over_cogs_and_episodes_not_their_sum() -> None:
    # two episodes in which each of the policy's two cogs moved 1000 times: 1000 a cog, where the original says 2000
    results = [result(((0, 1), (2,)), (1.0, 3.0, 5.0), moves=1000.0) for _ in range(2)]
    body = summarise("arena", ["a", "b"], results)["mission_summary"]
    first, second = body["policy_summaries"]
    assert first["avg_agent_metrics"] == {"moves": 1000.0}
    assert (first["agent_count"], second["agent_count"]) == (2, 1)
    assert (first["avg_reward"], second["avg_reward"]) == (2.0, 5.0)
    assert (first["action_timeouts"], second["action_timeouts"]) == (0, 2)  # a sum: each late action counts
    assert body["per_episode_per_policy_avg_rewards"] == {"0": [2.0, 5.0], "1": [2.0, 5.0]}
    assert body["avg_team_stats"] == {"cogs": {"heart.amount": 1.0}}
    assert body["avg_game_stats"] == {"tokens": 2.0}


def test_a_policy_that_played_no_cog_has_no_reward() -> None:
    each = result(((0,), ()), (2.0,))
    assert policy_rewards(each, 1) != policy_rewards(each, 1)  # NaN
    assert summarise("arena", ["a", "b"], [each])["mission_summary"]["policy_summaries"][1]["avg_reward"] is None


def test_the_pool_is_spread_evenly_and_the_first_take_what_is_left() -> None:
    assert cogs_of(1, 2, 4) == [1, 2, 1]
    assert cogs_of(4, 3, 4) == [4, 0, 0, 0]
    assert cogs_of(0, 3, 8) == [0, 3, 3, 2]


def test_value_over_replacement_by_hand() -> None:
    # two cogs of the candidate earn 3 each; one earns 5 while the pool's earns 2; the pool alone earns 1
    both = scenario(2, [result(((0, 1), ()), (3.0, 3.0))])
    one = scenario(1, [result(((0,), (1,)), (5.0, 2.0))])
    none = scenario(0, [result(((), (0, 1)), (1.0, 1.0))])
    assert (one.candidate_rewards, one.pool_rewards, none.candidate_rewards) == ((5.0,), (2.0,), ())
    value, mine, theirs = value_over_replacement([both, one, none])
    assert mine == pytest.approx((2 * 3 + 1 * 5) / 3)
    assert theirs == 1.0
    assert value == pytest.approx(11 / 3 - 1)


def test_a_job_gives_the_same_result_wherever_it_is_played() -> None:
    mission = make_mission("cogsguard_arena", cogs=2, steps=20)
    jobs = [Job(mission, ("random", "role_py"), ((0,), (1,)), seed, seed) for seed in (3, 4)]
    here = [play_job(job) for job in jobs]
    assert [found for _, found in sorted(play_jobs(jobs, processes=2), key=lambda pair: pair[0])] == here
    assert here[0] != here[1]
    assert here[0].steps == 20
    assert not any(here[0].faults)
