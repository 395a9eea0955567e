"""The conclusions that all cogs of a crew share, in JAX: `Team.update` for one environment."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from rewardlab.cogs.policies import words
from rewardlab.cogs.policies.settings import (
    ALIGNER,
    BARE_LOAD,
    BY_DAY,
    BY_NIGHT,
    CHEST,
    COSTS,
    DAY,
    DUSK,
    HEART_COST,
    IDLE,
    MINER,
    NEAR,
    RADIUS,
    ROLES,
    SCOUT,
    SCRAMBLER,
    Settings,
)
from rewardlab.cogs.policies.sight import COMPOUND, PLANE
from rewardlab.cogs.policies.vision import Memory, Sight
from rewardlab.cogs.rules import EXTRACTORS, RESOURCES, STATIONS

HEART = RESOURCES.index("heart")
GEAR_AT = RESOURCES.index(ROLES[0])


class View(NamedTuple):
    """One environment as its crew sees it."""

    ours: UInt32[Array, "R W"]
    territory: UInt32[Array, "R W"]
    ground: UInt32[Array, "R W"]
    calm: UInt32[Array, "R W"]
    safe: UInt32[Array, "R W"]
    alignable: UInt32[Array, "R W"]
    scramblable: UInt32[Array, "R W"]
    known: UInt32[Array, "R W"]
    unexplored: UInt32[Array, "R W"]
    agents: UInt32[Array, "R W"]
    ores: UInt32[Array, "elements R W"]
    near_ores: UInt32[Array, "elements R W"]
    chest: UInt32[Array, "R W"]
    stations: UInt32[Array, "roles R W"]
    store: Int[Array, " elements"]


class Leave(NamedTuple):
    """What each cog may do for itself."""

    geared: Bool[Array, " A"]
    may_buy: Bool[Array, " A"]
    may_take: Int[Array, " A"]


def look(memory: Memory, sights: Sight) -> View:
    """What follows from the map."""
    plane = {name: memory.planes[i] for name, i in PLANE.items()}
    ours, enemies = plane["ours"], plane["enemies"]
    territory, danger = words.square(ours, RADIUS), words.square(enemies, RADIUS) | memory.drained
    solid = memory.bumped | plane["wall"] | plane["junction"]
    for name in ("c:hub", "c:chest", *STATIONS, *EXTRACTORS):
        solid = solid | plane[name]
    ground, safe = ~solid, territory & ~danger
    calm = ground & ~danger
    by_day = memory.step % DAY < DUSK - BY_DAY
    reach = words.spread(words.grow(safe & ground, calm, jnp.where(by_day, BY_DAY, BY_NIGHT), BY_DAY))
    ores = jnp.stack([plane[name] for name in EXTRACTORS])
    near = ores & words.square(territory, NEAR)
    complete = words.some(jnp.stack([plane[name] for name in COMPOUND])).all()
    unknown_home = ~memory.known & territory  # the compound stands around the hub: look there first
    return View(
        ours=ours,
        territory=territory,
        ground=ground,
        calm=calm,
        safe=safe,
        alignable=plane["junction"] & ~ours & ~enemies & reach,
        scramblable=plane["junction"] & enemies,
        known=memory.known,
        unexplored=jnp.where(words.some(unknown_home) & ~complete, unknown_home, ~memory.known),
        agents=plane["agent"],
        ores=ores,
        near_ores=jnp.where(words.some(near)[:, None, None], near, ores),
        chest=plane["c:chest"],
        stations=jnp.stack([plane[name] for name in STATIONS]),
        store=sights.store[-1],
    )


class Captain:
    """Chooses roles, and who may spend what."""

    def __init__(self, settings: Settings, agents: int) -> None:
        self.settings, self.agents = settings, agents
        self.ranks = jnp.arange(agents)

    def geared(self, memory: Memory, sights: Sight) -> Bool[Array, " A"]:
        """Which cogs hold the gear of their role."""
        return jnp.take_along_axis(sights.held, GEAR_AT + memory.role[:, None], -1)[:, 0] > 0

    def lead(self, memory: Memory, sights: Sight, view: View) -> tuple[Memory, Leave]:
        """Roles first, then purses."""
        lost = (memory.role == SCOUT) & (memory.mode == IDLE) & (memory.step > 0)
        memory = memory._replace(explored=memory.explored | lost.any())
        memory = self._choose_roles(memory, sights, view)
        return memory, self._allow(memory, sights, view)

    def _choose_roles(self, memory: Memory, sights: Sight, view: View) -> Memory:
        settings = self.settings
        count = (memory.role[:, None] == jnp.arange(len(ROLES))).sum(0)
        excess = count - self._wanted_crew(memory, view, count[ALIGNER])
        missing = jnp.argmin(excess)
        over = excess[memory.role]
        bound = (self.ranks < len(settings.fixed)) | (memory.step - memory.since < settings.cooldown)
        ungeared = ~self.geared(memory, sights)
        spare = jnp.where(bound | (over <= 0), 0, 1000 * over + 100 * ungeared + self.ranks + 1)
        now = (memory.step % settings.plan_every == 0) & (memory.step > 0) & (excess[missing] < 0)
        turned = now & (spare > 0) & (self.ranks == jnp.argmax(spare))
        return memory._replace(
            role=jnp.where(turned, missing, memory.role).astype(jnp.int32),
            since=jnp.where(turned, memory.step, memory.since),
        )

    def _wanted_crew(self, memory: Memory, view: View, aligners: Array) -> Int[Array, " roles"]:
        settings, cogs = self.settings, self.agents
        scramblers = jnp.where(words.some(view.scramblable), 1, settings.scrambler_until_seen) * (cogs >= 4)
        scouts = jnp.where(memory.explored | (cogs < 6), 0, settings.scouts)
        more = jnp.maximum(settings.aligners + view.store.min() // settings.rich, aligners)
        wish = jnp.where(words.count(view.alignable) > 2, more, settings.aligners)
        wish = jnp.minimum(wish, jnp.minimum(settings.most_aligners, jnp.maximum(cogs - scouts - scramblers - 1, 1)))
        return jnp.stack([wish, scramblers, jnp.maximum(cogs - scouts - scramblers - wish, 0), scouts])

    def _allow(self, memory: Memory, sights: Sight, view: View) -> Leave:
        settings, geared, role = self.settings, self.geared(memory, sights), memory.role
        by_role = jnp.asarray([True, False, not settings.assemble, settings.scout_gear])
        wants = by_role[role] | ((role == SCRAMBLER) & words.some(view.scramblable))
        prices = jnp.asarray(COSTS)[role]

        def buy(left: Array, cog: tuple[Array, Array]) -> tuple[Array, Array]:
            price, wanted = cog
            may = wanted & (left >= price).all()
            return jnp.where(may, left - price, left), may

        left, may_buy = jax.lax.scan(buy, view.store, (prices, wants & ~geared))
        crew = (role[:, None] == role[None, :]).sum(-1)
        held = sights.held[:, HEART]
        goals = jnp.where(role == ALIGNER, words.count(view.alignable) + 2, words.count(view.scramblable))
        idle = (role == MINER) | (role == SCOUT) | ~geared | ((memory.mode != CHEST) & (held > 0))

        def take(hearts: Array, cog: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array]:
            crew, goals, idle, held, role = cog
            share = jnp.maximum((hearts + crew - 1) // crew, 1)
            wanted = jnp.where(idle, 0, jnp.minimum(jnp.minimum(settings.hearts, goals), share))
            wanted = jnp.where(settings.assemble & (role == MINER), BARE_LOAD, wanted)
            taken = jnp.minimum(jnp.maximum(wanted - held, 0), hearts)
            return hearts - taken, taken

        hearts = memory.stock + left.min() // HEART_COST
        _, may_take = jax.lax.scan(take, hearts, (crew, goals, idle, held, role))
        return Leave(geared, may_buy, may_take)
