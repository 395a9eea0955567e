"""What the cogs of one policy know together: a map around the hub, each other, and who may spend what."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewardlab.cogs.policies import bitboard
from rewardlab.cogs.policies.api import PolicyEnvInterface, Raw
from rewardlab.cogs.policies.bitboard import CENTRE, FULL, NOWHERE, bit, grow, spread, square
from rewardlab.cogs.policies.settings import (
    ALIGNER,
    BARE_LOAD,
    BY_DAY,
    BY_NIGHT,
    CHEST,
    COSTS,
    DAY,
    DRAINED,
    DUSK,
    FIRST_INFLUENCE,
    FORGET,
    HEART_COST,
    HEARTS_AT_START,
    IDLE,
    MINER,
    NEAR,
    RADIUS,
    RECOVER,
    ROLES,
    SCOUT,
    SCRAMBLER,
    Settings,
    role_of_rank,
)
from rewardlab.cogs.policies.sight import COMPOUND, PLANE, PLANES, Reader, Sight
from rewardlab.cogs.rules import ELEMENTS, EXTRACTORS, STATIONS


@dataclass
class Cog:
    """One agent: what it sees, what it is about."""

    rank: int
    role: int
    sight: Sight = field(default_factory=Sight)
    anchor: tuple[int, int] | None = None  # where it was born, on the map
    cell: int = NOWHERE
    mode: int = IDLE
    target: int = NOWHERE
    held_mode: int = IDLE  # mode and target as of the last step: what the others go by
    held_target: int = NOWHERE
    goal_cell: int = NOWHERE  # what its last action bumped or entered
    wait: int = 0
    detour: int = 0
    since: int = 0  # when its role began
    hearts: int = 0  # at the last step
    weak: bool = False  # at the last step: short of influence, though on own ground
    may_buy: bool = False
    may_take: int = 0  # hearts

    @property
    def geared(self) -> bool:
        """Whether it holds the gear of its role."""
        return self.sight.held[ROLES[self.role]] > 0


class Team:
    """The shared memory of the cogs of one policy."""

    def __init__(self, info: PolicyEnvInterface, settings: Settings) -> None:
        self.reader, self.settings = Reader(info), settings
        self.half = info.obs_height // 2
        row = (1 << info.obs_width) - 1
        self.window = sum(row << (bitboard.SIZE * i) for i in range(info.obs_height))
        self.cogs: dict[int, Cog] = {}
        self.reset()

    def reset(self) -> None:
        """Forget the episode."""
        self.planes = [0] * len(PLANES)
        self.known = self.bumped = self.drained = 0
        self.step, self.stock, self.explored = -1, HEARTS_AT_START, False
        self.store = [0] * len(ELEMENTS)
        ids = sorted(self.cogs)
        self.cogs = {agent_id: Cog(rank, role_of_rank(self.settings, rank)) for rank, agent_id in enumerate(ids)}
        self.steps = dict.fromkeys(ids, -1)
        self.fresh: list[Cog] = []

    def join(self, agent_id: int) -> None:
        """One more cog plays; ranks follow the ids."""
        if agent_id not in self.cogs:
            self.cogs[agent_id] = Cog(0, 0)
            self.reset()

    # What they see

    def see(self, agent_id: int, raw: Raw) -> None:
        """Take in what one cog sees now."""
        self.steps[agent_id] += 1
        if self.steps[agent_id] > self.step:
            self.step = self.steps[agent_id]
            self.planes[PLANE["agent"]] = 0
            if self.step % FORGET == 0:
                self.bumped = 0
            if self.step % RECOVER == 0:
                self.drained = 0
        cog = self.cogs[agent_id]
        cog.sight = self.reader.read(raw)
        self.store = [cog.sight.store[name] for name in ELEMENTS]
        self._place(cog)
        if cog.cell != NOWHERE:
            self._draw(cog)
        self.fresh.append(cog)

    def _place(self, cog: Cog) -> None:
        """Where the cog is on the map: its birthplace is known once it has seen the hub."""
        down, right = cog.sight.offset
        hubs = cog.sight.window[PLANE["c:hub"]]
        if cog.anchor is None and hubs:
            row, column = hubs[0]
            cog.anchor = (CENTRE - (row - self.half) - down, CENTRE - (column - self.half) - right)
        if cog.anchor is not None:
            cog.cell = bitboard.cell(cog.anchor[0] + down, cog.anchor[1] + right)

    def _draw(self, cog: Cog) -> None:
        """Write the cog's window over the map."""
        corner = cog.cell - self.half * (bitboard.SIZE + 1)
        shown = self.window << corner if corner >= 0 else self.window >> -corner
        self.known |= shown & FULL
        for i, seen in enumerate(cog.sight.window):
            drawn = sum(bit(corner + row * bitboard.SIZE + column) for row, column in seen)
            self.planes[i] = (self.planes[i] if i == PLANE["agent"] else self.planes[i] & ~shown) | drawn

    def _learn(self, cog: Cog) -> None:
        """From what the last action did: cells that refuse, influence drained, hearts taken."""
        goal, hearts = bit(cog.goal_cell), cog.sight.held["heart"]
        if goal and cog.sight.last_action == 0:
            if goal & self.planes[PLANE["c:chest"]]:
                self.stock = 0
            elif not goal & self.planes[PLANE["agent"]]:
                self.bumped |= goal
        held = cog.sight.held
        weak = held["aligner"] > 0 and held["influence"] <= FIRST_INFLUENCE and bool(bit(cog.cell) & self.territory)
        if weak and (cog.weak or not held["influence"]):
            self.drained |= square(bit(cog.cell), DRAINED)  # on own ground: by an enemy that nobody has seen
        cog.weak = weak
        self.stock = max(self.stock - (hearts > cog.hearts), 0)
        cog.hearts = hearts

    # What follows from it

    def update(self) -> None:
        """Draw the conclusions that all share, before decisions are made."""
        plane = self.planes
        self.ours, self.enemies = plane[PLANE["ours"]], plane[PLANE["enemies"]]
        self.territory = square(self.ours, RADIUS)
        for cog in self.fresh:
            self._learn(cog)
        self.fresh = []
        danger = square(self.enemies, RADIUS) | self.drained
        self.ores = [plane[PLANE[name]] for name in EXTRACTORS]
        solid = self.bumped | plane[PLANE["wall"]] | plane[PLANE["junction"]]
        for name in ("c:hub", "c:chest", *STATIONS, *EXTRACTORS):
            solid |= plane[PLANE[name]]
        self.ground = FULL & ~solid
        self.calm = self.ground & ~danger
        self.safe = self.territory & ~danger
        by_day = self.step % DAY < DUSK - BY_DAY  # and nobody who leaves now is overtaken by the night
        reach = spread(grow(self.safe & self.ground, self.calm, BY_DAY if by_day else BY_NIGHT))
        near = square(self.territory, NEAR)
        self.near_ores = [board & near or board for board in self.ores]
        self.alignable = plane[PLANE["junction"]] & ~self.ours & ~self.enemies & reach
        self.scramblable = plane[PLANE["junction"]] & self.enemies
        self.unexplored = FULL & ~self.known
        if not all(plane[PLANE[name]] for name in COMPOUND):  # it stands around the hub: look there first
            self.unexplored = self.unexplored & self.territory or self.unexplored
        for cog in self.cogs.values():
            cog.held_mode, cog.held_target = cog.mode, cog.target
            if self.step > 0 and cog.role == SCOUT and cog.held_mode == IDLE:
                self.explored = True
        self._choose_roles()
        self._allow()

    def _choose_roles(self) -> None:
        """One free cog changes its role where another is wanted more."""
        settings = self.settings
        if self.step % settings.plan_every or self.step == 0:
            return
        count = [sum(cog.role == role for cog in self.cogs.values()) for role in range(len(ROLES))]
        excess = [have - want for have, want in zip(count, self.wanted_crew(count[ALIGNER]), strict=True)]
        missing = excess.index(min(excess))
        cog = max(self.cogs.values(), key=lambda cog: self._spare(cog, excess[cog.role]))
        if excess[missing] < 0 and self._spare(cog, excess[cog.role]) > 0:
            cog.role, cog.since = missing, self.step

    def _spare(self, cog: Cog, excess: int) -> int:
        """How readily a cog gives up its role, 0 if it does not: those without its gear first, then the last."""
        bound = cog.rank < len(self.settings.fixed) or self.step - cog.since < self.settings.cooldown
        return 0 if bound or excess <= 0 else 1000 * excess + 100 * (not cog.geared) + cog.rank + 1

    def wanted_crew(self, aligners: int) -> list[int]:
        """How many cogs of each role the state of the game asks for."""
        settings, cogs = self.settings, len(self.cogs)
        scramblers = 1 if self.scramblable else settings.scrambler_until_seen
        scouts = 0 if self.explored or cogs < 6 else settings.scouts
        scramblers = scramblers if cogs >= 4 else 0
        wish = settings.aligners
        if self.alignable.bit_count() > 2:  # what was turned into an aligner stays one: gear is dear
            wish = max(wish + min(self.store) // settings.rich, aligners)
        wish = min(wish, settings.most_aligners, max(cogs - scouts - scramblers - 1, 1))
        return [wish, scramblers, max(cogs - scouts - scramblers - wish, 0), scouts]

    def _allow(self) -> None:
        """Who may buy gear and take hearts: by rank, so that nobody walks for what another spends."""
        left = list(self.store)
        by_rank = sorted(self.cogs.values(), key=lambda cog: cog.rank)
        for cog in by_rank:
            price = COSTS[cog.role]
            able = all(have >= cost for have, cost in zip(left, price, strict=True))
            cog.may_buy = able and not cog.geared and self._wants_gear(cog)
            if cog.may_buy:
                left = [have - cost for have, cost in zip(left, price, strict=True)]
        hearts = self.stock + min(left) // HEART_COST
        for cog in by_rank:
            lacking = self._wanted_hearts(cog, hearts) - cog.sight.held["heart"]
            cog.may_take = min(max(lacking, 0), hearts)
            hearts -= cog.may_take

    def _wants_gear(self, cog: Cog) -> bool:
        if cog.role == MINER:
            return not self.settings.assemble
        if cog.role == SCRAMBLER:
            return self.scramblable > 0
        return cog.role == ALIGNER or self.settings.scout_gear

    def _wanted_hearts(self, cog: Cog, available: int) -> int:
        """How many hearts the cog should carry away from the chest."""
        if self.settings.assemble and cog.role == MINER:
            return BARE_LOAD
        if cog.role in (MINER, SCOUT) or not cog.geared or (cog.mode != CHEST and cog.sight.held["heart"]):
            return 0
        goals = self.alignable.bit_count() + 2 if cog.role == ALIGNER else self.scramblable.bit_count()
        crew = sum(other.role == cog.role for other in self.cogs.values())
        return min(self.settings.hearts, goals, max((available + crew - 1) // crew, 1))
