"""`bitboard.py` in JAX: boards are uint32 [..., SIZE, WORDS], bit `column % 32` of word `column // 32` is a cell.

Every function takes any leading axes. The two searches run all their lanes at once, until the last one has found.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from rewardlab.cogs.policies.bitboard import NOWHERE, SIZE

BITS = 32
WORDS = SIZE // BITS
SHAPE = (SIZE, WORDS)
Board = UInt32[Array, "... R W"]
Indices = Int[Array, " *lanes"]
Flags = Bool[Array, " *lanes"]


def empty(*leading: int) -> Board:
    """Boards without a cell."""
    return jnp.zeros((*leading, *SHAPE), jnp.uint32)


def east(board: Board, by: int = 1) -> Board:
    """Every cell moved east, by less than a word; what leaves the map is lost."""
    carried = jnp.concatenate([jnp.zeros_like(board[..., :1]), board[..., :-1]], -1)
    return board << by | carried >> (BITS - by)


def west(board: Board, by: int = 1) -> Board:
    """Every cell moved west."""
    carried = jnp.concatenate([board[..., 1:], jnp.zeros_like(board[..., :1])], -1)
    return board >> by | carried << (BITS - by)


def south(board: Board, by: int = 1) -> Board:
    """Every cell moved south."""
    return jnp.concatenate([jnp.zeros_like(board[..., :by, :]), board[..., :-by, :]], -2)


def north(board: Board, by: int = 1) -> Board:
    """Every cell moved north."""
    return jnp.concatenate([board[..., by:, :], jnp.zeros_like(board[..., :by, :])], -2)


def spread(board: Board) -> Board:
    """The board with the four neighbours of its cells."""
    return board | east(board) | west(board) | south(board) | north(board)


def square(board: Board, radius: int) -> Board:
    """All cells within a Chebyshev distance."""
    done = 0
    while done < radius:
        by = min(done + 1, radius - done)
        board = board | east(board, by) | west(board, by)
        board = board | south(board, by) | north(board, by)
        done += by
    return board


def bit(index: Indices) -> Board:
    """The set of one cell, empty for NOWHERE."""
    words = jnp.arange(SIZE * WORDS).reshape(SHAPE)
    here = (words == (index // BITS)[..., None, None]) & (index >= 0)[..., None, None]
    return jnp.where(here, jnp.uint32(1) << (index % BITS).astype(jnp.uint32)[..., None, None], jnp.uint32(0))


def test(board: Board, index: Indices) -> Flags:
    """Whether a cell is in the board of its lane; NOWHERE is in none."""
    flat = board.reshape(*board.shape[:-2], SIZE * WORDS)
    inside = (index >= 0) & (index < SIZE * SIZE)
    word = jnp.take_along_axis(flat, jnp.where(inside, index // BITS, 0)[..., None], -1)[..., 0]
    return inside & ((word >> (index % BITS).astype(jnp.uint32)) & 1 > 0)


def some(board: Board) -> Flags:
    """Whether there is a cell."""
    return (board != 0).any((-2, -1))


def count(board: Board) -> Indices:
    """How many cells there are."""
    return jax.lax.population_count(board).astype(jnp.int32).sum((-2, -1))


def lowest(board: Board) -> Indices:
    """The first cell, NOWHERE if there is none."""
    flat = board.reshape(*board.shape[:-2], SIZE * WORDS)
    place = jnp.argmax(flat != 0, -1)
    word = jnp.take_along_axis(flat, place[..., None], -1)[..., 0]
    low = jax.lax.population_count((word & (~word + 1)) - 1).astype(jnp.int32)
    return jnp.where(word != 0, place.astype(jnp.int32) * BITS + low, NOWHERE)


def union(boards: Board, chosen: Bool[Array, "... N"]) -> Board:
    """All cells of the chosen ones of N boards."""
    picked = jnp.where(chosen[..., None, None], boards, jnp.uint32(0))
    joined: Board = jax.lax.reduce(picked, jnp.uint32(0), jax.lax.bitwise_or, (picked.ndim - 3,))
    return joined


def grow(board: Board, passable: Board, steps: Indices, most: int) -> Board:
    """All cells within some steps of a board, on passable ground; `most` bounds the steps of all lanes."""

    def widen(i: Array, board: Board) -> Board:
        wider = board | (spread(board) & passable)
        return jnp.where((i < steps)[..., None, None], wider, board)

    grown: Board = jax.lax.fori_loop(0, most, widen, board)
    return grown


def nearest(
    start: Int[Array, " N"], wanted: Board, otherwise: Board, passable: Board, searching: Bool[Array, " N"]
) -> tuple[Int[Array, " N"], Bool[Array, " N"]]:
    """Per searching lane the nearest wanted cell and whether there is one; else the nearest of `otherwise`."""
    none = ~some(wanted)

    def widen(carry: tuple[Board, Board, Board, Array]) -> tuple[Board, Board, Board, Array]:
        reached, first, second, open_ = carry
        edge = spread(reached)
        looking = open_[:, None, None]
        first = jnp.where(looking, edge & wanted, first)
        second = jnp.where(looking & ~some(second)[:, None, None], edge & otherwise, second)
        new = jnp.where(looking, reached | (edge & passable), reached)
        over = some(first) | (some(second) & none) | ~some(new ^ reached)
        return new, first, second, open_ & ~over

    blank = jnp.zeros_like(wanted)
    _, first, second, _ = jax.lax.while_loop(lambda carry: carry[3].any(), widen, (bit(start), blank, blank, searching))
    found = some(first)
    return lowest(jnp.where(found[:, None, None], first, second)), found


def towards(
    start: Int[Array, " N"],
    goal: Int[Array, " N"],
    passable: Board,
    searching: Bool[Array, " N"],
    steps: tuple[int, ...],
) -> Bool[Array, "N 4"]:
    """Per searching lane, which neighbours (by the steps to them) lie on a shortest path to the goal."""
    around = start[:, None] + jnp.asarray(steps)

    def touched(reached: Board) -> Bool[Array, "N 4"]:
        return test(reached[:, None], around)

    def widen(carry: tuple[Board, Array]) -> tuple[Board, Array]:
        reached, open_ = carry
        new = jnp.where(open_[:, None, None], reached | (spread(reached) & passable), reached)
        return new, open_ & some(new ^ reached) & ~touched(new).any(-1)

    goals = bit(goal)
    opened = searching & ~touched(goals).any(-1)
    reached, _ = jax.lax.while_loop(lambda carry: carry[1].any(), widen, (goals, opened))
    return touched(reached) & searching[:, None]
