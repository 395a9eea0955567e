"""A map as one big whole number: bit `row · SIZE + column` is a cell. Sets of cells grow by shifts, all cells at once.

The map is drawn around the hub, which stands at `CENTRE`; `words.py` is the same in JAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

SIZE = 128  # the largest site is 98 wide with the hub in its middle
CENTRE = SIZE // 2
CELLS = SIZE * SIZE
NOWHERE = -1
FULL = (1 << CELLS) - 1
ROW = (1 << SIZE) - 1


@cache
def columns(first: int, last: int) -> int:
    """All cells of the columns from `first` up to but not including `last`."""
    row = ((1 << last) - 1) & ~((1 << first) - 1)
    return sum(row << (SIZE * i) for i in range(SIZE))


def cell(row: int, column: int) -> int:
    """The number of a cell, NOWHERE outside the map."""
    return row * SIZE + column if 0 <= row < SIZE and 0 <= column < SIZE else NOWHERE


def bit(index: int) -> int:
    """The set of one cell, empty for NOWHERE."""
    return 1 << index if index >= 0 else 0


def east(board: int, by: int = 1) -> int:
    """Every cell moved east; what leaves the map is lost."""
    return (board & columns(0, SIZE - by)) << by


def west(board: int, by: int = 1) -> int:
    """Every cell moved west."""
    return (board & columns(by, SIZE)) >> by


def south(board: int, by: int = 1) -> int:
    """Every cell moved south."""
    return (board << (SIZE * by)) & FULL


def north(board: int, by: int = 1) -> int:
    """Every cell moved north."""
    return board >> (SIZE * by)


def spread(board: int) -> int:
    """The board with the four neighbours of its cells."""
    return board | east(board) | west(board) | south(board) | north(board)


def square(board: int, radius: int) -> int:
    """All cells within a Chebyshev distance."""
    done = 0
    while done < radius:  # 1, 2, 4 … : as many shifts as the radius has digits
        by = min(done + 1, radius - done)
        board |= east(board, by) | west(board, by)
        board |= south(board, by) | north(board, by)
        done += by
    return board


def lowest(board: int) -> int:
    """The first cell of a board, NOWHERE if it is empty."""
    return (board & -board).bit_length() - 1


def cells(board: int) -> Iterator[int]:
    """The cells of a board in order."""
    while board:
        yield lowest(board)
        board &= board - 1


def grow(board: int, passable: int, steps: int) -> int:
    """All cells within some steps of a board, on passable ground."""
    for _ in range(steps):
        new = board | (spread(board) & passable)
        if new == board:
            break
        board = new
    return board


def nearest(start: int, wanted: int, otherwise: int, passable: int) -> tuple[int, bool]:
    """The wanted cell that is fewest steps away and whether there is one; else the nearest of `otherwise`.

    A goal need not be passable: it is touched from a passable cell. Of equals the first counts.
    """
    reached, second = 1 << start, NOWHERE
    while True:
        edge = spread(reached)
        if edge & wanted:
            return lowest(edge & wanted), True
        if second == NOWHERE and edge & otherwise:
            second = lowest(edge & otherwise)
        new = reached | (edge & passable)
        if new == reached or (second != NOWHERE and not wanted):
            return second, False
        reached = new


def towards(start: int, goal: int, passable: int) -> int:
    """The neighbours of `start` that lie on a shortest path to `goal`; none if no path leads there."""
    around = spread(1 << start) & ~(1 << start)
    reached = 1 << goal
    while not reached & around:
        new = reached | (spread(reached) & passable)
        if new == reached:
            return 0
        reached = new
    return reached & around
