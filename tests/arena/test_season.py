"""A season's file: read, refused with a sentence, written back."""

from __future__ import annotations

import pytest

from rewardlab.arena.errors import ArenaError
from rewardlab.arena.season import BETA, as_dict, read_season, season_of

SMALL = "name: s\npools: {competition: {kind: pairs}, qualifying: {kind: self_play}}\n"


def test_the_first_season_is_the_originals() -> None:
    season = read_season(BETA)
    assert season.name == "beta-cogsguard"
    assert season.pools["qualifying"].threshold == 0.1
    assert season.pools["qualifying"].matches == 2
    assert season.pools["competition"].splits == ((1, 3), (3, 1), (2, 2))
    assert season.pools["competition"].seeds == 5


@pytest.mark.parametrize(
    "text", [BETA, SMALL, SMALL + "mission: {base: cogsguard_arena.basic}\ncloses: 2026-12-24T18:00:00Z"]
)
def test_what_is_stored_reads_back_to_the_same(text: str) -> None:
    season = read_season(text)
    assert season_of(as_dict(season)) == season


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "no readable YAML"),
        ("- a", "no mapping"),
        ("name: s", "needs pools"),
        (SMALL + "stepz: 5", "no key 'stepz'. Did you mean 'steps'"),
        (SMALL + "steps: many", "steps is 'many': a number"),
        (SMALL + "steps: 0", "steps is 0"),
        (SMALL + "cogs: 21", "1 to 20"),
        (SMALL + "cogs: true", "a number is needed"),
        (SMALL + "entry_pool: competiton", "Did you mean 'competition'"),
        (SMALL + "replays: some", "all and none"),
        (SMALL + "closes: tomorrow", "which is no moment"),
        (SMALL.replace("name: s", "name: 'S p'"), "small letters"),
        (SMALL.replace("self_play", "selfplay"), "Did you mean 'self_play'"),
        (SMALL.replace("self_play", "self_play, promotes_to: nowhere"), "no pool 'nowhere'"),
        (SMALL.replace("self_play", "self_play, keep: 2"), "promotes_to must say where"),
        (SMALL.replace("kind: pairs", "kind: pairs, splits: [[1, 2]]"), "not of 4 cogs"),
        (SMALL.replace("kind: pairs", "kind: pairs, splits: [[4, 0]]"), "two numbers of cogs"),
        (SMALL.replace("kind: pairs", "kind: pairs, splits: 3"), "a list is needed"),
        (SMALL.replace("kind: pairs", "kind: teams") + "cogs: 3", "evenly"),
        (SMALL.replace("kind: pairs", "seeds: 2"), "does not say its kind"),
        (SMALL.replace("kind: pairs", "kind: pairs, seeds: 0"), "at least 1"),
    ],
)
def test_what_cannot_be_played_is_said(text: str, told: str) -> None:
    with pytest.raises(ArenaError, match="The season") as error:
        read_season(text)
    assert told in str(error.value)
