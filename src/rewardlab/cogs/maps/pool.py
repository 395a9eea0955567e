"""Maps of one size laid out as arrays, so that compiled episodes can start on any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.grid import Cell, GameMap
from rewardlab.cogs.rules import CODE, FIRST_TEAM, NEUTRAL, VOID, Rules

SOURCES = (CODE["junction"], CODE["c:hub"])  # objects with an area; they come first in the table of objects
OWNED = range(CODE["c:hub"], CODE["c:scout"] + 1)


class MapPool(NamedTuple):
    """M maps: the code of each cell, the index of the object on it (O where none is), and the table of O objects.

    Objects are numbered: hubs and junctions row by row (the first S), then the others row by row; shorter tables are
    filled up with objects of kind 0 that stand on cell 0, inside the wall.
    """

    codes: Int[Array, "M HW"]
    object_at: Int[Array, "M HW"]
    kind: Int[Array, "M O"]
    cell: Int[Array, "M O"]
    owner: Int[Array, "M O"]
    spawn: Int[Array, "M A"]


class Layout(NamedTuple):
    """The sizes that a compiled program depends on. The grid is padded by `margin` cells of nothing on each side where
    a window would else reach over its edge."""

    height: int
    width: int
    sources: int
    objects: int
    margin: int

    def number(self, row: int, col: int) -> int:
        """The number of a cell of the map in the padded grid."""
        return (row + self.margin) * self.width + col + self.margin

    def place(self, number: int) -> Cell:
        """The row and column on the map of a numbered cell."""
        return number // self.width - self.margin, number % self.width - self.margin


def make_pool(
    maps: Sequence[GameMap],
    rules: Rules,
    *,
    spawns: Sequence[Sequence[Cell]] | None = None,
    seed: int = 0,
    multiple: int = 1,
) -> tuple[MapPool, Layout]:
    """Stack maps of one size; where `spawns` does not say, agents start on pads drawn with `seed`, one draw per map.

    Tables are filled up to a `multiple`, so that maps with a few objects more or less share one compiled program.
    """
    shapes = {(game_map.height, game_map.width) for game_map in maps}
    if len(shapes) != 1:
        raise CogsError(f"Maps played together have one size, not {sorted(shapes)}.")
    sorted_things = [_sources_first(game_map) for game_map in maps]
    sources = _up(max(len(first) for first, _ in sorted_things), multiple)
    height, width = shapes.pop()
    margin = max(0, rules.window // 2 - min(_edge(game_map) for game_map in maps))
    objects = sources + _up(max(len(rest) for _, rest in sorted_things), multiple)
    layout = Layout(height + 2 * margin, width + 2 * margin, sources, objects, margin)
    columns = []
    for i, (game_map, (first, rest)) in enumerate(zip(maps, sorted_things, strict=True)):
        start = spawns[i] if spawns is not None else choose_spawns(game_map, rules, np.random.default_rng((seed, i)))
        columns.append(_one_map(game_map, rules, layout, first, rest, start))
    stacked = [jnp.asarray(np.stack(column)) for column in zip(*columns, strict=True)]
    return MapPool(*stacked), layout


def choose_spawns(game_map: GameMap, rules: Rules, rng: np.random.Generator) -> list[Cell]:
    """For each team as many of its pads as it has agents, in row order: ids follow the rows, as in the original."""
    hubs = len(game_map.hubs())
    if hubs < len(rules.teams):
        raise CogsError(f"The map has {hubs} hubs for {len(rules.teams)} teams.")
    chosen: list[Cell] = []
    for i, team in enumerate(rules.teams):
        pads = [pad for pad in game_map.pads if game_map.team_at(*pad) == i]
        if len(pads) < team.size:
            raise CogsError(f"The map has {len(pads)} spawn pads for the {team.size} cogs of team '{team.name}'.")
        chosen += [pads[j] for j in sorted(rng.permutation(len(pads))[: team.size].tolist())]
    return chosen


def _sources_first(game_map: GameMap) -> tuple[list[Cell], list[Cell]]:
    things = [(thing.row, thing.col) for thing in game_map.things()]
    first = [cell for cell in things if game_map.codes[cell] in SOURCES]
    return first, [cell for cell in things if game_map.codes[cell] not in SOURCES]


def _up(size: int, multiple: int) -> int:
    return max(1, -(-size // multiple)) * multiple


def _edge(game_map: GameMap) -> int:
    """How far from the grid's edge the nearest cell is that is not a wall."""
    rows, cols = np.nonzero(game_map.codes != CODE["wall"])
    sides = rows.min(), cols.min(), game_map.height - 1 - rows.max(), game_map.width - 1 - cols.max()
    return int(min(sides))


def _one_map(
    game_map: GameMap, rules: Rules, layout: Layout, first: list[Cell], rest: list[Cell], start: Sequence[Cell]
) -> list[NDArray[np.int32]]:
    """The rows of one map in the order of `MapPool`."""
    kind, cell, owner = (np.zeros(layout.objects, np.int32) for _ in range(3))
    object_at = np.full(layout.height * layout.width, layout.objects, np.int32)
    for i, (row, col) in [*enumerate(first), *enumerate(rest, layout.sources)]:
        kind[i], cell[i] = game_map.codes[row, col], layout.number(row, col)
        object_at[cell[i]] = i
        if kind[i] in OWNED:
            team = game_map.team_at(row, col)
            owner[i] = FIRST_TEAM + team if team < len(rules.teams) else NEUTRAL
    spawn = np.asarray([layout.number(row, col) for row, col in start], np.int32)
    codes = np.pad(game_map.codes, layout.margin, constant_values=VOID).reshape(-1).astype(np.int32)
    return [codes, object_at, kind, cell, owner, spawn]
