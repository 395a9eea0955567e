"""`sight.py` and the memory of `team.py` in JAX: what agents see, drawn on one map per environment."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8, UInt32

from rewardlab.cogs.policies import words
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.bitboard import CENTRE, NOWHERE, SIZE
from rewardlab.cogs.policies.settings import (
    DRAINED,
    FIRST_INFLUENCE,
    FORGET,
    HEARTS_AT_START,
    IDLE,
    RADIUS,
    RECOVER,
    Settings,
    role_of_rank,
)
from rewardlab.cogs.policies.sight import PLANE, PLANES, is_type
from rewardlab.cogs.policies.words import BITS, WORDS, Board
from rewardlab.cogs.rules import ELEMENTS, EMPTY_BYTE, GLOBAL_LOCATION, RESOURCES, STATIONS, TOKEN_BASE

ALIGNER_AT, INFLUENCE_AT = RESOURCES.index("aligner"), RESOURCES.index("influence")
OURS, ENEMIES = PLANE["ours"], PLANE["enemies"]
FOREIGN_KINDS = tuple(PLANE[name] for name in ("c:hub", "c:chest", *STATIONS))


class Sight(NamedTuple):
    """What one agent's observation says, as in `sight.Sight`."""

    offset: Int[Array, " 2"]
    last_action: Int[Array, ""]
    vibe: Int[Array, ""]
    held: Int[Array, " resources"]
    store: Int[Array, " elements"]
    window: UInt32[Array, "planes rows"]  # a bit per column


class Memory(NamedTuple):
    """What a crew knows, as in `team.Team`, per environment; then of each of its cogs."""

    planes: UInt32[Array, "P R W"]
    known: UInt32[Array, "R W"]
    bumped: UInt32[Array, "R W"]
    drained: UInt32[Array, "R W"]
    step: Int[Array, ""]
    stock: Int[Array, ""]
    explored: Bool[Array, ""]
    anchor: Int[Array, "A 2"]
    anchored: Bool[Array, " A"]
    role: Int[Array, " A"]
    mode: Int[Array, " A"]
    target: Int[Array, " A"]
    goal_cell: Int[Array, " A"]
    wait: Int[Array, " A"]
    detour: Int[Array, " A"]
    since: Int[Array, " A"]
    hearts: Int[Array, " A"]
    weak: Bool[Array, " A"]


def fresh_memory(settings: Settings, agents: int) -> Memory:
    """Nothing is known yet."""
    zeros, nowhere = jnp.zeros(agents, jnp.int32), jnp.full(agents, NOWHERE, jnp.int32)
    return Memory(
        planes=words.empty(len(PLANES)),
        known=words.empty(),
        bumped=words.empty(),
        drained=words.empty(),
        step=jnp.asarray(-1, jnp.int32),
        stock=jnp.asarray(HEARTS_AT_START, jnp.int32),
        explored=jnp.asarray(False),
        anchor=jnp.zeros((agents, 2), jnp.int32),
        anchored=jnp.zeros(agents, bool),
        role=jnp.asarray([role_of_rank(settings, rank) for rank in range(agents)], jnp.int32),
        mode=zeros + IDLE,
        target=nowhere,
        goal_cell=nowhere,
        wait=zeros,
        detour=zeros,
        since=zeros,
        hearts=zeros,
        weak=zeros > 0,
    )


class Eyes:
    """Reads raw observations of one environment, and draws them."""

    def __init__(self, info: PolicyEnvInterface) -> None:
        ids = info.feature_id
        self.rows, self.columns = info.obs_height, info.obs_width
        self.half = self.rows // 2
        self.centre = self.half << 4 | self.columns // 2
        stored = [f"inv:collective:{name}{digit}" for digit in ("", ":p1") for name in ELEMENTS]
        whole = (*stored, "lp:south", "lp:north", "lp:east", "lp:west", "last_action")
        own = (*(f"inv:{name}{digit}" for digit in ("", ":p1") for name in RESOURCES), "vibe")
        self.of_whole, self.of_self = (jnp.asarray([ids[name] for name in names]) for names in (whole, own))
        self.tag, self.collective = ids["tag"], ids["collective"]
        planes = [PLANE[tag.removeprefix("type:")] if is_type(tag) else len(PLANES) for tag in info.tags]
        self.plane_of_tag = np.full(TOKEN_BASE, len(PLANES))
        self.plane_of_tag[: len(planes)] = planes

    def read(self, raw: UInt8[Array, "tokens 3"]) -> Sight:
        """The facts of one observation."""
        location, feature, value = (raw[:, i].astype(jnp.int32) for i in range(3))

        def amounts(ids: Int[Array, " K"], where: Array) -> Int[Array, " K"]:
            return jnp.where(where[:, None] & (feature[:, None] == ids), value[:, None], 0).sum(0)

        whole = amounts(self.of_whole, location == GLOBAL_LOCATION)
        own = amounts(self.of_self, location == self.centre)
        low, high = own[: len(RESOURCES)], own[len(RESOURCES) : -1]
        kept, more = jnp.split(whole[: 2 * len(ELEMENTS)], 2)
        south, north, east, west, last_action = whole[2 * len(ELEMENTS) :]
        return Sight(
            offset=jnp.stack([south - north, east - west]),
            last_action=last_action,
            vibe=own[-1],
            held=low + TOKEN_BASE * high,
            store=kept + TOKEN_BASE * more,
            window=self._window(location, feature, value),
        )

    def _window(self, location: Array, feature: Array, value: Array) -> UInt32[Array, "planes rows"]:
        """The planes of the cells seen, one word per row."""
        here = (location != GLOBAL_LOCATION) & (location != EMPTY_BYTE)
        own = location == self.centre
        is_owner = here & (feature == self.collective)
        team = jnp.where(is_owner & own, value, 0).sum()
        plane = jnp.asarray(self.plane_of_tag)[value]
        plane = jnp.where(here & (feature == self.tag), plane, len(PLANES))
        plane = jnp.where((plane == PLANE["agent"]) & own, len(PLANES), plane)
        plane = jnp.where(is_owner, jnp.where(value == team, OURS, ENEMIES), plane)
        index = jnp.where(plane < len(PLANES), plane * self.rows + (location >> 4), len(PLANES) * self.rows)
        column = jnp.uint32(1) << (location & 15).astype(jnp.uint32)
        flat = jnp.zeros(len(PLANES) * self.rows, jnp.uint32).at[index].add(column, mode="drop")
        seen = flat.reshape(len(PLANES), self.rows)
        owned, foreign = seen[OURS], seen[ENEMIES]
        sources = seen[PLANE["junction"]] | seen[PLANE["c:hub"]]
        walls = seen[PLANE["wall"]]
        for kind in FOREIGN_KINDS:
            walls = walls | (seen[kind] & foreign)
            seen = seen.at[kind].set(seen[kind] & ~foreign)
        seen = seen.at[PLANE["wall"]].set(walls)
        return seen.at[OURS].set(sources & owned).at[ENEMIES].set(sources & foreign)

    def see(self, memory: Memory, sights: Sight) -> tuple[Memory, Int[Array, " A"]]:
        """The memory with what all cogs see now; and the cells where they stand."""
        step = memory.step + 1
        memory = memory._replace(
            step=step,
            planes=memory.planes.at[PLANE["agent"]].set(jnp.uint32(0)),
            bumped=jnp.where(step % FORGET == 0, jnp.uint32(0), memory.bumped),
            drained=jnp.where(step % RECOVER == 0, jnp.uint32(0), memory.drained),
        )
        memory, cells = self._place(memory, sights)
        return self._learn(self._draw(memory, sights, cells), sights, cells), cells

    def _place(self, memory: Memory, sights: Sight) -> tuple[Memory, Int[Array, " A"]]:
        hubs = sights.window[:, PLANE["c:hub"]]
        row = jnp.argmax(hubs != 0, -1)
        word = jnp.take_along_axis(hubs, row[:, None], -1)[:, 0]
        column = jax.lax.population_count((word & (~word + 1)) - 1).astype(jnp.int32)
        found = CENTRE - (jnp.stack([row, column], -1) - self.half) - sights.offset
        new = ~memory.anchored & (word != 0)
        anchor = jnp.where(new[:, None], found, memory.anchor).astype(jnp.int32)
        anchored = memory.anchored | new
        place = anchor + sights.offset
        inside = anchored & ((place >= 0) & (place < SIZE)).all(-1)
        cells = jnp.where(inside, place[:, 0] * SIZE + place[:, 1], NOWHERE)
        return memory._replace(anchor=anchor, anchored=anchored), cells

    def _draw(self, memory: Memory, sights: Sight, cells: Int[Array, " A"]) -> Memory:
        """Write the windows over the map, one after the other."""
        whole = jnp.full(self.rows, (1 << self.columns) - 1, jnp.uint32)

        def across(rows: UInt32[Array, "... r"], column: Array) -> UInt32[Array, "... r W"]:
            word, by = column // BITS, (column % BITS).astype(jnp.uint32)
            places = jnp.arange(WORDS)
            low = rows << by
            high = jnp.where(by > 0, rows >> (BITS - by) % BITS, jnp.uint32(0))
            low, high = low[..., None], high[..., None]
            return jnp.where(places == word, low, jnp.where(places == word + 1, high, jnp.uint32(0)))

        def draw(i: Array, carry: tuple[Board, Board]) -> tuple[Board, Board]:
            planes, known = carry
            row, column = cells[i] // SIZE - self.half, cells[i] % SIZE - self.half
            there = cells[i] >= 0
            shown = jnp.where(there, across(whole, column), jnp.uint32(0))
            drawn = jnp.where(there, across(sights.window[i], column), jnp.uint32(0))
            start = (jnp.int32(0), row, jnp.int32(0))
            old = jax.lax.dynamic_slice(planes, start, (len(PLANES), self.rows, WORDS))
            kept = jnp.where((jnp.arange(len(PLANES)) == PLANE["agent"])[:, None, None], old, old & ~shown)
            seen = jax.lax.dynamic_slice(known, start[1:], (self.rows, WORDS)) | shown
            planes = jax.lax.dynamic_update_slice(planes, kept | drawn, start)
            return planes, jax.lax.dynamic_update_slice(known, seen, start[1:])

        planes, known = jax.lax.fori_loop(0, cells.shape[0], draw, (memory.planes, memory.known))
        return memory._replace(planes=planes, known=known)

    def _learn(self, memory: Memory, sights: Sight, cells: Int[Array, " A"]) -> Memory:
        """From what the last actions did: cells that refuse, influence drained, hearts taken."""
        goal = memory.goal_cell
        hearts = sights.held[:, RESOURCES.index("heart")]
        refused = (goal >= 0) & (sights.last_action == 0)
        at_chest = words.test(memory.planes[PLANE["c:chest"]][None], goal)
        at_cog = words.test(memory.planes[PLANE["agent"]][None], goal)
        walls = words.union(words.bit(goal), refused & ~at_chest & ~at_cog)
        stock = jnp.maximum(memory.stock - (hearts > memory.hearts).sum(), 0)
        stock = jnp.where((refused & at_chest).any(), 0, stock)
        influence = sights.held[:, INFLUENCE_AT]
        at_home = words.test(words.square(memory.planes[OURS], RADIUS)[None], cells)
        weak = (sights.held[:, ALIGNER_AT] > 0) & (influence <= FIRST_INFLUENCE) & at_home
        drains = weak & (memory.weak | (influence == 0))
        drained = words.square(words.union(words.bit(cells), drains), DRAINED)
        return memory._replace(
            bumped=memory.bumped | walls,
            drained=memory.drained | drained,
            stock=stock.astype(jnp.int32),
            hearts=hearts,
            weak=weak,
        )
