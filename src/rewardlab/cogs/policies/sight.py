"""What one raw observation says: the agent itself, the store, and the cells around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewardlab.cogs.policies.api import PolicyEnvInterface, Raw
from rewardlab.cogs.rules import (
    ELEMENTS,
    EMPTY_BYTE,
    EXTRACTORS,
    GEAR,
    GLOBAL_LOCATION,
    RESOURCES,
    STATIONS,
    TOKEN_BASE,
)

# The planes of a map, in this order here and in `words.py`. The last two follow a junction's owner, not a tag.
PLANES = ("wall", "c:hub", "c:chest", *STATIONS, *EXTRACTORS, "junction", "agent", "ours", "enemies")
PLANE = {name: i for i, name in enumerate(PLANES)}
TAGGED = PLANES[: PLANE["ours"]]
COMPOUND = ("c:chest", *STATIONS)  # what a hub has around it


@dataclass
class Sight:
    """One observation, read."""

    offset: tuple[int, int] = (0, 0)  # rows south and columns east of the agent's own spawn
    last_action: int = 0
    vibe: int = 0
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0))
    store: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ELEMENTS, 0))
    window: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in PLANES])  # rows and columns seen

    @property
    def gear(self) -> str | None:
        """The gear the agent holds."""
        return next((name for name in GEAR if self.held[name]), None)

    @property
    def cargo(self) -> int:
        """Elements carried."""
        return sum(self.held[name] for name in ELEMENTS)


class Reader:
    """Reads raw observations of one environment."""

    def __init__(self, info: PolicyEnvInterface) -> None:
        ids = info.feature_id
        self.centre = (info.obs_height // 2) << 4 | info.obs_width // 2
        self.tag, self.collective = ids["tag"], ids["collective"]
        self.vibe, self.last_action = ids["vibe"], ids["last_action"]
        self.plane_of_tag = {i: PLANE[tag.removeprefix("type:")] for i, tag in enumerate(info.tags) if is_type(tag)}
        self.offsets = {
            ids["lp:south"]: (0, 1),
            ids["lp:north"]: (0, -1),
            ids["lp:east"]: (1, 1),
            ids["lp:west"]: (1, -1),
        }
        self.held = {ids[f"inv:{name}"]: (name, 1) for name in RESOURCES}
        self.held |= {ids[f"inv:{name}:p1"]: (name, TOKEN_BASE) for name in RESOURCES}
        self.store = {ids[f"inv:collective:{name}"]: (name, 1) for name in ELEMENTS}
        self.store |= {ids[f"inv:collective:{name}:p1"]: (name, TOKEN_BASE) for name in ELEMENTS}

    def read(self, raw: Raw) -> Sight:
        """The facts of one observation."""
        sight = Sight()
        owner: dict[int, int] = {}
        offset = [0, 0]
        for location, feature, value in raw.tolist():
            if location == EMPTY_BYTE:
                break
            if location == GLOBAL_LOCATION:
                if feature in self.store:
                    name, unit = self.store[feature]
                    sight.store[name] += unit * value
                elif feature in self.offsets:
                    axis, sign = self.offsets[feature]
                    offset[axis] = sign * value
                elif feature == self.last_action:
                    sight.last_action = value
            elif feature == self.tag:
                plane = self.plane_of_tag.get(value)
                if plane is not None and not (plane == PLANE["agent"] and location == self.centre):
                    sight.window[plane].append((location >> 4, location & 15))
            elif feature == self.collective:
                owner[location] = value
            elif location == self.centre:
                if feature in self.held:
                    name, unit = self.held[feature]
                    sight.held[name] += unit * value
                elif feature == self.vibe:
                    sight.vibe = value
        self._owners(sight, owner)
        sight.offset = (offset[0], offset[1])
        return sight

    def _owners(self, sight: Sight, owner: dict[int, int]) -> None:
        """Hubs and junctions of the agent's own collective are ours; those of others are the enemies'.

        Another team's hub, chest and stations serve nobody here: they are walls.
        """
        own = owner.get(self.centre)
        foreign = {(cell >> 4, cell & 15) for cell, who in owner.items() if who != own}
        owned = {(cell >> 4, cell & 15) for cell, who in owner.items() if who == own}
        window = sight.window
        sources = [*window[PLANE["junction"]], *window[PLANE["c:hub"]]]
        window[PLANE["ours"]] = [place for place in sources if place in owned]
        window[PLANE["enemies"]] = [place for place in sources if place in foreign]
        for name in ("c:hub", "c:chest", *STATIONS):
            kept = [place for place in window[PLANE[name]] if place not in foreign]
            window[PLANE["wall"]] += [place for place in window[PLANE[name]] if place in foreign]
            window[PLANE[name]] = kept


def is_type(tag: str) -> bool:
    """Whether a tag names one of the kinds that have a plane."""
    return tag.removeprefix("type:") in TAGGED and tag.startswith("type:")
