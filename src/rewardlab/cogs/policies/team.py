"""What the cogs of one policy know together: a map around the hub, each other, and who may spend what."""

from __future__ import annotations

from dataclasses import dataclass, field

from rewardlab.cogs.policies import bitboard
from rewardlab.cogs.policies.api import PolicyEnvInterface, Raw
from rewardlab.cogs.policies.bitboard import CENTRE, FULL, NOWHERE, bit, grow, spread, square
from rewardlab.cogs.policies.settings import (
    ALIGNER,
    CHEST,
    IDLE,
    MINER,
    ROLES,
    SCOUT,
    SCRAMBLER,
    Settings,
    role_of_rank,
)
from rewardlab.cogs.policies.sight import PLANE, PLANES, Reader, Sight
from rewardlab.cogs.rules import ELEMENTS, EXTRACTORS, STATIONS, Rules, amounts

RULES = Rules()
COSTS = {gear: amounts(cost, ELEMENTS) for gear, cost in RULES.gear_costs}
HEART_COST = 10
RADIUS = RULES.area.radius
DAY, DUSK = 200, 100  # a day's length, and when its night begins
FORGET = 50  # steps after which a cell that refused a cog is tried again
HEARTS_AT_START = 5
BY_DAY, BY_NIGHT = 15, 8  # steps outside that 20 energy, the sun and 20 influence allow, and one for the use


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
    held_mode: int = IDLE  # as the others know them: as of the last step
    held_target: int = NOWHERE
    goal_cell: int = NOWHERE  # where its last action should have brought it
    wait: int = 0
    detour: int = 0
    since: int = 0  # when its role began
    hearts: int = 0  # before the last step
    may_buy: bool = False
    may_take: int = 0  # hearts


class Team:
    """The shared memory of the cogs of one policy."""

    def __init__(self, info: PolicyEnvInterface, settings: Settings) -> None:
        self.reader, self.settings = Reader(info), settings
        self.half = info.obs_height // 2
        self.side = info.obs_height
        self.cogs: dict[int, Cog] = {}
        self.window = sum(((1 << self.side) - 1) << (bitboard.SIZE * row) for row in range(self.side))
        self.reset()

    def reset(self) -> None:
        """Forget the episode."""
        self.planes = [0] * len(PLANES)
        self.known = self.bumped = 0
        self.step, self.stock = -1, HEARTS_AT_START
        self.store = [0] * len(ELEMENTS)
        for rank, agent_id in enumerate(sorted(self.cogs)):
            self.cogs[agent_id] = Cog(rank, role_of_rank(self.settings, rank))
        self.steps = dict.fromkeys(self.cogs, -1)

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
        cog, sight = self.cogs[agent_id], self.reader.read(raw)
        cog.sight, cog.hearts = sight, cog.sight.held["heart"]
        self.store = [sight.store[name] for name in ELEMENTS]
        self._place(cog)
        if cog.cell != NOWHERE:
            self._draw(cog)
            self._learn(cog)

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
        self.known |= shown
        for i, seen in enumerate(cog.sight.window):
            drawn = sum(bit(corner + row * bitboard.SIZE + column) for row, column in seen)
            self.planes[i] = (self.planes[i] if i == PLANE["agent"] else self.planes[i] & ~shown) | drawn

    def _learn(self, cog: Cog) -> None:
        """From what the last action did: cells that refuse, hearts taken."""
        refused = cog.goal_cell != NOWHERE and cog.sight.last_action == 0
        if refused and not bit(cog.goal_cell) & self.planes[PLANE["agent"]]:
            if bit(cog.goal_cell) & self.planes[PLANE["c:chest"]]:
                self.stock = 0
            else:
                self.bumped |= bit(cog.goal_cell)
        gained = cog.sight.held["heart"] > cog.hearts
        self.stock = max(self.stock - gained, 0)

    # What follows from it

    def update(self) -> None:
        """Draw the conclusions that all share, before decisions are made."""
        plane = self.planes
        self.ours, self.enemies = plane[PLANE["ours"]], plane[PLANE["enemies"]]
        self.territory, self.danger = square(self.ours, RADIUS), square(self.enemies, RADIUS)
        solid = self.bumped | plane[PLANE["wall"]] | plane[PLANE["c:hub"]] | plane[PLANE["c:chest"]]
        for name in (*STATIONS, *EXTRACTORS, "junction"):
            solid |= plane[PLANE[name]]
        self.ground = FULL & ~solid
        self.safe = self.territory & ~self.danger
        self.neutral = plane[PLANE["junction"]] & ~self.ours & ~self.enemies
        reach = grow(self.safe & self.ground, self.ground & ~self.danger, self._range())
        self.alignable = self.neutral & spread(reach)
        self.scramblable = plane[PLANE["junction"]] & self.enemies
        self.unknown = FULL & ~self.known
        for cog in self.cogs.values():
            cog.held_mode, cog.held_target = cog.mode, cog.target
        self._choose_roles()
        self._allow()

    def _range(self) -> int:
        """How many steps outside an aligner can make before its influence is spent."""
        in_day = self.step % DAY
        return BY_DAY if in_day < DUSK - BY_DAY else BY_NIGHT

    def _choose_roles(self) -> None:
        """One free cog changes its role where another is wanted more."""
        settings = self.settings
        free = [cog for cog in self.cogs.values() if cog.rank >= len(settings.fixed)]
        if not free or self.step % settings.plan_every or self.step == 0:
            return
        count = [0] * len(ROLES)
        for cog in self.cogs.values():
            count[cog.role] += 1
        excess = [have - want for have, want in zip(count, self.wanted_crew(), strict=True)]
        missing = excess.index(min(excess))
        if excess[missing] >= 0:
            return
        over = [self._spare(cog, excess[cog.role]) for cog in free]
        if max(over) > 0:
            cog = free[over.index(max(over))]
            cog.role, cog.since = missing, self.step

    def _spare(self, cog: Cog, excess: int) -> int:
        """How readily a cog gives up its role, 0 if it does not: those without its gear first, then the last."""
        if excess <= 0 or self.step - cog.since < self.settings.cooldown:
            return 0
        return 1000 * excess + (0 if cog.sight.held[ROLES[cog.role]] else 100) + cog.rank

    def wanted_crew(self) -> list[int]:
        """How many cogs of each role the state of the game asks for."""
        settings, cogs = self.settings, len(self.cogs)
        least = min(self.store)
        targets, enemies = self.alignable.bit_count(), self.scramblable.bit_count()
        crew = [0] * len(ROLES)
        crew[SCRAMBLER] = 1 if cogs >= 4 or enemies else 0
        crew[SCOUT] = 1 if cogs >= 6 and self.step < 300 else 0
        now = sum(cog.role == ALIGNER for cog in self.cogs.values())
        more = least // settings.rich
        wish = max(settings.aligners + more, now) if targets > 2 else settings.aligners  # hysteresis: gear is dear
        crew[ALIGNER] = min(wish, settings.most_aligners, max(cogs - crew[SCOUT] - 2, 1))
        crew[MINER] = max(cogs - sum(crew), 0)
        return crew

    def _allow(self) -> None:
        """Who may buy gear and take hearts: by rank, so that nobody walks for what another spends."""
        left = list(self.store)
        by_rank = sorted(self.cogs.values(), key=lambda cog: cog.rank)
        for cog in by_rank:
            price = COSTS[ROLES[cog.role]]
            needs = not cog.sight.held[ROLES[cog.role]] and self._wants_gear(cog)
            cog.may_buy = needs and all(have >= cost for have, cost in zip(left, price, strict=True))
            if cog.may_buy:
                left = [have - cost for have, cost in zip(left, price, strict=True)]
        hearts = self.stock + min(left) // HEART_COST
        for cog in by_rank:
            cog.may_take = min(max(self._wants_hearts(cog, hearts) - cog.sight.held["heart"], 0), hearts)
            hearts -= cog.may_take

    def _wants_gear(self, cog: Cog) -> bool:
        return cog.role in (MINER, ALIGNER) or (cog.role == SCRAMBLER and self.scramblable > 0)

    def _wants_hearts(self, cog: Cog, available: int) -> int:
        """How many hearts the cog should carry away from the chest."""
        if cog.sight.gear != ROLES[cog.role] or cog.role not in (ALIGNER, SCRAMBLER):
            return 0
        if cog.mode != CHEST and cog.sight.held["heart"]:
            return 0
        goals = (self.alignable if cog.role == ALIGNER else self.scramblable).bit_count()
        crew = sum(other.role == cog.role for other in self.cogs.values())
        spare = 2 if cog.role == ALIGNER else 0
        return min(self.settings.hearts, goals + spare, max((available + crew - 1) // crew, 1))
