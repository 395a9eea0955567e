"""A scripted crew in JAX, for many environments at once: the decisions of `mind.py`, bit for bit."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8, UInt32

from rewardlab.cogs.policies import words
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.bitboard import NOWHERE
from rewardlab.cogs.policies.captain import HEART, Captain, Leave, View, look
from rewardlab.cogs.policies.mind import FIRST_MOVE, FIRST_VIBE, NOOP, STEPS
from rewardlab.cogs.policies.settings import (
    ALIGN,
    ALIGNER,
    BARE_LOAD,
    CHEST,
    DEPOSIT,
    DETOUR,
    ENERGY,
    EXPLORE,
    EXTRACT,
    GIVE_WAY,
    HEALED,
    HP,
    HURT,
    IDLE,
    LOAD,
    MOVE_COST,
    PATIENCE,
    RETREAT,
    ROOM,
    SCOUT,
    SCRAMBLE,
    SCRAMBLER,
    SLACK,
    STATION,
    VIBE_OF_ROLE,
    Settings,
)
from rewardlab.cogs.policies.vision import Eyes, Memory, Sight, fresh_memory
from rewardlab.cogs.rules import ELEMENTS, MOVES, RESOURCES

ENERGY_AT, HP_AT, INFLUENCE_AT = (RESOURCES.index(name) for name in ("energy", "hp", "influence"))
ALIGNER_AT, MINER_AT = RESOURCES.index("aligner"), RESOURCES.index("miner")
CARGO = slice(RESOURCES.index(ELEMENTS[0]), RESOURCES.index(ELEMENTS[0]) + len(ELEMENTS))
UNBOUNDED = (1 << 31) - 1
Scene = tuple[Sight, View, Leave, Array]  # of one environment; the last are the cogs' cells


class Plan(NamedTuple):
    """Per cog: what it is to do, where it can, and what it would explore instead."""

    mode: Int[Array, " A"]
    wanted: UInt32[Array, "A R W"]
    unknown: UInt32[Array, "A R W"]
    searching: Bool[Array, " A"]


class Crew:
    """A vectorised policy: `init`, `act` and `restart` are pure."""

    def __init__(self, info: PolicyEnvInterface, settings: Settings, agents: int | None = None) -> None:
        self.settings, self.agents = settings, agents or info.num_agents
        self.eyes, self.captain = Eyes(info), Captain(settings, self.agents)
        self.ranks = jnp.arange(self.agents)

    def init(self, envs: int) -> Memory:
        """The memory of `envs` fresh episodes."""
        one = fresh_memory(self.settings, self.agents)
        memory: Memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), one)
        return memory

    def restart(self, memory: Memory, over: Bool[Array, " E"]) -> Memory:
        """The memory with the environments that are over as fresh ones."""
        fresh = self.init(over.shape[0])

        def pick(new: Array, old: Array) -> Array:
            return jnp.where(over.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        mixed: Memory = jax.tree.map(pick, fresh, memory)
        return mixed

    def act(
        self, memory: Memory, observations: UInt8[Array, "E A T 3"], key: PRNGKeyArray | None = None
    ) -> tuple[Int[Array, "E A"], Memory]:
        """Everybody's action. `key` is not needed: a crew throws no dice."""
        sights = jax.vmap(jax.vmap(self.eyes.read))(observations)
        memory, scene, plan = jax.vmap(self._think)(memory, sights)
        memory = self._aim(memory, scene, plan)
        return self._move(memory, scene)

    def _think(self, memory: Memory, sights: Sight) -> tuple[Memory, Scene, Plan]:
        """One environment, up to what each cog wants."""
        memory, cells = self.eyes.see(memory, sights)
        view = look(memory, sights)
        memory, leave = self.captain.lead(memory, sights, view)
        scene = (sights, view, leave, cells)
        return memory, scene, self._purpose(memory, scene)

    # Where to

    def _purpose(self, memory: Memory, scene: Scene) -> Plan:
        sights, view, leave, cells = scene
        role, geared = memory.role, leave.geared
        heart, hp = sights.held[:, HEART], sights.held[:, HP_AT]
        aligning = (role == ALIGNER) & geared & (heart > 0)
        scrambling = (role == SCRAMBLER) & (geared | ~words.some(view.scramblable))
        busy = jnp.where(aligning, ALIGN, jnp.where(scrambling, SCRAMBLE, EXTRACT))
        others = self._others(memory, busy)
        ores = self._wanted_ores(memory, view, others)
        targets = jnp.where(aligning[:, None, None], view.alignable, view.scramblable) & ~others
        some_target, some_ore = words.some(targets), words.some(ores)

        mode = self._mine(memory, sights, some_ore)
        mode = jnp.where((role == SCOUT) & ~memory.explored, EXPLORE, mode)
        mode = jnp.where(scrambling, jnp.where((heart > 0) & some_target, SCRAMBLE, EXPLORE), mode)
        spent = (sights.held[:, INFLUENCE_AT] == 0) & ~words.test(view.safe[None], cells)
        align = jnp.where(some_target, jnp.where(spent, RETREAT, ALIGN), EXPLORE)
        mode = jnp.where(aligning, align, mode)
        mode = jnp.where((leave.may_take > 0) & ((heart == 0) | (memory.mode == CHEST)), CHEST, mode)
        laden = sights.held[:, CARGO].sum(-1) > BARE_LOAD
        mode = jnp.where(leave.may_buy, jnp.where(laden, DEPOSIT, STATION), mode)
        hurt = (hp < HURT) | ((memory.mode == RETREAT) & (hp < HEALED))
        mode = jnp.where(hurt & ~words.test(view.territory[None], cells), RETREAT, mode)
        return self._choose(memory, view, mode, targets, ores, cells)

    def _choose(self, memory: Memory, view: View, mode: Array, targets: Array, ores: Array, cells: Array) -> Plan:
        """The boards that belong to the modes, and who needs a new target."""
        wanted = jnp.zeros_like(targets)
        boards = {
            STATION: view.stations[memory.role],
            CHEST: view.chest,
            ALIGN: targets,
            SCRAMBLE: targets,
            EXTRACT: ores,
            DEPOSIT: view.ours,
            RETREAT: view.safe & view.ground,
        }
        for code, board in boards.items():
            wanted = jnp.where((mode == code)[:, None, None], board, wanted)
        exploring = jnp.full(self.agents, EXPLORE)
        unknown = view.unexplored & ~words.square(self._others(memory, exploring), ROOM)
        all_ores = view.ores[0] | view.ores[1] | view.ores[2] | view.ores[3]
        keep = jnp.where((mode == EXTRACT)[:, None, None], all_ores, wanted)
        kept = (memory.mode == mode) & words.test(keep, memory.target)
        still = (memory.mode == EXPLORE) & ~words.some(wanted) & words.test(unknown, memory.target)
        return Plan(mode, wanted, unknown, ~(kept | still) & (cells >= 0))

    def _mine(self, memory: Memory, sights: Sight, some_ore: Array) -> Int[Array, " A"]:
        cargo = sights.held[:, CARGO].sum(-1)
        full = cargo >= jnp.where(sights.held[:, MINER_AT] > 0, LOAD, BARE_LOAD)
        deposit = full | ((cargo > 0) & ((memory.mode == DEPOSIT) | ~some_ore))
        return jnp.where(deposit, DEPOSIT, jnp.where(some_ore, EXTRACT, EXPLORE))

    def _wanted_ores(self, memory: Memory, view: View, others: Array) -> UInt32[Array, "A R W"]:
        aimed = words.test(view.ores[:, None], jnp.broadcast_to(memory.target, (len(ELEMENTS), self.agents)))
        aimed = (aimed & (memory.mode == EXTRACT)).astype(jnp.int32)
        need = view.store[:, None] + LOAD * (aimed.sum(-1, keepdims=True) - aimed)  # of the others
        there = words.some(view.near_ores)[:, None]
        least = jnp.where(there, need, UNBOUNDED).min(0)
        least = jnp.where(there.any(), least, 0)
        wanted = words.union(view.near_ores, (need <= least + SLACK).T)
        apart = wanted & ~others
        return jnp.where(words.some(apart)[:, None, None], apart, wanted)

    def _others(self, memory: Memory, mode: Int[Array, " A"]) -> UInt32[Array, "A R W"]:
        """Per cog the cells that others are after in its mode; one that two hold is left to the lower rank."""
        target, ranks = memory.target, self.ranks
        first = (ranks[None] < ranks[:, None]) | (target[None] != target[:, None])
        theirs = (ranks[None] != ranks[:, None]) & (memory.mode[None] == mode[:, None]) & first
        return words.union(words.bit(target), theirs)

    def _aim(self, memory: Memory, scene: Scene, plan: Plan) -> Memory:
        """The nearest target where one is needed; all environments search at once."""
        _, view, _, cells = scene
        ground = jnp.broadcast_to(view.ground[:, None], plan.wanted.shape)
        lanes = [_lanes(x) for x in (cells, plan.wanted, plan.unknown, ground, plan.searching)]
        target, found = (x.reshape(cells.shape) for x in words.nearest(*lanes))
        mode = jnp.where(found, plan.mode, jnp.where(target != NOWHERE, EXPLORE, IDLE))
        return memory._replace(
            mode=jnp.where(plan.searching, mode, memory.mode).astype(jnp.int32),
            target=jnp.where(plan.searching, target, memory.target).astype(jnp.int32),
        )

    # How

    def _move(self, memory: Memory, scene: Scene) -> tuple[Int[Array, "E A"], Memory]:
        """A step on a shortest path; all environments search at once."""
        sights, view, _, cells = scene
        vibe = jnp.asarray(VIBE_OF_ROLE)[memory.role]
        shows = (sights.vibe != vibe) & self.settings.show_vibe & (cells >= 0)
        able = (cells >= 0) & ~shows & (sights.held[..., ENERGY_AT] >= MOVE_COST)
        going = able & (memory.target != NOWHERE)
        calm = (memory.mode == ALIGN) & jax.vmap(lambda board, at: words.test(board[None], at))(view.calm, cells)
        ground = jnp.where(calm[..., None, None], view.calm[:, None], view.ground[:, None])
        around = going & (memory.detour > 0)
        ground = jnp.where(around[..., None, None], ground & ~view.agents[:, None], ground)
        memory = memory._replace(detour=memory.detour - around)
        start, goal, passable, searching = (_lanes(x) for x in (cells, memory.target, ground, going))
        options = words.towards(start, goal, passable, searching, STEPS).reshape(*cells.shape, len(STEPS))
        return jax.vmap(self._step)(memory, scene, options, able, shows)

    def _step(
        self, memory: Memory, scene: Scene, options: Array, able: Array, shows: Array
    ) -> tuple[Int[Array, " A"], Memory]:
        """The actions of one environment."""
        sights, view, leave, cells = scene
        nearby = cells[:, None] + jnp.asarray(STEPS)
        firm, cogs, known, safe = (
            words.test(board[None, None], nearby) for board in (view.ground, view.agents, view.known, view.safe)
        )
        direction = _first(options & ~(cogs & firm), self.ranks)
        going = able & (memory.target != NOWHERE)
        blocked = going & (direction == NOWHERE)
        wait = memory.wait + blocked
        detour = jnp.where(blocked & (wait == PATIENCE), DETOUR, memory.detour)
        aside = _first(firm & ~cogs & known, self.ranks + memory.step)
        steps_aside = (blocked & (wait >= GIVE_WAY)) | (able & ~going & cogs.any(-1))
        here = words.test(view.safe[None], cells)
        at = jnp.maximum(direction, 0)[:, None]
        firm_there, safe_there = (jnp.take_along_axis(x, at, -1)[:, 0] for x in (firm, safe))
        leaving = here & firm_there & ~safe_there & ~self._fit(memory, sights, leave)
        direction = jnp.where(going & ~blocked & ~leaving, direction, jnp.where(steps_aside, aside, NOWHERE))
        return self._settle(memory, scene, direction, firm, wait, detour, shows)

    def _settle(
        self, memory: Memory, scene: Scene, direction: Array, firm: Array, wait: Array, detour: Array, shows: Array
    ) -> tuple[Int[Array, " A"], Memory]:
        """Of several that want to enter a cell, the lowest rank does."""
        sights, _, _, cells = scene
        moves = direction != NOWHERE
        cell = cells + jnp.asarray(STEPS)[jnp.maximum(direction, 0)]
        entered = jnp.take_along_axis(firm, jnp.maximum(direction, 0)[:, None], -1)[:, 0]
        claim = jnp.where(moves & entered, cell, NOWHERE)
        before = self.ranks[None] < self.ranks[:, None]
        taken = (before & (claim[None] == claim[:, None])).any(-1) & (claim != NOWHERE)
        moves = moves & ~taken
        vibe = FIRST_VIBE + jnp.asarray(VIBE_OF_ROLE)[memory.role]
        action = jnp.where(moves, FIRST_MOVE + direction, jnp.where(shows, vibe, NOOP))
        action = jnp.where(cells >= 0, action, self._wander(memory, sights))
        memory = memory._replace(
            wait=jnp.where(moves, 0, wait + taken).astype(jnp.int32),
            detour=detour.astype(jnp.int32),
            goal_cell=jnp.where(moves, cell, NOWHERE).astype(jnp.int32),
        )
        return action.astype(jnp.int32), memory

    def _fit(self, memory: Memory, sights: Sight, leave: Leave) -> Bool[Array, " A"]:
        held = sights.held
        hp = jnp.where(leave.geared, jnp.asarray(HP)[memory.role], 100)
        energy = jnp.where(leave.geared, jnp.asarray(ENERGY)[memory.role], 20)
        enough = (held[:, HP_AT] >= hp - 20) & (held[:, ENERGY_AT] >= energy - MOVE_COST)
        return enough & ((held[:, ALIGNER_AT] == 0) | (held[:, INFLUENCE_AT] > 15))

    def _wander(self, memory: Memory, sights: Sight) -> Int[Array, " A"]:
        """Cogs that have not found the hub."""
        direction = (memory.step // 4 + self.ranks) % len(STEPS)
        place = self.eyes.half + jnp.asarray(list(MOVES.values()))[direction]
        rows = jnp.take_along_axis(sights.window, place[:, None, :1], -1)[..., 0]
        free = ((rows >> place[:, 1:].astype(jnp.uint32)) & 1 == 0).all(-1)
        return jnp.where(free & (sights.held[:, ENERGY_AT] >= MOVE_COST), FIRST_MOVE + direction, NOOP)


def _lanes(x: Array) -> Array:
    """Environments and agents as one axis."""
    return x.reshape(-1, *x.shape[2:])


def _first(options: Bool[Array, "A 4"], turn: Int[Array, " A"]) -> Int[Array, " A"]:
    """The first direction that is an option, counted from a turn of its own; NOWHERE if none is."""
    order = (jnp.arange(len(STEPS)) + turn[:, None]) % len(STEPS)
    among = jnp.take_along_axis(options, order, -1)
    chosen = jnp.take_along_axis(order, jnp.argmax(among, -1)[:, None], -1)[:, 0]
    return jnp.where(among.any(-1), chosen, NOWHERE)
