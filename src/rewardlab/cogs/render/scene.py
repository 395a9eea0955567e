"""What a view knows: the setting of an episode, which stays, and its scenes, one per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.maps.grid import Thing
from rewardlab.cogs.rules import ELEMENTS, FIRST_TEAM, GEAR, INDEX, LIMITS, RESOURCES, STORED, Limit

Numbers = NDArray[np.int64]
Infos = tuple[Mapping[str, Any], ...]
MILLION = 1_000_000  # rewards are kept as whole millionths, so that sums are exact


@dataclass(frozen=True)
class Setting:
    """What stays the same throughout an episode. Rows and columns count from the map's upper left corner."""

    mission: str
    seed: int
    map_seed: int
    max_steps: int
    teams: tuple[str, ...]
    team_of: tuple[int, ...]  # the team of each cog
    policies: tuple[str, ...]  # the policy of each cog
    walls: tuple[str, ...]  # one string per row: `#` wall, `.` anything else
    things: tuple[Thing, ...]  # every object, in the order of a scene's owners and amounts
    radius: int = 10  # of the areas of hubs and held junctions
    window: int = 11  # what a cog sees
    day_length: int = 200
    extractor_amount: int = 100
    clips: bool = True
    limits: tuple[Limit, ...] = LIMITS

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.walls)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.walls[0])

    @property
    def cogs(self) -> int:
        """How many cogs play."""
        return len(self.team_of)

    @property
    def owners(self) -> tuple[str, ...]:
        """Names by owner's number, as in `rules`: neutral, the clips, the teams."""
        return ("neutral", "clips", *self.teams)

    def owner_of(self, cog: int) -> int:
        """The owner's number of a cog's team."""
        return FIRST_TEAM + self.team_of[cog]

    def place(self, cell: int) -> tuple[int, int]:
        """Row and column of a numbered cell."""
        return cell // self.width, cell % self.width

    def is_night(self, step: int) -> bool:
        """Whether the sun gives little in a step."""
        return step % self.day_length >= self.day_length // 2

    def cap(self, resource: str, inventory: Numbers) -> int | None:
        """How much of a resource (or of its group) a cog with this inventory can hold; None without a limit."""
        for limit in self.limits:
            if resource in limit.resources:
                bound = max(limit.least, sum(each * int(inventory[INDEX[name]]) for name, each in limit.modifiers))
                return bound if limit.most is None else min(bound, limit.most)
        return None


@dataclass(frozen=True)
class Event:
    """Something that a person wants to be told; numbers are −1 where they do not apply."""

    kind: str
    cog: int = -1
    thing: int = -1
    what: str = ""
    amount: int = 0


@dataclass(frozen=True, eq=False)
class Scene:
    """One moment. Everything that is a number lies in one vector, cut up by `Shape`; that is also what files keep."""

    shape: Shape
    step: int
    numbers: Numbers
    events: tuple[Event, ...] = ()
    infos: Infos = ()  # what policies say about each cog

    def __getitem__(self, name: str) -> Numbers:
        """A part of the numbers, by its name in `Shape`."""
        return self.shape.part(self.numbers, name)

    def counts(self, setting: Setting) -> tuple[int, ...]:
        """How many junctions each owner holds, by owner's number."""
        owners = [int(o) for o, thing in zip(self["owner"], setting.things, strict=True) if thing.kind == "junction"]
        return tuple(owners.count(i) for i in range(len(setting.owners)))

    def role(self, cog: int) -> str:
        """The gear that a cog wears, or ''."""
        held = self["inventory"][cog]
        return next((gear for gear in GEAR if held[INDEX[gear]]), "")

    def cargo(self, cog: int) -> int:
        """The elements that a cog carries."""
        return int(sum(self["inventory"][cog, INDEX[name]] for name in ELEMENTS))

    def reward(self, cog: int) -> float:
        """What a cog has earned so far."""
        return float(self["reward"][cog]) / MILLION


@dataclass(frozen=True)
class Shape:
    """How the numbers of a scene follow each other."""

    cogs: int
    things: int
    teams: int

    @classmethod
    def of(cls, setting: Setting) -> Shape:
        """The shape of an episode's scenes."""
        return cls(setting.cogs, len(setting.things), len(setting.teams))

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The parts in order: cells are row × width + column, rewards are millionths, stores go by `rules.STORED`."""
        cogs = dict.fromkeys(("cell", "action", "failed", "vibe", "reward"), (self.cogs,))
        things = dict.fromkeys(("owner", "amount"), (self.things,))
        return {
            **cogs,
            "inventory": (self.cogs, len(RESOURCES)),
            **things,
            "store": (self.teams, len(STORED)),
        }

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(int(np.prod(shape)) for shape in self.parts.values())

    def part(self, numbers: Numbers, name: str) -> Numbers:
        """One part, in its own shape."""
        start = 0
        for other, shape in self.parts.items():
            size = int(np.prod(shape))
            if other == name:
                return numbers[start : start + size].reshape(shape)
            start += size
        raise KeyError(name)

    def join(self, parts: Mapping[str, Any]) -> Numbers:
        """All parts as one vector."""
        flat = [np.asarray(parts[name], np.int64).reshape(-1) for name in self.parts]
        return np.concatenate(flat)


@dataclass(frozen=True)
class Control:
    """What the person at a view wants before the next step: to quit, or some cogs to act as told (cog → action)."""

    quit: bool = False
    steer: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """How an episode went, for the last picture and for the file."""

    steps: int
    complete: bool
    rewards: tuple[float, ...]  # per cog
    statistics: Mapping[str, Any] = field(default_factory=dict)


class Viewer(Protocol):
    """A view. `show` takes as long as the person wants to look: pausing and speed are its own affair."""

    def begin(self, setting: Setting) -> None:
        """Before the first scene."""
        ...

    def show(self, scene: Scene) -> Control:
        """The scene after a step (or at the start)."""
        ...

    def end(self, summary: Summary) -> None:
        """After the last scene."""
        ...

    def close(self) -> None:
        """Whatever happened: give back the terminal, the port."""
        ...


class Session(Protocol):
    """An episode that goes on, however it is driven."""

    @property
    def setting(self) -> Setting:
        """What stays."""
        ...

    @property
    def scene(self) -> Scene:
        """Now."""
        ...

    @property
    def over(self) -> bool:
        """Whether no further step is left."""
        ...

    def advance(self, steer: Mapping[int, int]) -> Scene:
        """One step; cogs in `steer` act as it says, whatever their policy wants."""
        ...

    def summary(self) -> Summary:
        """How it went so far."""
        ...


def play(session: Session, viewer: Viewer) -> Summary:
    """Play a session to its end, or until the person has seen enough; an interruption still ends it in good order."""
    try:
        viewer.begin(session.setting)
        control = viewer.show(session.scene)
        while not (control.quit or session.over):
            control = viewer.show(session.advance(control.steer))
        summary = session.summary()
        viewer.end(summary)
    except KeyboardInterrupt:
        summary = session.summary()
    finally:
        viewer.close()
    return summary


def describe(setting: Setting, event: Event) -> str:
    """An event as a short sentence."""
    cog = f"cog {event.cog}"
    place = f"({setting.things[event.thing].row}, {setting.things[event.thing].col})" if event.thing >= 0 else ""
    kind = setting.things[event.thing].kind if event.thing >= 0 else ""
    sentences = {
        "align": f"{cog} aligned junction {place}",
        "scramble": f"{cog} scrambled {event.what}' junction {place}",
        "clips_take": f"clips took junction {place}",
        "clips_scramble": f"clips scrambled {event.what}' junction {place}",
        "heart_taken": f"{cog} took a heart",
        "heart_made": f"{cog} made a heart",
        "gear": f"{cog} became {event.what}",
        "gear_lost": f"{cog} lost {event.what} gear",
        "deposit": f"{cog} deposited {event.amount}",
        "exhausted": f"{kind} {place} is exhausted",
        "down": f"{cog} has no hp left",
        "dawn": "day breaks",
        "dusk": "night falls",
    }
    return sentences[event.kind]
