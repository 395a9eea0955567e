"""Every free cell reachable from every other: tunnels are dug where walls are thinnest."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.maps.grid import Cell, Codes
from rewardlab.cogs.rules import CODE

WALL_COST = 6  # digging one cell, in steps of walking
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def components(free: NDArray[np.bool_]) -> list[list[Cell]]:
    """The connected parts of the free cells, the largest first."""
    left = {(int(row), int(col)) for row, col in np.argwhere(free)}
    parts = []
    while left:
        stack = [left.pop()]
        part = []
        while stack:
            row, col = stack.pop()
            part.append((row, col))
            near = {(row + dr, col + dc) for dr, dc in STEPS} & left
            left -= near
            stack += near
        parts.append(part)
    return sorted(parts, key=lambda part: (-len(part), min(part)))


def connect(codes: Codes) -> None:
    """Dig from each part to the largest along the cheapest way; objects stay where they are."""
    parts = components(codes == CODE["empty"])
    if len(parts) < 2:
        return
    back = _ways(codes, parts[0])
    for part in parts[1:]:
        cost, cell = min((back[cell][0], cell) for cell in part if cell in back)
        while cost > 0:
            if codes[cell] == CODE["wall"]:
                codes[cell] = CODE["empty"]
            cell = back[cell][1]
            cost = back[cell][0]


def _ways(codes: Codes, start: list[Cell]) -> dict[Cell, tuple[int, Cell]]:
    """Cheapest cost from a part to every cell that walking and digging reaches, and the cell before it (Dijkstra)."""
    found = {cell: (0, cell) for cell in start}
    heap = [(0, cell) for cell in sorted(start)]
    prices = {CODE["empty"]: 1, CODE["wall"]: WALL_COST}
    height, width = codes.shape
    while heap:
        cost, (row, col) = heapq.heappop(heap)
        if cost > found[row, col][0]:
            continue
        for dr, dc in STEPS:
            cell = row + dr, col + dc
            if not (0 <= cell[0] < height and 0 <= cell[1] < width):
                continue
            price = prices.get(int(codes[cell]))
            if price is None:
                continue
            if cell not in found or cost + price < found[cell][0]:
                found[cell] = cost + price, (row, col)
                heapq.heappush(heap, (cost + price, cell))
    return found
