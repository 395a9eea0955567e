"""What stands on a map: junctions and extractors strewn over it, and the compound of each team's hub."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.maps.grid import Cell, Codes
from rewardlab.cogs.maps.terrain import Rng
from rewardlab.cogs.rules import CODE, STATIONS

HUB = 21  # the compound's width and height, walls included
CLEARANCE = 3  # free cells around it
GATE = 2  # cells on either side of a gate's middle
CORNERS = tuple(f"{element}_extractor" for element in ("carbon", "oxygen", "germanium", "silicon"))
# From the hub: rows down, columns right. Twenty pads, as measured in the original.
PADS: tuple[Cell, ...] = (
    *((-2, 0), (0, 2), (2, 0), (0, -2)),
    *((0, 3), (0, -3), (3, 3), (-3, 3), (3, -3), (-3, -3)),
    *((0, 4), (0, -4), (4, 0), (-4, 0), (4, 4), (-4, 4), (4, -4), (-4, -4)),
    *((0, 5), (0, -5)),
)


def strew(codes: Codes, coverage: float, weights: Mapping[str, float], rng: Rng) -> None:
    """Buildings on free 3×3 places, none next to another: `coverage` of the inner cells is how many are tried."""
    height, width = codes.shape
    tries = int(coverage * (height - 2) * (width - 2))
    rows, cols = rng.integers(1, height - 1, tries), rng.integers(1, width - 1, tries)
    odds = np.array(list(weights.values()))
    kinds = rng.choice([CODE[name] for name in weights], size=tries, p=odds / odds.sum())
    taken = np.zeros(codes.shape, bool)
    for row, col, kind in zip(rows.tolist(), cols.tolist(), kinds.tolist(), strict=True):
        if taken[row, col]:
            continue
        around = (slice(row - 1, row + 2), slice(col - 1, col + 2))
        codes[around] = CODE["empty"]
        codes[row, col] = kind
        taken[around] = True


def hub_centres(height: int, width: int, hubs: int) -> list[Cell]:
    """One in the middle; several in the middles of the map's halves or quarters."""
    if hubs == 1:
        return [((height - HUB) // 2 + HUB // 2, (width - HUB) // 2 + HUB // 2)]
    down = math.ceil(hubs / 2)
    rows = [(2 * i + 1) * height // (2 * down) for i in range(down)]
    return [(row, (2 * i + 1) * width // 4) for row in rows for i in range(2)][:hubs]


def place_hub(codes: Codes, row: int, col: int) -> list[Cell]:
    """A walled compound with four gates: hub in the middle, junction above, chest and stations below, an extractor of
    each element in the corners. Gives its spawn pads."""
    half = HUB // 2
    top, left = max(0, row - half), max(0, col - half)
    bottom, right = min(codes.shape[0], row + half + 1), min(codes.shape[1], col + half + 1)
    _clear(codes, top - CLEARANCE, left - CLEARANCE, bottom + CLEARANCE, right + CLEARANCE)
    codes[[top, bottom - 1], left:right] = CODE["wall"]
    codes[top:bottom, [left, right - 1]] = CODE["wall"]
    codes[[top, bottom - 1], col - GATE : col + GATE + 1] = CODE["empty"]
    codes[row - GATE : row + GATE + 1, [left, right - 1]] = CODE["empty"]
    codes[row, col] = CODE["c:hub"]
    codes[row - 3, col], codes[row + 3, col] = CODE["junction"], CODE["c:chest"]
    for i, station in enumerate(STATIONS):
        codes[row + 5, col - 3 + 2 * i] = CODE[station]
    corners = [(r, c) for r in (top + 2, bottom - 3) for c in (left + 2, right - 3)]
    for corner, extractor in zip(corners, CORNERS, strict=True):
        codes[corner] = CODE[extractor]
    return [(row + down, col + across) for down, across in PADS]


def _clear(codes: NDArray[np.uint8], top: int, left: int, bottom: int, right: int) -> None:
    codes[max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = CODE["empty"]
