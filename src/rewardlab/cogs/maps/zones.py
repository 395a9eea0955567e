"""Zones: the map split at random into rectangles, some of which get a biome or a dungeon of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from rewardlab.cogs.maps.terrain import BIOMES, Rng, Walls, any_maze, deep_maze, radial, wide_maze

BIOME_SHARE, DUNGEON_SHARE = 0.27, 0.2  # of the map's width and height, at most
DENSITY = 0.9


class Zone(NamedTuple):
    """A rectangle."""

    row: int
    col: int
    height: int
    width: int


def split(height: int, width: int, count: int, rng: Rng) -> list[Zone]:
    """Binary space partition: the oldest rectangle is cut, across its long side if it is very long, until there are
    `count`; a cut leaves each part a third at the least."""
    zones = [Zone(0, 0, height, width)]
    for _ in range(count - 1):
        zone = zones.pop(0)
        upright = zone.height > 2 * zone.width
        flat = zone.width > 2 * zone.height
        across = upright or (not flat and rng.random() < 0.5)
        size = zone.height if across else zone.width
        cut = int(rng.integers(size // 3, size - size // 3 + 1))
        if across:
            parts = [zone._replace(height=cut), zone._replace(row=zone.row + cut, height=zone.height - cut)]
        else:
            parts = [zone._replace(width=cut), zone._replace(col=zone.col + cut, width=zone.width - cut)]
        zones += parts if rng.random() < 0.5 else parts[::-1]
    return zones


def bounded(zone: Zone, height: int, width: int, share: float) -> Zone:
    """The middle of a zone, no larger than a share of the map."""
    tall = min(zone.height, max(10, min(int(height * share), height // 2)))
    wide = min(zone.width, max(10, min(int(width * share), width // 2)))
    return Zone(zone.row + (zone.height - tall) // 2, zone.col + (zone.width - wide) // 2, tall, wide)


def draw(walls: Walls, zone: Zone, scene: Callable[[Walls, Rng], None], share: float, rng: Rng) -> None:
    """A scene in the middle of a zone."""
    row, col, height, width = bounded(zone, walls.shape[0], walls.shape[1], share)
    if height > 0 and width > 0:
        scene(walls[row : row + height, col : col + width], rng)


def scattered_zones(walls: Walls, rng: Rng) -> None:
    """The arena's way: biomes in 60 % of their zones, dungeons in half of theirs, each of a random kind."""
    height, width = walls.shape
    area = height * width
    biomes = max(3, min(48, area // max(800, int(1600 / DENSITY))), math.ceil(1 / BIOME_SHARE))
    dungeons = max(3, min(48, area // max(800, int(1500 / DENSITY))), math.ceil(1 / DUNGEON_SHARE))
    kinds = list(BIOMES.values())
    zones = split(height, width, biomes, rng)
    for i in rng.permutation(len(zones))[: max(1, int(biomes * 0.6))]:
        draw(walls, zones[i], kinds[int(rng.integers(len(kinds)))], BIOME_SHARE, rng)
    halls, weights = (deep_maze, wide_maze, radial), (0.3, 0.2, 0.5)
    zones = split(height, width, dungeons, rng)
    for i in rng.permutation(len(zones))[: max(1, int(dungeons * 0.5))]:
        draw(walls, zones[i], halls[int(rng.choice(3, p=weights))], DUNGEON_SHARE, rng)


def sequential_zones(walls: Walls, rng: Rng) -> None:
    """Machina's way: each biome once, then a maze and a radial maze, each in a zone of its own."""
    height, width = walls.shape
    for scenes, share in ((list(BIOMES.values()), BIOME_SHARE), ([any_maze, radial], DUNGEON_SHARE)):
        zones = split(height, width, len(scenes), rng)
        for scene, i in zip(scenes, rng.permutation(len(zones)), strict=True):
            draw(walls, zones[i], scene, share, rng)
