"""A map: walls, objects and spawn pads; in and out of ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.rules import CODE, KINDS

Codes = NDArray[np.uint8]
Cell = tuple[int, int]

SYMBOLS = {
    **{"empty": ".", "wall": "#", "junction": "J", "c:hub": "H", "c:chest": "="},
    **{"c:aligner": "A", "c:scrambler": "R", "c:miner": "M", "c:scout": "T"},
    **{f"{element}_extractor": element[0].upper() for element in ("carbon", "oxygen", "germanium", "silicon")},
}
PAD = "@"
KIND_OF = {symbol: kind for kind, symbol in SYMBOLS.items()} | {" ": "empty"}


@dataclass(frozen=True)
class Thing:
    """An object on the map."""

    kind: str
    row: int
    col: int


@dataclass(frozen=True, eq=False)
class GameMap:
    """Codes of kinds per cell (`rules.KINDS`), and the cells where agents may start, row by row.

    With several hubs, everything belongs to the team of the nearest hub (hubs are numbered row by row).
    """

    codes: Codes
    pads: tuple[Cell, ...]

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.codes.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.codes.shape[1])

    def things(self) -> tuple[Thing, ...]:
        """Every object that is not a wall, row by row."""
        rows, cols = np.nonzero(self.codes > CODE["wall"])
        return tuple(Thing(KINDS[self.codes[r, c]], r, c) for r, c in zip(rows.tolist(), cols.tolist(), strict=True))

    def hubs(self) -> tuple[Cell, ...]:
        """The hubs' cells, row by row."""
        rows, cols = np.nonzero(self.codes == CODE["c:hub"])
        return tuple(zip(rows.tolist(), cols.tolist(), strict=True))

    def team_at(self, row: int, col: int) -> int:
        """The team whose hub is nearest (Chebyshev; the first of equals)."""
        hubs = self.hubs()
        if not hubs:
            raise CogsError("The map has no hub 'H'.")
        return min(range(len(hubs)), key=lambda i: max(abs(hubs[i][0] - row), abs(hubs[i][1] - col)))

    def counts(self) -> dict[str, int]:
        """How many objects of each kind there are."""
        return {kind: int(np.sum(self.codes == code)) for kind, code in CODE.items() if kind != "empty"}

    def to_ascii(self) -> str:
        """One symbol per cell."""
        lines = [[SYMBOLS[KINDS[code]] for code in row] for row in self.codes.tolist()]
        for row, col in self.pads:
            lines[row][col] = PAD
        return "\n".join("".join(line) for line in lines) + "\n"


def from_ascii(text: str) -> GameMap:
    """A map from one symbol per cell: `#` wall, `.` floor, `@` spawn pad, `J` junction, `H` hub, `=` chest, `ARMT`
    stations of aligner, scrambler, miner and scout, `COGS` extractors. A missing outer wall is added."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    width = max((len(line) for line in lines), default=0)
    codes = np.full((len(lines), width), CODE["wall"], np.uint8)
    pads: list[Cell] = []
    for row, line in enumerate(lines):
        for col, symbol in enumerate(line):
            if symbol != PAD and symbol not in KIND_OF:
                known = "".join([*SYMBOLS.values(), PAD])
                raise CogsError(f"Line {row + 1} of the map has {symbol!r} in column {col + 1}; known are {known}")
            codes[row, col] = 0 if symbol == PAD else CODE[KIND_OF[symbol]]
            if symbol == PAD:
                pads.append((row, col))
    return enclosed(codes, pads)


def enclosed(codes: Codes, pads: Sequence[Cell]) -> GameMap:
    """The map, with an outer wall if an edge is open: nobody can walk off the grid."""
    if not pads:
        raise CogsError("The map has no spawn pad '@'.")
    edge: list[Any] = [codes[0], codes[-1], codes[:, 0], codes[:, -1]]
    if all((side == CODE["wall"]).all() for side in edge):
        return GameMap(codes, tuple(pads))
    return GameMap(np.pad(codes, 1, constant_values=CODE["wall"]), tuple((row + 1, col + 1) for row, col in pads))
