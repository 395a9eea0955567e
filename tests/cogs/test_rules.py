"""The rules as data: names, ids, what cannot be played."""

from __future__ import annotations

import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.rules import ACTIONS, FEATURES, RESOURCES, Rules, Team, movement


def test_names_are_the_originals() -> None:
    assert len(ACTIONS) == 12
    assert ACTIONS[:6] == ("noop", "move_north", "move_south", "move_west", "move_east", "change_vibe_default")
    assert RESOURCES[:5] == ("energy", "heart", "hp", "influence", "solar")


def test_feature_ids_are_those_measured_in_the_original() -> None:
    measured = {
        **{"episode_completion_pct": 2, "last_action": 3, "last_reward": 4, "tag": 7, "collective": 10},
        **{"inv:energy": 16, "inv:hp": 20, "inv:solar": 24},
        **{"inv:collective:oxygen": 68, "inv:collective:carbon": 70},
        **{"inv:collective:germanium": 72, "inv:collective:silicon": 74},
    }
    assert len(FEATURES.names) == len(set(FEATURES.names)) == 76
    assert {name: FEATURES[name] for name in measured} == measured


def test_tags_and_collectives_are_sorted() -> None:
    rules = Rules()
    assert len(rules.tags) == 14
    assert rules.tags[0] == "collective:cogs"
    assert rules.tags[-1] == "type:wall"
    assert rules.collectives == ("clips", "cogs", "neutral")
    assert rules.with_difficulty("easy").collectives == ("cogs", "neutral")


def test_agents_are_numbered_team_by_team() -> None:
    assert Rules(teams=(Team("a", 2), Team("b", 3))).team_of == (0, 0, 1, 1, 1)


def test_moves_are_offsets_in_a_flat_grid() -> None:
    assert movement(10)[:6] == (0, -10, 10, -1, 1, 0)


@pytest.mark.parametrize("cogs", [0, 21, -1])
def test_teams_have_one_to_twenty_cogs(cogs: int) -> None:
    with pytest.raises(CogsError, match="1 to 20 cogs"):
        Rules().with_cogs(cogs)


def test_what_cannot_be_played_is_a_sentence() -> None:
    with pytest.raises(CogsError, match="Did you mean 'milestones'"):
        Rules(rewards=("milestone",))
    with pytest.raises(CogsError, match="Did you mean 'medium'"):
        Rules().with_difficulty("mediun")
    with pytest.raises(CogsError, match="names of their own"):
        Rules(teams=(Team("clips", 1),))
    with pytest.raises(CogsError, match="1 step at the least"):
        Rules(max_steps=0)
