"""Maps: ASCII both ways, seeds, what a generated map must have, the original's statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.cogs.conform import read_trace, recorded_map
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.buildings import CLEARANCE, HUB, PADS
from rewardlab.cogs.maps.connect import components, connect
from rewardlab.cogs.maps.generate import ARENA, MACHINA_1, MapSpec, generate
from rewardlab.cogs.maps.grid import from_ascii
from rewardlab.cogs.maps.pool import choose_spawns, make_pool
from rewardlab.cogs.maps.zones import split
from rewardlab.cogs.rules import CODE, EXTRACTORS, STATIONS, Rules, Team

GOLDEN = Path(__file__).parents[1] / "golden" / "cogs"


def test_ascii_both_ways() -> None:
    text = "######\n#@J.H#\n#=ARM#\n#TCOG#\n#S..@#\n######\n"
    game_map = from_ascii(text)
    assert game_map.to_ascii() == text
    assert game_map.pads == ((1, 1), (4, 4))
    assert [thing.kind for thing in game_map.things()][:3] == ["junction", "c:hub", "c:chest"]


def test_an_open_edge_gets_a_wall() -> None:
    game_map = from_ascii("@H\n..\n")
    assert game_map.to_ascii() == "####\n#@H#\n#..#\n####\n"


@pytest.mark.parametrize(("text", "says"), [("#?@H#", "line|Line 1"), ("#H.#", "no spawn pad"), ("", "no spawn pad")])
def test_bad_maps_are_sentences(text: str, says: str) -> None:
    with pytest.raises(CogsError, match=says):
        from_ascii(text)


def test_a_map_without_a_hub_cannot_be_played() -> None:
    with pytest.raises(CogsError, match="0 hubs for 1 team"):
        choose_spawns(from_ascii("@.."), Rules(), np.random.default_rng(0))


@given(seed=st.integers(0, 2**32 - 1), large=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_generated_map_can_be_played(seed: int, large: bool) -> None:
    spec = MACHINA_1 if large else ARENA
    game_map = generate(spec, seed)
    assert (game_map.height, game_map.width) == (spec.height + 10, spec.width + 10)
    assert (game_map.codes[:5] == CODE["wall"]).all()
    counts = game_map.counts()
    assert all(counts[kind] == 1 for kind in ("c:hub", "c:chest", *STATIONS))
    assert len(game_map.pads) == len(PADS) == 20
    free = game_map.codes == CODE["empty"]
    assert len(components(free)) == 1  # everything free is reachable …
    for thing in game_map.things():  # … and every object has a free neighbour
        assert free[thing.row - 1 : thing.row + 2, thing.col - 1 : thing.col + 2].any()
    (row, col) = game_map.hubs()[0]
    ring = game_map.codes[row - 13 : row + 14, col - 13 : col + 14].copy()
    assert CLEARANCE == 3
    ring[3:-3, 3:-3] = CODE["empty"]
    assert (ring == CODE["empty"]).all()
    wall = game_map.codes[row - 10 : row + 11, col - 10 : col + 11] == CODE["wall"]
    assert wall.sum() == 4 * (HUB - 1) - 4 * 5


def test_a_seed_is_a_map_for_ever() -> None:
    assert generate(ARENA, 7).to_ascii() == generate(ARENA, 7).to_ascii()
    assert generate(ARENA, 7).to_ascii() != generate(ARENA, 8).to_ascii()


@pytest.mark.parametrize(("site", "spec", "slack"), [("arena", ARENA, 0.12), ("machina_1", MACHINA_1, 0.1)])
def test_generated_maps_count_as_the_recorded_ones(site: str, spec: MapSpec, slack: float) -> None:
    key = 60 if site == "arena" else 98
    files = sorted(GOLDEN.glob("*.json.gz"))
    recorded = [recorded_map(trace)[0] for trace in map(read_trace, files) if trace["grid"]["height"] == key]
    ours = [generate(spec, seed) for seed in range(24)]
    for kinds in (("junction",), EXTRACTORS, ("wall",)):
        border = 4 * 5 * (key - 5) if kinds == ("wall",) else 0
        means = [np.mean([sum(m.counts()[k] for k in kinds) - border for m in maps]) for maps in (ours, recorded)]
        assert abs(means[0] - means[1]) < slack * means[1], (kinds, means)


def test_zones_cover_the_map() -> None:
    zones = split(50, 40, 6, np.random.default_rng(1))
    assert sum(zone.height * zone.width for zone in zones) == 2000


def test_tunnels_join_what_is_apart() -> None:
    codes = np.ones((5, 9), np.uint8)
    codes[2, 1] = codes[2, 7] = CODE["empty"]
    codes[2, 4] = CODE["junction"]  # tunnels go around objects
    connect(codes)
    assert len(components(codes == CODE["empty"])) == 1
    assert codes[2, 4] == CODE["junction"]


def test_several_hubs_and_their_pads() -> None:
    rules = Rules(teams=tuple(Team(f"t{i}", 5) for i in range(4)))
    game_map = generate(MapSpec(60, 60, hubs=4), 3)
    pool, layout = make_pool([game_map], rules)
    starts = [layout.place(int(cell)) for cell in pool.spawn[0]]
    assert [game_map.team_at(*start) for start in starts] == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5


def test_no_room_is_a_sentence() -> None:
    with pytest.raises(CogsError, match="no room for 1 hubs"):
        MapSpec(20, 20)
    with pytest.raises(CogsError, match="one size"):
        make_pool([generate(ARENA, 0), generate(MACHINA_1, 0)], Rules())
