"""Boards, as whole numbers and as words, against sets of places and a plain breadth-first search."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from tests.cogs.policies.boards import Place, board_of, distances, grounds, neighbours, number_of, words_of

from rewardlab.cogs.policies import bitboard, words
from rewardlab.cogs.policies.bitboard import NOWHERE, SIZE
from rewardlab.cogs.policies.mind import STEPS

Ground = tuple[int, set[Place], set[Place], Place]
SEARCH = jax.jit(words.nearest)
TOWARDS = jax.jit(words.towards, static_argnames="steps")


def index(place: Place) -> int:
    return place[0] * SIZE + place[1]


def place(cell: int) -> Place:
    return divmod(cell, SIZE)


@pytest.mark.parametrize(
    ("move", "rows", "columns"), [("north", -1, 0), ("south", 1, 0), ("west", 0, -1), ("east", 0, 1)]
)
@pytest.mark.parametrize("by", [1, 3])
def test_what_moves_over_the_edge_is_lost(move: str, rows: int, columns: int, by: int) -> None:
    places = {(0, 0), (0, SIZE - 1), (SIZE - 1, 0), (SIZE - 1, SIZE - 1), (5, 31), (5, 32), (64, 63)}
    moved = {(r + by * rows, c + by * columns) for r, c in places}
    expected = board_of((r, c) for r, c in moved if 0 <= r < SIZE and 0 <= c < SIZE)
    assert getattr(bitboard, move)(board_of(places), by) == expected
    assert number_of(getattr(words, move)(words_of(board_of(places)), by)) == expected


@pytest.mark.parametrize("radius", [0, 1, 4, 5, 10])
def test_a_square_reaches_as_far_on_every_side(radius: int) -> None:
    places = [(3, 2), (60, 30), (127, 127)]
    expected = board_of(
        (r, c)
        for r in range(SIZE)
        for c in range(SIZE)
        if any(max(abs(r - row), abs(c - column)) <= radius for row, column in places)
    )
    assert bitboard.square(board_of(places), radius) == expected
    assert number_of(words.square(words_of(board_of(places)), radius)) == expected


@pytest.mark.parametrize("cells", [[], [0], [31], [32], [SIZE * SIZE - 1], [700, 33, 900]])
def test_the_first_cell_and_the_count(cells: list[int]) -> None:
    board = sum(1 << cell for cell in cells)
    lowest = min(cells, default=NOWHERE)
    assert bitboard.lowest(board) == lowest == int(words.lowest(words_of(board)))
    assert int(words.count(words_of(board))) == len(cells)
    assert list(bitboard.cells(board)) == sorted(cells)
    assert bool(words.some(words_of(board))) == bool(cells)
    for cell in (NOWHERE, 0, 31, 33):
        assert bool(words.test(words_of(board)[None], jnp.asarray([cell]))[0]) == bool(bitboard.bit(cell) & board)
        assert number_of(words.bit(jnp.asarray(cell))) == bitboard.bit(cell)


@given(grounds())
@settings(max_examples=60, deadline=None)
def test_the_nearest_goal_is_nearest(ground: Ground) -> None:
    _, passable, goals, start = ground
    known = distances(start, passable)
    within = {goal: known[goal] for goal in goals if goal in known}
    cell, found = bitboard.nearest(index(start), board_of(goals), 0, board_of(passable))
    assert found == bool(within)
    if within and start not in goals:
        assert place(cell) in goals
        assert known[place(cell)] == min(within.values())
    lanes = [words_of(board)[None] for board in (board_of(goals), 0, board_of(passable))]
    there, seen = SEARCH(jnp.asarray([index(start)]), *lanes, jnp.asarray([True]))
    assert (int(there[0]), bool(seen[0])) == (cell, found)


@given(grounds())
@settings(max_examples=60, deadline=None)
def test_every_step_towards_a_goal_is_on_a_shortest_path(ground: Ground) -> None:
    _, passable, goals, start = ground
    for goal in sorted(goals - {start}):
        known = distances(goal, passable)
        around = {other: known[other] for other in neighbours(start) if other in known and other in passable | {goal}}
        expected = board_of(other for other, steps in around.items() if steps == min(around.values()))
        assert bitboard.towards(index(start), index(goal), board_of(passable)) == expected
        options = TOWARDS(
            jnp.asarray([index(start)]),
            jnp.asarray([index(goal)]),
            words_of(board_of(passable))[None],
            jnp.asarray([True]),
            steps=STEPS,
        )
        cells = [index(start) + step for step, chosen in zip(STEPS, np.asarray(options[0]), strict=True) if chosen]
        assert sum(1 << cell for cell in cells) == expected


def test_what_is_wanted_beats_what_is_nearer() -> None:
    """A corridor: the second choice stands next to the start, the goal at its end."""
    corridor = board_of((5, column) for column in range(2, 20))
    goal, second = index((5, 19)), index((5, 3))
    assert bitboard.nearest(index((5, 2)), 1 << goal, 1 << second, corridor) == (goal, True)
    assert bitboard.nearest(index((5, 2)), 0, 1 << second, corridor) == (second, False)
    cut = corridor & ~board_of([(5, 10)])
    assert bitboard.nearest(index((5, 2)), 1 << goal, 1 << second, cut) == (second, False)
    boards = [[words_of(b) for b in lane] for lane in ((1 << goal, 1 << second, cut), (0, 1 << second, corridor))]
    lanes = [jnp.stack(column) for column in zip(*boards, strict=True)]
    cells, found = SEARCH(jnp.full(2, index((5, 2))), *lanes, jnp.asarray([True, False]))
    assert cells.tolist() == [second, NOWHERE]  # a lane that does not search finds nothing
    assert found.tolist() == [False, False]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_growth_stays_on_the_ground(steps: int) -> None:
    passable = board_of((9, column) for column in range(40))
    start = board_of([(9, 30)])
    expected = board_of((9, column) for column in range(30 - steps, 31 + steps))
    assert bitboard.grow(start, passable, steps) == expected
    grown: Callable[..., words.Board] = words.grow
    assert number_of(grown(words_of(start), words_of(passable), jnp.asarray(steps), 5)) == expected
