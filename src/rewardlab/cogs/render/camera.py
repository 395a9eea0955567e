"""From the engine's state to scenes, and what happened between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardlab.cogs.maps.grid import Thing
from rewardlab.cogs.maps.pool import Layout, MapPool
from rewardlab.cogs.render.scene import MILLION, Event, Infos, Numbers, Scene, Setting, Shape
from rewardlab.cogs.rules import (
    ACTIONS,
    CLIPS,
    CODE,
    ELEMENTS,
    EXTRACTORS,
    GEAR,
    INDEX,
    KINDS,
    MOVES,
    NEUTRAL,
    STORED,
    Rules,
)
from rewardlab.cogs.state import State

HEART, HP = INDEX["heart"], INDEX["hp"]
MOST_INFOS, LONGEST_INFO = 12, 60  # what a policy may say of a cog


@dataclass(frozen=True)
class Camera:
    """Looks at one environment of a batch that plays on one map of a pool."""

    setting: Setting
    slots: tuple[int, ...]  # the engine's number of each of the setting's things
    layout: Layout
    env: int = 0

    @property
    def shape(self) -> Shape:
        """Of the scenes."""
        return Shape.of(self.setting)

    def first(self, state: State, infos: Infos = ()) -> Scene:
        """The scene before any step."""
        nothing = np.zeros(self.setting.cogs, np.int64)
        return self._scene(state, nothing, nothing, nothing, infos)

    def next(self, before: Scene, state: State, actions: Any, success: Any, reward: Any, infos: Infos = ()) -> Scene:
        """The scene after a step: `actions`, `success` and `reward` of this environment, one per cog."""
        earned = np.rint(np.asarray(reward, np.float64) * MILLION).astype(np.int64)
        failed = ~np.asarray(success, bool)
        scene = self._scene(state, actions, failed, before["reward"] + earned, infos)
        return Scene(scene.shape, scene.step, scene.numbers, events_between(self.setting, before, scene), scene.infos)

    def _scene(self, state: State, actions: Any, failed: Any, reward: Any, infos: Infos) -> Scene:
        env, slots = self.env, np.asarray(self.slots, np.int64)
        amount = np.asarray(state.amount)[slots, env]
        extractor = np.asarray([thing.kind in EXTRACTORS for thing in self.setting.things], bool)
        places = [self.layout.place(int(number)) for number in np.asarray(state.cell)[:, env]]
        shape = self.shape
        numbers = shape.join(
            {
                "cell": [row * self.setting.width + col for row, col in places],
                "action": actions,
                "failed": failed,
                "vibe": np.asarray(state.vibe)[:, env],
                "reward": reward,
                "inventory": np.asarray(state.inventory)[:, :, env].T,
                "owner": np.asarray(state.owner)[slots, env],
                "amount": np.where(extractor, amount, 0),
                "store": np.asarray(state.store)[:, :, env],
            }
        )
        said = tuple(plain(info) for info in infos) or tuple({} for _ in range(self.setting.cogs))
        return Scene(shape, int(np.asarray(state.step)[env]), numbers, (), said)


def make_camera(
    rules: Rules,
    pool: MapPool,
    layout: Layout,
    *,
    map_index: int = 0,
    env: int = 0,
    mission: str = "",
    seed: int = 0,
    map_seed: int = 0,
    policies: Sequence[str] = (),
) -> Camera:
    """A camera on environment `env`, which plays on map `map_index` of the pool; `policies` names each cog's."""
    kinds, cells = np.asarray(pool.kind)[map_index], np.asarray(pool.cell)[map_index]
    slots = tuple(int(slot) for slot in np.nonzero(kinds)[0])
    things = tuple(Thing(KINDS[kinds[slot]], *layout.place(int(cells[slot]))) for slot in slots)
    codes = np.asarray(pool.codes)[map_index].reshape(layout.height, layout.width)
    inner = codes[layout.margin : layout.height - layout.margin, layout.margin : layout.width - layout.margin]
    setting = Setting(
        mission=mission,
        seed=seed,
        map_seed=map_seed,
        max_steps=rules.max_steps,
        teams=tuple(team.name for team in rules.teams),
        team_of=rules.team_of,
        policies=tuple(policies) or ("",) * rules.num_agents,
        walls=tuple("".join("#" if code == CODE["wall"] else "." for code in row) for row in inner),
        things=things,
        radius=rules.area.radius,
        window=rules.window,
        day_length=rules.weather.day_length,
        extractor_amount=rules.extractor_amount,
        clips=rules.clips.enabled,
        limits=rules.limits,
    )
    return Camera(setting, slots, layout, env)


def plain(info: Any) -> dict[str, Any]:
    """What a policy says, as a few short words and numbers: it may say anything."""
    said: dict[str, Any] = {}
    for name, value in [(name, value) for name, value in dict(info or {}).items() if value is not None][:MOST_INFOS]:
        if isinstance(value, bool | np.bool_):
            short: Any = bool(value)
        elif isinstance(value, int | np.integer) and abs(int(value)) < 1 << 53:
            short = int(value)
        elif isinstance(value, float | np.floating) and np.isfinite(value):
            short = float(f"{float(value):.6g}")
        else:
            short = str(value)[:LONGEST_INFO]
        said[str(name)[:LONGEST_INFO]] = short
    return said


def events_between(setting: Setting, before: Scene, after: Scene) -> tuple[Event, ...]:
    """What a step brought."""
    return (
        *_weather(setting, after.step),
        *_contests(setting, before, after),
        *_possessions(setting, before, after),
        *_exhausted(before, after),
    )


def _weather(setting: Setting, step: int) -> Iterator[Event]:
    if step and step % setting.day_length == 0:
        yield Event("dawn")
    elif step % setting.day_length == setting.day_length // 2:
        yield Event("dusk")


def _contests(setting: Setting, before: Scene, after: Scene) -> Iterator[Event]:
    """Junctions that changed hands: by the cog that paid a heart for it, else by the clips."""
    was, now = before["owner"], after["owner"]
    for thing in np.nonzero(was != now)[0].tolist():
        cog = _visitor(setting, before, after, thing)
        old = setting.owners[int(was[thing])]
        if now[thing] == NEUTRAL:
            yield Event("scramble" if cog >= 0 else "clips_scramble", cog, thing, old)
        elif now[thing] == CLIPS:
            yield Event("clips_take", -1, thing)
        else:
            yield Event("align", cog, thing, setting.owners[int(now[thing])])


def _visitor(setting: Setting, before: Scene, after: Scene, thing: int) -> int:
    """The cog that used a thing at the price of a heart; −1 if none did."""
    there = setting.things[thing]
    for cog, cell in enumerate(after["cell"].tolist()):
        row, col = setting.place(cell)
        step = MOVES.get(ACTIONS[int(after["action"][cog])])
        paid = after["inventory"][cog, HEART] < before["inventory"][cog, HEART]
        if step and paid and (row + step[0], col + step[1]) == (there.row, there.col):
            return cog
    return -1


def _possessions(setting: Setting, before: Scene, after: Scene) -> Iterator[Event]:
    """Hearts, gear and cargo that cogs gained or gave away, and hp that ran out."""
    hearts = STORED.index("heart")
    in_store = np.maximum(before["store"][:, hearts] - after["store"][:, hearts], 0)
    for cog in range(setting.cogs):
        team = setting.team_of[cog]
        change = after["inventory"][cog] - before["inventory"][cog]
        if change[HEART] > 0:
            taken = in_store[team] > 0
            in_store[team] -= int(taken)
            yield Event("heart_taken" if taken else "heart_made", cog)
        bought = [name for name in GEAR if change[INDEX[name]] > 0]
        yield from (Event("gear", cog, what=name) for name in bought)
        if not bought:
            yield from (Event("gear_lost", cog, what=name) for name in GEAR if change[INDEX[name]] < 0)
        given = -int(sum(change[INDEX[name]] for name in ELEMENTS))
        if given > 0 and _at_deposit(setting, after, cog):
            yield Event("deposit", cog, amount=given)
        if after["inventory"][cog, HP] == 0 and before["inventory"][cog, HP] > 0:
            yield Event("down", cog)


def _at_deposit(setting: Setting, after: Scene, cog: int) -> bool:
    """Whether a cog walked into a hub or a junction of its own."""
    row, col = setting.place(int(after["cell"][cog]))
    step = MOVES.get(ACTIONS[int(after["action"][cog])])
    if step is None:
        return False
    there = row + step[0], col + step[1]
    return any(
        (thing.row, thing.col) == there and thing.kind in ("c:hub", "junction") and owner == setting.owner_of(cog)
        for thing, owner in zip(setting.things, after["owner"].tolist(), strict=True)
    )


def _exhausted(before: Scene, after: Scene) -> Iterator[Event]:
    gone = (before["amount"] > 0) & (after["amount"] == 0)
    yield from (Event("exhausted", -1, thing) for thing in np.nonzero(gone)[0].tolist())


def areas_of(setting: Setting, scene: Scene) -> Numbers:
    """Whose area covers each cell, [height, width]: the owner's number, 0 for nobody's, −1 for several."""
    held = np.zeros((setting.height, setting.width), np.int64)
    for thing, owner in zip(setting.things, scene["owner"].tolist(), strict=True):
        if owner != NEUTRAL and thing.kind in ("junction", "c:hub"):
            reach = setting.radius
            rows = slice(max(thing.row - reach, 0), thing.row + reach + 1)
            cols = slice(max(thing.col - reach, 0), thing.col + reach + 1)
            part = held[rows, cols]
            held[rows, cols] = np.where((part == 0) | (part == owner), owner, -1)
    return held
