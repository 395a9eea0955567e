"""What a crew's map says, in words: for diagnostics, which compare it with the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.policies.api import Structures
from rewardlab.cogs.policies.bitboard import CELLS, CENTRE, SIZE
from rewardlab.cogs.policies.sight import PLANE, PLANES

THINGS = tuple(name for name in PLANES if name not in ("wall", "agent", "ours", "enemies"))


def of_boards(planes: Sequence[int]) -> Structures:
    """The structures on a map of big whole numbers."""
    rows = [np.frombuffer(board.to_bytes(CELLS // 8, "little"), np.uint8) for board in planes]
    return _structures(np.stack(rows))


def of_words(planes: NDArray[np.uint32]) -> Structures:
    """The structures on a map of words [P, R, W]."""
    return _structures(np.ascontiguousarray(planes).astype("<u4").view(np.uint8).reshape(len(planes), -1))


def _structures(packed: NDArray[np.uint8]) -> Structures:
    boards = np.unpackbits(packed, axis=1, bitorder="little").reshape(len(packed), SIZE, SIZE)
    found: Structures = {}
    for kind in THINGS:
        for row, column in np.argwhere(boards[PLANE[kind]]).tolist():
            ours, theirs = (boards[PLANE[name]][row, column] for name in ("ours", "enemies"))
            found[row - CENTRE, column - CENTRE] = kind, "own" if ours else "enemy" if theirs else None
    return found
