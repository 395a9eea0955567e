"""A plain map and a plain search, to check the boards against."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from rewardlab.cogs.policies.bitboard import SIZE
from rewardlab.cogs.policies.words import SHAPE, Board

Place = tuple[int, int]
SIDE = 7  # tests draw in a corner of the map, away from or at its edge


def board_of(places: Iterable[Place]) -> int:
    """The board with these places."""
    return sum({1 << (row * SIZE + column) for row, column in places})


def words_of(board: int) -> Board:
    """The same board in JAX."""
    return jnp.asarray(np.frombuffer(board.to_bytes(SIZE * SIZE // 8, "little"), np.uint32).reshape(SHAPE))


def number_of(words: Board) -> int:
    """And back."""
    return int.from_bytes(np.asarray(words).astype("<u4").tobytes(), "little")


def neighbours(place: Place) -> list[Place]:
    row, column = place
    around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [(r, c) for r, c in around if 0 <= r < SIZE and 0 <= c < SIZE]


def distances(start: Place, passable: set[Place]) -> dict[Place, int]:
    """Steps from the start to every place that can be entered, or bumped from one that can."""
    found, queue = {start: 0}, deque([start])
    while queue:
        place = queue.popleft()
        if place != start and place not in passable:
            continue
        for other in neighbours(place):
            if other not in found:
                found[other] = found[place] + 1
                queue.append(other)
    return found


def places(corner: int) -> st.SearchStrategy[Place]:
    return st.tuples(st.integers(corner, corner + SIDE - 1), st.integers(corner, corner + SIDE - 1))


@st.composite
def grounds(draw: st.DrawFn) -> tuple[int, set[Place], set[Place], Place]:
    """A corner of the map, its passable places, some goals and a start."""
    corner = draw(st.sampled_from([0, 29, SIZE - SIDE]))  # both edges, and across the border of two words
    cells = [(corner + r, corner + c) for r in range(SIDE) for c in range(SIDE)]
    walls = draw(st.sets(st.sampled_from(cells), max_size=22))
    goals = draw(st.sets(st.sampled_from(cells), max_size=4))
    return corner, set(cells) - walls, goals, draw(st.sampled_from(cells))
