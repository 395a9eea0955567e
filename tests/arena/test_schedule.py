"""Which matches come next."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.arena.schedule import Plan, owed, plan
from rewardlab.arena.season import Pool

PAIRS = Pool("pairs", splits=((1, 3), (3, 1), (2, 2)), seeds=5)


def test_a_pair_owes_every_split_on_every_seed() -> None:
    plans = owed(PAIRS, 4, ["b", "a"])
    assert len(plans) == 3 * 5
    assert {p.policies for p in plans} == {("a", "b")}
    assert Counter(p.cogs for p in plans) == {(1, 3): 5, (3, 1): 5, (2, 2): 5}
    assert plans[0].key == "ax1/bx3/0"


def test_thirty_policies_with_one_meeting_each_are_435_matches() -> None:
    assert len(owed(Pool("pairs", splits=((2, 2),), seeds=1), 4, [f"p{i:02}" for i in range(30)])) == 435  # 30·29/2


def test_alone_everybody_plays_its_matches() -> None:
    plans = owed(Pool("self_play", matches=2), 4, ["a", "b"])
    assert [(p.policies, p.cogs, p.number) for p in plans] == [
        (("a",), (4,), 0),
        (("a",), (4,), 1),
        (("b",), (4,), 0),
        (("b",), (4,), 1),
    ]


def test_teams_have_half_of_the_cogs_each() -> None:
    assert owed(Pool("teams", seeds=1), 6, ["a", "b"]) == [Plan(("a", "b"), (3, 3), 0)]


def test_coverage_comes_before_depth() -> None:
    three = ["a", "b", "c"]
    first = plan(PAIRS, 4, three, [], {}, 3)
    assert [p.policies for p in first] == [("a", "b"), ("a", "c"), ("b", "c")]  # each pair once before any twice
    newcomer = plan(PAIRS, 4, [*three, "d"], first, {}, 3)
    assert [p.policies for p in newcomer] == [("a", "d"), ("b", "d"), ("c", "d")]


def test_of_pairs_equally_covered_the_least_certain_plays_first() -> None:
    chosen = plan(PAIRS, 4, ["a", "b", "c"], [], {"a": 1.0, "b": 5.0, "c": 6.0}, 1)
    assert chosen[0].policies == ("b", "c")  # 11 of uncertainty, against 6 and 7


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(1, 7))
def test_in_any_portions_the_same_matches_are_played_once_each(policies: int, most: int) -> None:
    names = [f"p{i}" for i in range(policies)]
    pool = Pool("pairs", splits=((1, 1),), seeds=2)
    so_far: list[Plan] = []
    while portion := plan(pool, 2, names, so_far, {}, most):
        assert len(portion) <= most
        so_far += portion
        counts = Counter(p.policies for p in so_far)
        assert max(counts.values()) - min([counts[p.policies] for p in owed(pool, 2, names)]) <= 1
    assert sorted(p.key for p in so_far) == sorted(p.key for p in owed(pool, 2, names))
    assert len({p.key for p in so_far}) == len(so_far)


def test_a_thousand_policies_are_planned_in_a_moment() -> None:
    names = [f"p{i:03}" for i in range(1000)]  # half a million pairs, 7.5 million matches
    doubt = {"p500": 3.0, "p600": 2.0}
    start = time.monotonic()
    chosen = plan(PAIRS, 4, names, [], doubt, 3)
    assert [p.policies for p in chosen] == [("p500", "p600"), ("p000", "p500"), ("p001", "p500")]
    again = plan(PAIRS, 4, names, chosen, doubt, 2)
    assert [p.policies for p in again] == [("p002", "p500"), ("p003", "p500")]
    assert time.monotonic() - start < 5


def test_no_room_no_plan() -> None:
    assert plan(PAIRS, 4, ["a", "b"], [], {}, 0) == []


def test_freeplay_ends_when_all_have_played_their_matches() -> None:
    pool = Pool("freeplay", splits=((1, 1),), matches=3)
    names = ["a", "b", "c", "d"]
    so_far: list[Plan] = []
    while portion := plan(pool, 2, names, so_far, {}, 2):
        so_far += portion
    played = Counter(policy for p in so_far for policy in p.policies)
    assert min(played.values()) == 3
    assert max(played.values()) <= 4
    assert len({p.key for p in so_far}) == len(so_far)
