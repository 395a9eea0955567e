"""The rules by hand: every number here was worked out on paper from the rules' document.

In ROOM the hub's area reaches columns 11 to 21; who stands on column 1 is out of it. A tick takes 1 hp and 1 influence
and gives solar energy: 3 by day, and the first step brings the first day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cogs.worlds import QUIET, World

from rewardlab.cogs.rules import CLIPS, FIRST_TEAM, Clips, Rules, Team


def test_the_first_step_clamps_energy_and_brings_day(world: World) -> None:
    world.act("noop")
    assert world.held() == {"energy": 20, "hp": 49, "solar": 3}


def test_a_move_costs_four_and_a_blocked_one_nothing(world: World) -> None:
    world.act("noop")
    assert bool(world.act("move_south").success[0, 0])
    assert (world.place(), world.held()["energy"]) == ((2, 1), 20 - 4 + 3)
    outcome = world.act("move_west")
    assert not bool(outcome.success[0, 0])
    assert (world.place(), world.held()["energy"]) == ((2, 1), 20)
    assert int(world.state.last_action[0, 0]) == 0


def test_too_little_energy_moves_nobody(world: World) -> None:
    world.give(energy=3)
    assert not bool(world.act("move_south").success[0, 0])
    assert (world.place(), world.held()["energy"]) == ((1, 1), 6)


def test_day_and_night(world: World) -> None:
    def solar_after(step: int) -> int:
        world.state = world.state._replace(step=world.state.step * 0 + step - 1)
        world.act("noop")
        return world.held()["solar"]

    assert [solar_after(step) for step in (1, 2, 100, 101, 200, 300)] == [3, 3, 1, 1, 3, 1]


def test_at_no_hp_gear_hearts_and_cargo_are_lost_but_the_cog_stays(world: World) -> None:
    world.give(hp=1, miner=1, heart=3, oxygen=3, silicon=9, germanium=2)
    world.act("noop")
    # The cap falls from 40 to 4: silicon goes first, then germanium; oxygen is kept longest. 14 − 9 − 1 = 4.
    assert world.held() == {"energy": 20, "solar": 3, "oxygen": 3, "germanium": 1}
    world.act("noop")
    assert "hp" not in world.held()


def test_the_hub_heals_and_feeds(world: World) -> None:
    world.put(0, 1, 11)
    world.give(hp=1, energy=0, aligner=1)
    world.act("noop")
    # The tick takes the last hp, and the gear with it, before the hub heals.
    assert world.held() == {"energy": 20, "hp": 100, "solar": 3}
    world.give(aligner=1)
    world.act("noop")
    assert world.held()["influence"] == 10
    world.act("noop")
    assert world.held()["influence"] == 19  # −1 and +10
    world.act("noop")
    assert world.held()["influence"] == 20  # the cap


def test_the_area_ends_after_ten_cells(world: World) -> None:
    world.put(0, 4, 10)
    world.act("noop")
    assert world.held()["hp"] == 49


@pytest.mark.parametrize(("row", "influence"), [(1, 9), (6, 0)])
def test_sources_act_in_row_order(row: int, influence: int, make_world: type[World]) -> None:
    """An enemy junction above the own one is mended by it; one below takes all."""
    lines = ["#" * 23, *["#" + "." * 21 + "#"] * 6, *["#" + "." * 21 + "#"] * 20, "#" * 23]
    text = [list(line) for line in lines]
    text[3][5], text[row][9], text[4][5], text[25][20] = "J", "J", "@", "H"
    world = make_world(QUIET, "\n".join("".join(line) for line in text))
    world.own(3, 5)
    world.own(row, 9, CLIPS)
    world.give(aligner=1, hp=90, influence=0)
    world.act("noop")
    # hp: 90 − 1 by the tick; own +100 up to 100, enemy −1: 100 if the own one comes last, else 99.
    assert world.held().get("influence", 0) == (10 if influence else 0)
    assert world.held()["hp"] == (100 if influence else 99)


def test_mining(world: World) -> None:
    world.put(0, 2, 1)
    world.act("move_east")
    assert (world.held()["carbon"], world.held()["energy"]) == (1, 20)
    world.give(miner=1)
    for carried in (11, 21, 31, 40, 40):
        outcome = world.act("move_east")
        assert (world.held()["carbon"], bool(outcome.success[0, 0])) == (carried, True)
    assert int(world.state.amount[world.thing(2, 2), 0]) == 60


def test_an_exhausted_extractor_leaves_floor(world: World) -> None:
    world.put(0, 2, 1)
    world.state = world.state._replace(amount=world.state.amount.at[world.thing(2, 2), 0].set(1))
    world.act("move_east")
    world.act("move_east")
    assert (world.place(), world.held()["carbon"]) == ((2, 2), 1)


def test_aligning_takes_a_heart_and_keeps_influence(world: World) -> None:
    world.give(aligner=1, heart=1, influence=5, hp=100)
    outcome = world.act("move_east")
    assert world.owner(1, 2) == "cogs"
    # −1 by the tick, then the new junction's own area gives 10.
    assert world.held() == {"energy": 20, "hp": 100, "influence": 14, "solar": 3, "aligner": 1}
    np.testing.assert_allclose(outcome.reward[:, 0], [1 / 1000], rtol=1e-6)
    assert world.act("move_east").success[0, 0]  # now it takes deposits


@pytest.mark.parametrize("lacking", ["aligner", "heart", "influence"])
def test_aligning_needs_all_three(lacking: str, world: World) -> None:
    world.give(**({"aligner": 1, "heart": 1, "influence": 5} | {lacking: 0}))
    assert not bool(world.act("move_east").success[0, 0])
    assert world.owner(1, 2) is None


def test_scrambling_makes_an_enemy_junction_neutral(world: World) -> None:
    world.own(1, 2, CLIPS)
    world.give(scrambler=1, heart=1)
    world.act("move_east")
    assert world.owner(1, 2) is None
    assert "heart" not in world.held()
    stats = world.state.stats
    assert (int(stats.scrambled[0, 0]), int(stats.aligned[0, 0])) == (1, 0)


def test_deposits_go_to_the_teams_store(world: World) -> None:
    world.put(0, 2, 21)
    world.give(oxygen=2, silicon=1)
    world.act("move_north")
    assert world.store() == [12, 10, 10, 11, 5]
    assert "oxygen" not in world.held()
    assert int(world.state.stats.deposited[0, 0, 0]) == 2


def test_hearts_are_taken_and_then_made(world: World) -> None:
    world.put(0, 4, 21)
    world.act("noop")  # healed: hearts need hp
    for hearts in range(1, 6):
        assert bool(world.act("move_north").success[0, 0])
        assert world.held()["heart"] == hearts
    assert world.store() == [10, 10, 10, 10, 0]
    assert bool(world.act("move_north").success[0, 0])
    assert (world.store(), world.held()["heart"]) == ([0, 0, 0, 0, 0], 6)
    assert not bool(world.act("move_north").success[0, 0])


def test_gear_is_paid_and_replaces_gear(world: World) -> None:
    world.put(0, 4, 21)
    world.act("noop")
    world.act("move_south")  # scout: carbon 1, oxygen 1, germanium 1, silicon 3
    assert (world.held()["scout"], world.store()) == (1, [9, 9, 9, 7, 5])
    assert world.held()["energy"] == 100
    world.act("move_south")  # kept, for four energy, which the hub gives back
    assert world.store() == [9, 9, 9, 7, 5]
    world.put(0, 4, 20)
    world.act("move_south")  # miner: germanium 3
    assert ({"miner", "scout"} & set(world.held()), world.store()) == ({"miner"}, [8, 8, 6, 6, 5])
    assert world.held()["energy"] == 20


def test_vibes_cost_nothing(world: World) -> None:
    world.act("noop")
    world.act("change_vibe_scout")
    assert (int(world.state.vibe[0, 0]), world.held()["energy"]) == (6, 20)
    assert int(world.state.last_action[0, 0]) == 11


def test_walking_into_a_cog_fails(make_world: type[World]) -> None:
    world = make_world(Rules(teams=(Team(size=2),), clips=Clips(enabled=False)))
    outcome = world.act("move_south", "noop")
    assert [bool(x) for x in outcome.success[:, 0]] == [False, True]


def test_the_order_of_agents_is_random(make_world: type[World]) -> None:
    """Two cogs reach for one cell; each gets it sometimes."""
    winners = set()
    world = make_world(Rules(teams=(Team(size=2),), clips=Clips(enabled=False)))
    for _ in range(12):
        world.put(0, 4, 5)
        world.put(1, 4, 7)
        outcome = world.act("move_east", "move_west")
        assert sum(bool(x) for x in outcome.success[:, 0]) == 1
        winners.add(bool(outcome.success[0, 0]))
        world.give(0, energy=20)
        world.give(1, energy=20)
    assert winners == {True, False}


def test_the_end_terminates_or_truncates(make_world: type[World]) -> None:
    for truncates in (False, True):
        world = make_world(Rules(teams=(Team(size=1),), clips=Clips(enabled=False), max_steps=2, truncates=truncates))
        first, last = world.act("noop"), world.act("noop")
        assert not bool(first.terminated[0] | first.truncated[0])
        assert (bool(last.terminated[0]), bool(last.truncated[0])) == (not truncates, truncates)


def test_two_teams_have_stores_and_junctions_of_their_own(make_world: type[World]) -> None:
    text = """
    #########################################
    #H@.......................J...........@H#
    #=.....................................=#
    #########################################
    """.replace("    ", "")
    world = make_world(Rules(teams=(Team("red", 1), Team("blue", 1)), clips=Clips(enabled=False)), text)
    world.own(1, 26, FIRST_TEAM)
    outcome: Any = None
    for _ in range(2):
        outcome = world.act("move_west", "move_east")  # each deposits at its hub
    np.testing.assert_allclose(outcome.reward[:, 0], [1 / 1000, 0], rtol=1e-6)
    assert [bool(x) for x in outcome.success[:, 0]] == [True, True]
    assert world.owner(1, 1) == "red"
    assert world.owner(1, 39) == "blue"
    world.put(0, 2, 38)
    assert not bool(world.act("move_east", "noop").success[0, 0])  # the other team's chest
    # The enemy's hub is within ten cells: −1 hp for it, −1 for the tick.
    assert world.held(0)["hp"] == 100 - 2
