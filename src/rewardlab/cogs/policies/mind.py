"""How one cog decides, in plain Python. `role.py` decides the same in JAX, for many episodes at once."""

from __future__ import annotations

from rewardlab.cogs.policies.bitboard import NOWHERE, SIZE, bit, nearest, spread, square, towards
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
    MINER,
    MOVE_COST,
    PATIENCE,
    RETREAT,
    ROLES,
    ROOM,
    SCOUT,
    SCRAMBLE,
    SCRAMBLER,
    SLACK,
    STATION,
    VIBE_OF_ROLE,
)
from rewardlab.cogs.policies.sight import PLANE
from rewardlab.cogs.policies.team import Cog, Team
from rewardlab.cogs.rules import MOVES, STATIONS

NOOP = 0
STEPS = tuple(row * SIZE + column for row, column in MOVES.values())  # of actions 1 to 4
FIRST_MOVE, FIRST_VIBE = 1, 1 + len(MOVES)

Purpose = tuple[int, int]  # a mode, and the cells where it can be done


class Mind:
    """Decides for the cogs of a team."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def decide(self, cog: Cog, claimed: set[int]) -> int:
        """The action of one cog; `claimed` holds the cells that cogs of lower rank want to enter in this step."""
        cog.goal_cell = NOWHERE
        if cog.cell == NOWHERE:
            return self._wander(cog)
        self._aim(cog)
        if self.team.settings.show_vibe and cog.sight.vibe != VIBE_OF_ROLE[cog.role]:
            return FIRST_VIBE + VIBE_OF_ROLE[cog.role]
        if cog.sight.held["energy"] < MOVE_COST:
            return NOOP
        direction = self._direction(cog)
        if direction is None:
            return NOOP
        cell = cog.cell + STEPS[direction]
        if bit(cell) & self.team.ground:
            if cell in claimed:
                cog.wait += 1
                return NOOP
            claimed.add(cell)
        cog.wait, cog.goal_cell = 0, cell
        return FIRST_MOVE + direction

    # Where to

    def _aim(self, cog: Cog) -> None:
        """Keep the target while it is good, else take the nearest; without one, explore."""
        team = self.team
        mode, wanted = self._purpose(cog)
        unknown = team.unexplored & ~self._others(cog, EXPLORE, ROOM)
        keep = team.ores[0] | team.ores[1] | team.ores[2] | team.ores[3] if mode == EXTRACT else wanted
        if cog.mode == mode and bit(cog.target) & keep:
            return
        if cog.mode == EXPLORE and not wanted and bit(cog.target) & unknown:
            return
        cog.target, found = nearest(cog.cell, wanted, unknown, team.ground)
        cog.mode = mode if found else EXPLORE if cog.target != NOWHERE else IDLE

    def _purpose(self, cog: Cog) -> Purpose:
        """What the cog is to do; exploring is what remains, so it names no cells."""
        team, hp = self.team, cog.sight.held["hp"]
        outside = not bit(cog.cell) & team.territory
        if outside and (hp < HURT or (cog.mode == RETREAT and hp < HEALED)):
            return RETREAT, team.safe & team.ground
        if cog.may_buy:
            if cog.sight.cargo > BARE_LOAD:
                return DEPOSIT, team.ours
            return STATION, team.planes[PLANE[STATIONS[cog.role]]]
        if cog.may_take and (not cog.sight.held["heart"] or cog.mode == CHEST):
            return CHEST, team.planes[PLANE["c:chest"]]
        if cog.role == ALIGNER and cog.geared and cog.sight.held["heart"]:
            return self._align(cog)
        if cog.role == SCRAMBLER and (cog.geared or not team.scramblable):
            targets = team.scramblable & ~self._others(cog, SCRAMBLE)
            return (SCRAMBLE, targets) if cog.sight.held["heart"] and targets else (EXPLORE, 0)
        if cog.role == SCOUT and not team.explored:
            return EXPLORE, 0
        return self._mine(cog)

    def _align(self, cog: Cog) -> Purpose:
        """The junctions that influence reaches; back to own ground if it is spent."""
        team = self.team
        targets = team.alignable & ~self._others(cog, ALIGN)
        if not targets:
            return EXPLORE, 0
        if not cog.sight.held["influence"] and not bit(cog.cell) & team.safe:
            return RETREAT, team.safe & team.ground
        return ALIGN, targets

    def _mine(self, cog: Cog) -> Purpose:
        """Extract until the load is full, then deposit all of it."""
        cargo, wanted = cog.sight.cargo, self._wanted_ores(cog)
        full = cargo >= (LOAD if cog.sight.held[ROLES[MINER]] else BARE_LOAD)
        if full or (cargo and (cog.mode == DEPOSIT or not wanted)):
            return DEPOSIT, self.team.ours
        return (EXTRACT, wanted) if wanted else (EXPLORE, 0)

    def _wanted_ores(self, cog: Cog) -> int:
        """Extractors of the elements that the store lacks most, near own ground if there are any."""
        team = self.team
        boards = team.near_ores
        need = [
            stored + LOAD * self._miners_of(cog, board) for stored, board in zip(team.store, team.ores, strict=True)
        ]
        least = min((amount for amount, board in zip(need, boards, strict=True) if board), default=0)
        wanted = 0
        for amount, board in zip(need, boards, strict=True):
            if amount <= least + SLACK:
                wanted |= board
        return wanted & ~self._others(cog, EXTRACT) or wanted

    def _miners_of(self, cog: Cog, board: int) -> int:
        others = (other for other in self.team.cogs.values() if other is not cog and other.held_mode == EXTRACT)
        return sum(bool(bit(other.held_target) & board) for other in others)

    def _others(self, cog: Cog, mode: int, room: int = 0) -> int:
        """Cells that others are after; one that two hold is left to the lower rank."""
        board = 0
        for other in self.team.cogs.values():
            apart = other is cog or other.held_mode != mode
            if not apart and (other.rank < cog.rank or other.held_target != cog.held_target):
                board |= bit(other.held_target)
        return square(board, room)

    # How

    def _direction(self, cog: Cog) -> int | None:
        """The next step of a shortest path; None to stay."""
        team = self.team
        if cog.target == NOWHERE:  # nothing to do: out of the way of others
            beside = spread(bit(cog.cell)) & ~bit(cog.cell) & team.planes[PLANE["agent"]]
            return self._aside(cog) if beside else None
        cogs = team.planes[PLANE["agent"]]
        ground = team.calm if cog.mode == ALIGN and bit(cog.cell) & team.calm else team.ground
        if cog.detour:
            cog.detour -= 1
            ground &= ~cogs
        options = towards(cog.cell, cog.target, ground) & ~(cogs & team.ground)
        direction = self._first(cog, options, cog.rank)
        if direction is None:
            return self._blocked(cog)
        cell = bit(cog.cell + STEPS[direction])
        leaving = bit(cog.cell) & team.safe and cell & team.ground & ~team.safe
        return None if leaving and not self._fit(cog) else direction

    def _first(self, cog: Cog, options: int, turn: int) -> int | None:
        """The first direction that leads to one of the cells, counted from a turn of its own."""
        for i in range(len(STEPS)):
            direction = (i + turn) % len(STEPS)
            if bit(cog.cell + STEPS[direction]) & options:
                return direction
        return None

    def _fit(self, cog: Cog) -> bool:
        """Filled up, as one is after a moment in an own area."""
        held = cog.sight.held
        hp, energy = (HP[cog.role], ENERGY[cog.role]) if cog.geared else (100, 20)
        enough = held["hp"] >= hp - 20 and held["energy"] >= energy - MOVE_COST
        return enough and (not held["aligner"] or held["influence"] > 15)

    def _blocked(self, cog: Cog) -> int | None:
        """No shortest path is free: wait, then keep around the others, then step aside."""
        cog.wait += 1
        if cog.wait == PATIENCE:
            cog.detour = DETOUR
        return self._aside(cog) if cog.wait >= GIVE_WAY else None

    def _aside(self, cog: Cog) -> int | None:
        free = self.team.ground & ~self.team.planes[PLANE["agent"]] & self.team.known
        return self._first(cog, free, cog.rank + self.team.step)

    def _wander(self, cog: Cog) -> int:
        """The hub is not found yet: straight on, turning now and then."""
        direction = (self.team.step // 4 + cog.rank) % len(STEPS)
        row, column = list(MOVES.values())[direction]
        place = (self.team.half + row, self.team.half + column)
        free = not any(place in seen for seen in cog.sight.window)
        return FIRST_MOVE + direction if free and cog.sight.held["energy"] >= MOVE_COST else NOOP
