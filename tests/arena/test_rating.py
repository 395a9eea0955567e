"""Scores, values and ratings, computed by hand."""

from __future__ import annotations

import math

import pytest

from rewardlab.arena.rating import Side, history, leaderboard, rate, values_over_replacement, weighted_scores

# a plays 1 of 4 cogs for 2.0 a cog, then 3 of 4 for 6.0; b the others
MATCHES = [[Side("a", 1, 2.0), Side("b", 3, 4.0)], [Side("a", 3, 6.0), Side("b", 1, 8.0)]]
ALONE = [[Side("b", 2, 1.0), Side("c", 2, 3.0)]]


def test_scores_are_weighted_by_share() -> None:
    scores = weighted_scores(MATCHES)
    assert scores["a"][0] == pytest.approx((2 * 0.25 + 6 * 0.75) / 1.0)  # 5
    assert scores["b"][0] == pytest.approx((4 * 0.75 + 8 * 0.25) / 1.0)  # 5
    # half width: 1.96 · √(2/1 · ((0.25·(2−5))² + (0.75·(6−5))²)) / 1 = 1.96 · √(2 · (0.5625 + 0.5625)) = 1.96 · 1.5
    assert scores["a"][1] == pytest.approx(1.96 * 1.5)
    assert scores["a"][2] == 2


def test_after_one_match_nothing_is_known_of_the_spread() -> None:
    assert weighted_scores(ALONE)["b"][1] == math.inf


def test_value_over_replacement() -> None:
    values = values_over_replacement(MATCHES + ALONE)
    # a: (2·1 + 6·3)/4 = 5 per cog, less what the match without it gave per cog: (1·2 + 3·2)/4 = 2
    assert values["a"] == pytest.approx(3.0)
    # c: 3, less the two matches without it: (2 + 12 + 18 + 8)/8 = 5
    assert values["c"] == pytest.approx(-2.0)
    assert "b" not in values  # it is in all of them: nothing to compare with


def test_who_scores_more_is_rated_higher_and_both_become_surer() -> None:
    rated = rate([[Side("a", 2, 1.0), Side("b", 2, 0.0)]])
    assert rated["a"][0] > 25 > rated["b"][0]
    assert rated["a"][1] < 25 / 3
    assert rated["a"][0] - 25 == pytest.approx(25 - rated["b"][0])


def test_alone_nobody_is_rated() -> None:
    assert rate([[Side("a", 4, 9.0)]])["a"] == pytest.approx((25.0, 25 / 3))


def test_the_leaderboard_is_by_score_then_rating_then_name() -> None:
    lines = leaderboard([*MATCHES, [Side("c", 2, 7.0), Side("d", 2, 4.0)]])
    assert [(line.rank, line.policy) for line in lines] == [(1, "c"), (2, "b"), (3, "a"), (4, "d")]
    assert lines[1].score == lines[2].score == pytest.approx(5.0)  # b won its rating against a twice


def test_history_follows_the_running_score() -> None:
    lines = history(MATCHES)
    assert [count for count, _ in lines["a"]] == [1, 2]
    assert [score for _, score in lines["a"]] == pytest.approx([2.0, 5.0])


def test_history_keeps_about_so_many_points() -> None:
    many = [[Side("a", 1, float(i)), Side("b", 1, 0.0)] for i in range(500)]
    assert 50 <= len(history(many, 60)["a"]) <= 61
    assert history(many, 60)["a"][-1] == pytest.approx((500, 249.5))
