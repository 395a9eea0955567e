"""Walls: rocks of the plains, trees, dunes, blocks of houses, mazes, and the asteroid's rim. All draw into a view of
the map (True is wall)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Walls = NDArray[np.bool_]
Rng = np.random.Generator
Room = tuple[int, int]


def spread(mask: Walls) -> Walls:
    """The cells of a mask and their eight neighbours."""
    wide = np.pad(mask, 1)
    height, width = mask.shape
    wider: Walls = np.logical_or.reduce([wide[r : r + height, c : c + width] for r in range(3) for c in range(3)])
    return wider


def neighbours(mask: Walls) -> NDArray[np.int64]:
    """How many of a cell's eight neighbours are in a mask."""
    wide = np.pad(mask, 1).astype(np.int64)
    height, width = mask.shape
    around = [wide[r : r + height, c : c + width] for r in range(3) for c in range(3) if (r, c) != (1, 1)]
    count: NDArray[np.int64] = np.add.reduce(around)
    return count


def dither(walls: Walls, rng: Rng, chance: float = 0.15, depth: int = 5) -> None:
    """Flip cells near an edge between wall and floor, the nearer the likelier, so that shapes look grown."""
    height, width = walls.shape
    if height <= 2 * depth or width <= 2 * depth:
        return
    distance = np.full(walls.shape, depth + 1)
    to_wall, to_floor = walls.copy(), ~walls
    for step in range(1, depth + 1):
        to_wall, to_floor = spread(to_wall), spread(to_floor)
        opposite = np.where(walls, to_floor, to_wall)
        distance = np.where(opposite & (distance > depth), step, distance)
    flips = rng.random(walls.shape) < chance * (depth + 1 - distance) / depth
    inner = (slice(depth, height - depth), slice(depth, width - depth))
    walls[inner] ^= flips[inner]


def plains(walls: Walls, rng: Rng) -> None:
    """Scattered clusters of rocks: an anchor every 9 cells, most of them used, each moved a little."""
    height, width = walls.shape
    for row in range(0, height, 9):
        for col in range(0, width, 9):
            if rng.random() > 0.7:
                continue
            r, c = row + int(rng.integers(-2, 3)), col + int(rng.integers(-2, 3))
            radius = int(rng.integers(1, 3))
            for dr in range(-radius, radius + 1):
                for dc in range(abs(dr) - radius, radius - abs(dr) + 1):
                    inside = 0 <= r + dr < height and 0 <= c + dc < width
                    if inside and rng.random() < 0.6:
                        walls[r + dr, c + dc] = True


def forest(walls: Walls, rng: Rng) -> None:
    """Trees: sparse seeds that grow three times where three neighbours stand."""
    trees = rng.random(walls.shape) < 0.04
    for _ in range(3):
        trees |= (neighbours(trees) >= 3) & (rng.random(walls.shape) < 0.55)
    walls |= trees
    dither(walls, rng)


def desert(walls: Walls, rng: Rng) -> None:
    """Diagonal dunes two cells wide, every eight, with gaps."""
    rows, cols = np.indices(walls.shape)
    across = (rows + cols) * math.cos(math.pi / 4)
    walls |= (across % 8 < 2) & (rng.random(walls.shape) >= 0.1)
    dither(walls, rng)


def city(walls: Walls, rng: Rng) -> None:
    """Blocks of houses on a grid of ten, between roads two cells wide."""
    pitch, road = 10, 2
    for row in range(0, walls.shape[0], pitch):
        for col in range(0, walls.shape[1], pitch):
            if rng.random() > 0.9:
                continue
            tall, wide = (min(6 + int(rng.integers(-2, 3)), pitch - 2 * road) for _ in range(2))
            walls[row + road : row + road + tall, col + road : col + road + wide] = True
    dither(walls, rng)


def maze(walls: Walls, rng: Rng, *, deep: bool) -> None:
    """Rooms of 3×3 between walls of 1, joined to a tree: by depth-first search (winding) or by Kruskal (branching)."""
    pitch = 4
    rows, cols = (walls.shape[0] + 1) // pitch, (walls.shape[1] + 1) // pitch
    if rows == 0 or cols == 0:
        return
    walls[:] = True
    for row in range(rows):
        for col in range(cols):
            walls[row * pitch : row * pitch + 3, col * pitch : col * pitch + 3] = False
    for (r1, c1), (r2, c2) in _depth_first(rows, cols, rng) if deep else _kruskal(rows, cols, rng):
        r, c = min(r1, r2) * pitch, min(c1, c2) * pitch
        if r1 == r2:
            walls[r : r + 3, c + 3] = False
        else:
            walls[r + 3, c : c + 3] = False


def _depth_first(rows: int, cols: int, rng: Rng) -> list[tuple[Room, Room]]:
    stack: list[Room] = [(0, 0)]
    seen, doors = {(0, 0)}, []
    while stack:
        row, col = stack[-1]
        free = [
            (row + dr, col + dc)
            for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1))
            if 0 <= row + dr < rows and 0 <= col + dc < cols and (row + dr, col + dc) not in seen
        ]
        if not free:
            stack.pop()
            continue
        room = free[int(rng.integers(len(free)))]
        doors.append(((row, col), room))
        seen.add(room)
        stack.append(room)
    return doors


def _kruskal(rows: int, cols: int, rng: Rng) -> list[tuple[Room, Room]]:
    group = {(row, col): row * cols + col for row in range(rows) for col in range(cols)}
    walls = [((r, c), (r + 1, c)) for r in range(rows - 1) for c in range(cols)]
    walls += [((r, c), (r, c + 1)) for r in range(rows) for c in range(cols - 1)]
    doors = []
    for i in rng.permutation(len(walls)):
        first, second = walls[i]
        if group[first] != group[second]:
            old, new = group[second], group[first]
            group = {room: new if number == old else number for room, number in group.items()}
            doors.append((first, second))
    return doors


def radial(walls: Walls, rng: Rng) -> None:  # noqa: ARG001
    """Eight straight passages cleared from the middle outwards."""
    height, width = walls.shape
    length = min(height, width) // 2 - 1
    for arm in range(8):
        down, across = math.sin(arm * math.pi / 4), math.cos(arm * math.pi / 4)
        for step in range(length + 1):
            row, col = height // 2 + round(step * down), width // 2 + round(step * across)
            if 0 <= row < height and 0 <= col < width:
                walls[row, col] = False


# How likely a cell is rock, by its distance from the asteroid's outline: read off the recorded maps.
RIM = (0.91, 0.68, 0.52, 0.39, 0.26, 0.15)


def asteroid(walls: Walls, rng: Rng) -> None:
    """A rounded outline |x|⁸ + |y|⁸ ≤ 1 with a ragged rim inside."""
    height, width = walls.shape
    rows, cols = np.ogrid[:height, :width]
    across = np.abs(cols - (width - 1) / 2) / ((width - 1) / 2)
    down = np.abs(rows - (height - 1) / 2) / ((height - 1) / 2)
    reached = across**8 + down**8 > 1
    walls |= reached
    for chance in RIM:
        wider = spread(reached)
        walls |= wider & ~reached & (rng.random(walls.shape) < chance)
        reached = wider


def deep_maze(walls: Walls, rng: Rng) -> None:
    """A winding maze."""
    maze(walls, rng, deep=True)


def wide_maze(walls: Walls, rng: Rng) -> None:
    """A branching maze."""
    maze(walls, rng, deep=False)


def any_maze(walls: Walls, rng: Rng) -> None:
    """A maze of one of the two kinds."""
    maze(walls, rng, deep=bool(rng.random() < 0.6))


BIOMES: dict[str, Callable[[Walls, Rng], None]] = {"forest": forest, "desert": desert, "city": city, "plains": plains}
