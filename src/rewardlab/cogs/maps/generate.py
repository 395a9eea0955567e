"""Maps from a seed: base terrain, biomes, dungeons, an asteroid's rim where it is large, buildings, hubs, tunnels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.buildings import HUB, hub_centres, place_hub, strew
from rewardlab.cogs.maps.connect import connect
from rewardlab.cogs.maps.grid import Cell, GameMap
from rewardlab.cogs.maps.terrain import asteroid, plains
from rewardlab.cogs.maps.zones import scattered_zones, sequential_zones
from rewardlab.cogs.rules import CODE, EXTRACTORS

LAYOUTS = {"scattered": scattered_zones, "sequential": sequential_zones, "open": None}
ASTEROID_FROM = 80  # cells of the shorter side
BORDER = 5
ARENA_WEIGHTS = {"junction": 0.7, **dict.fromkeys(EXTRACTORS, 0.3)}
MACHINA_WEIGHTS = {"junction": 0.6, **dict.fromkeys(EXTRACTORS, 0.2)}


@dataclass(frozen=True)
class MapSpec:
    """What a generated map is made of; width and height are those inside the border."""

    width: int = 50
    height: int = 50
    layout: str = "scattered"
    coverage: float = 0.1  # of buildings tried
    weights: Mapping[str, float] = field(default_factory=lambda: dict(ARENA_WEIGHTS))
    hubs: int = 1

    def __post_init__(self) -> None:
        """Refuse sizes that hold no hub."""
        if self.layout not in LAYOUTS:
            raise CogsError(f"Unknown map layout {self.layout!r}. Known: {', '.join(LAYOUTS)}.")
        rows = 1 if self.hubs == 1 else (self.hubs + 1) // 2
        if self.height < HUB * rows or self.width < HUB * min(self.hubs, 2):
            raise CogsError(f"A map of {self.width}×{self.height} has no room for {self.hubs} hubs of {HUB}×{HUB}.")


ARENA = MapSpec()
MACHINA_1 = MapSpec(88, 88, "sequential", 0.05, MACHINA_WEIGHTS)


def generate(spec: MapSpec, seed: int) -> GameMap:
    """The map of a seed: the same for ever."""
    rng = np.random.default_rng(seed)
    walls = np.zeros((spec.height, spec.width), bool)
    zones = LAYOUTS[spec.layout]
    if zones is not None:
        plains(walls, rng)
        zones(walls, rng)
    if zones is not None and min(walls.shape) >= ASTEROID_FROM:
        asteroid(walls, rng)
    codes = np.where(walls, CODE["wall"], CODE["empty"]).astype(np.uint8)
    if spec.coverage > 0:
        strew(codes, spec.coverage, spec.weights, rng)
    pads: list[Cell] = []
    for row, col in hub_centres(spec.height, spec.width, spec.hubs):
        pads += place_hub(codes, row, col)
    connect(codes)
    bordered = np.pad(codes, BORDER, constant_values=CODE["wall"])
    return GameMap(bordered, tuple(sorted((row + BORDER, col + BORDER) for row, col in pads)))
