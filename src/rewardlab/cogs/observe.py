"""What a word of the grid says about a cell, and what agents see: the contract of an observation, and that of none."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32
from numpy.typing import NDArray

from rewardlab.cogs.rules import CODE, EXTRACTORS, FIRST_AGENT, Rules
from rewardlab.cogs.state import State

EXTRACTOR_CODES = tuple(CODE[name] for name in EXTRACTORS)


class Observation(Protocol):
    """How the grid is written, so that agents' windows can be read off it fast. The low byte of the first plane is the
    code of what stands on the cell."""

    planes: int

    def object_word(self, kind: Array, owner: Array, amount: Array, index: Array) -> UInt32[Array, ...]:
        """The word, in the first plane, of an object; an exhausted extractor leaves an empty cell."""
        ...

    def wall_word(self) -> int:
        """The word of a wall in the first plane."""
        ...

    def agent_words(self, state: State) -> tuple[UInt32[Array, "A E"], ...]:
        """The words of agents, one array per plane."""
        ...

    def observe(self, state: State) -> tuple[Any, Int[Array, "A E"] | None]:
        """What every agent sees, environments first: arrays [E, A, …]; and how many tokens an observation would take
        without a limit (None where there are no tokens)."""
        ...


def is_extractor(kind: Array) -> Array:
    """Whether a kind is one of the four extractors, whose codes are neighbours."""
    return (kind >= EXTRACTOR_CODES[0]) & (kind <= EXTRACTOR_CODES[-1])


def present(kind: Array, amount: Array) -> Array:
    """Whether an object is still there."""
    return (kind > CODE["wall"]) & (~is_extractor(kind) | (amount > 0))


def agent_codes(state: State) -> UInt32[Array, "A E"]:
    """The code of each agent."""
    codes = jnp.arange(FIRST_AGENT, FIRST_AGENT + state.cell.shape[0], dtype=jnp.uint32)
    return jnp.broadcast_to(codes[:, None], state.cell.shape)


class Blind:
    """No observation: for rules alone, and for policies that look at the state."""

    planes = 1

    def __init__(self, rules: Rules, layout: Any) -> None:
        self.rules = rules

    def object_word(self, kind: Array, owner: Array, amount: Array, index: Array) -> UInt32[Array, ...]:
        """The code alone."""
        return jnp.where(present(kind, amount), kind, 0).astype(jnp.uint32)

    def wall_word(self) -> int:
        """The code alone."""
        return CODE["wall"]

    def agent_words(self, state: State) -> tuple[UInt32[Array, "A E"], ...]:
        """The code alone."""
        return (agent_codes(state),)

    def observe(self, state: State) -> tuple[None, None]:
        """Nothing."""
        return None, None


@cache
def window_cells(window: int) -> NDArray[np.int32]:
    """The cells of a window as (row, column) offsets: by Manhattan distance, then row, then column."""
    half = window // 2
    reach = range(-half, half + 1)
    cells = [(row, col) for row in reach for col in reach]
    return np.asarray(sorted(cells, key=lambda cell: (abs(cell[0]) + abs(cell[1]), cell)), np.int32)
