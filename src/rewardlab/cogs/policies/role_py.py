"""`role_py`: decisions in plain Python. `role.py` makes the same ones in JAX, for many episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.policies.api import Action, AgentObservation, AgentPolicy, MultiAgentPolicy, PolicyEnvInterface
from rewardlab.cogs.policies.bitboard import FULL, NOWHERE, SIZE, bit, nearest, spread, square, towards
from rewardlab.cogs.policies.settings import (
    ALIGN,
    ALIGNER,
    CHEST,
    DEPOSIT,
    EXPLORE,
    EXTRACT,
    IDLE,
    MINER,
    MODES,
    RETREAT,
    ROLES,
    SCOUT,
    SCRAMBLE,
    SCRAMBLER,
    STATION,
    VIBE_OF_ROLE,
    Settings,
)
from rewardlab.cogs.policies.sight import PLANE
from rewardlab.cogs.policies.team import Cog, Team
from rewardlab.cogs.rules import ACTIONS, ELEMENTS, EXTRACTORS, MOVES, STATIONS

NOOP = 0
MOVE_COST = 4
STEPS = tuple(row * SIZE + column for row, column in MOVES.values())  # of actions 1 to 4
FIRST_MOVE, FIRST_VIBE = 1, 1 + len(MOVES)
LOAD, BARE_LOAD = 40, 4
SLACK = 15  # how much more of an element than of the scarcest may be stored and still be mined
ROOM = 5  # explorers keep this far from each other's goals
NEAR = 4  # miners stay this close to own ground where they can


class Mind:
    """Decides for the cogs of a team."""

    def __init__(self, team: Team) -> None:
        self.team = team

    def decide(self, cog: Cog, claimed: set[int]) -> int:
        """The action of one cog; `claimed` holds the cells that cogs of lower rank enter in this step."""
        if cog.cell == NOWHERE:
            return self._wander(cog)
        self._aim(cog)
        cog.goal_cell = NOWHERE
        if self.team.settings.show_vibe and cog.sight.vibe != VIBE_OF_ROLE[cog.role]:
            return FIRST_VIBE + VIBE_OF_ROLE[cog.role]
        if cog.sight.held["energy"] < MOVE_COST:
            return NOOP
        return self._move(cog, claimed)

    # Where to

    def _aim(self, cog: Cog) -> None:
        """Keep the target while it is good, else take the nearest."""
        team = self.team
        mode, wanted = self._purpose(cog)
        unknown = team.unknown & ~self._others(cog, (EXPLORE,), ROOM)
        if mode == EXPLORE:
            wanted, mode = 0, IDLE
        keep = self._all_ores() if mode == EXTRACT else wanted  # what the store lacks changes with every choice
        if cog.mode == mode and bit(cog.target) & keep:
            return
        if cog.mode == EXPLORE and not wanted and bit(cog.target) & unknown:
            return
        cog.target, found = nearest(cog.cell, wanted, unknown, team.ground)
        cog.mode = mode if found else EXPLORE if cog.target != NOWHERE else IDLE

    def _purpose(self, cog: Cog) -> tuple[int, int]:
        """What the cog is to do, and the cells where it can."""
        team, held = self.team, cog.sight.held
        here = bit(cog.cell)
        outside = not here & team.territory
        gear = cog.sight.gear == ROLES[cog.role]
        if outside and (held["hp"] < 40 or (cog.mode == RETREAT and held["hp"] < 90)):
            return RETREAT, team.safe & team.ground
        if not gear and cog.may_buy:
            if cog.sight.cargo > BARE_LOAD:
                return DEPOSIT, team.ours
            return STATION, team.planes[PLANE[STATIONS[cog.role]]]
        if cog.role == ALIGNER and gear:
            return self._align(cog)
        if cog.role == SCRAMBLER and (gear or not team.scramblable):
            return self._scramble(cog)
        if cog.role == SCOUT:
            return EXPLORE, 0
        return self._mine(cog)

    def _align(self, cog: Cog) -> tuple[int, int]:
        team, held = self.team, cog.sight.held
        if cog.may_take and (not held["heart"] or cog.mode == CHEST):
            return CHEST, team.planes[PLANE["c:chest"]]
        targets = team.alignable & ~self._others(cog, (ALIGN,))
        if held["heart"] and targets:
            if not held["influence"] and not bit(cog.cell) & team.safe:
                return RETREAT, team.safe & team.ground
            return ALIGN, targets
        return self._mine(cog) if not held["heart"] else (EXPLORE, 0)

    def _scramble(self, cog: Cog) -> tuple[int, int]:
        team, held = self.team, cog.sight.held
        if cog.may_take and (not held["heart"] or cog.mode == CHEST):
            return CHEST, team.planes[PLANE["c:chest"]]
        targets = team.scramblable & ~self._others(cog, (SCRAMBLE,))
        if held["heart"] and targets:
            return SCRAMBLE, targets
        return EXPLORE, 0

    def _mine(self, cog: Cog) -> tuple[int, int]:
        team = self.team
        load = LOAD if cog.sight.gear == ROLES[MINER] else BARE_LOAD
        if cog.sight.cargo >= load or (cog.mode == DEPOSIT and cog.sight.cargo):
            return DEPOSIT, team.ours
        wanted = self._ores(cog)
        if wanted:
            return EXTRACT, wanted
        return (DEPOSIT, team.ours) if cog.sight.cargo else (EXPLORE, 0)

    def _ores(self, cog: Cog) -> int:
        """Extractors of the elements that the store lacks most, near own ground if there are any."""
        team = self.team
        near = square(team.territory, NEAR)
        everywhere = [team.planes[PLANE[name]] for name in EXTRACTORS]
        boards = [board & near or board for board in everywhere]
        others = [other for other in team.cogs.values() if other is not cog and other.held_mode == EXTRACT]
        need = [
            stored + LOAD * sum(bool(bit(other.held_target) & board) for other in others) if board else None
            for stored, board in zip(team.store, everywhere, strict=True)
        ]
        known = [amount for amount in need if amount is not None]
        if not known:
            return 0
        wanted = 0
        for amount, board in zip(need, boards, strict=True):
            if amount is not None and amount <= min(known) + SLACK:
                wanted |= board
        return wanted & ~self._others(cog, (EXTRACT,)) or wanted

    def _all_ores(self) -> int:
        board = 0
        for name in EXTRACTORS:
            board |= self.team.planes[PLANE[name]]
        return board

    def _others(self, cog: Cog, modes: Sequence[int], room: int = 0) -> int:
        """Cells that others are after; one that two hold is left to the lower rank."""
        board = 0
        for other in self.team.cogs.values():
            if other is not cog and other.held_mode in modes and other.held_target != NOWHERE:
                if other.rank < cog.rank or other.held_target != cog.target:
                    board |= bit(other.held_target)
        return square(board, room) if room else board

    # How

    def _move(self, cog: Cog, claimed: set[int]) -> int:
        """One step on a shortest path, around other cogs if they stay in the way."""
        team = self.team
        if cog.target == NOWHERE:
            return self._yield(cog)
        cogs = team.planes[PLANE["agent"]]
        ground = team.ground
        if cog.mode == ALIGN and not bit(cog.cell) & team.danger:
            ground &= ~team.danger
        options = 0
        if cog.detour:
            cog.detour -= 1
            options = towards(cog.cell, cog.target, ground & ~cogs)
        options = options or towards(cog.cell, cog.target, ground)
        if not bit(cog.target) & options or bit(cog.target) & team.ground:
            options &= ~cogs
        for turn in range(len(STEPS)):
            direction = (turn + cog.rank) % len(STEPS)
            if bit(cog.cell + STEPS[direction]) & options:
                return self._enter(cog, direction, claimed)
        return self._blocked(cog)

    def _enter(self, cog: Cog, direction: int, claimed: set[int]) -> int:
        """Move there, if nobody of lower rank does and the cog is fit for what lies outside."""
        team, cell = self.team, cog.cell + STEPS[direction]
        here, there = bit(cog.cell), bit(cell)
        if here & team.safe and not there & team.safe and there & team.ground and not self._fit(cog):
            return NOOP
        if there & team.ground:
            if cell in claimed:
                cog.wait += 1
                return NOOP
            claimed.add(cell)
        cog.wait, cog.goal_cell = 0, cell
        return FIRST_MOVE + direction

    def _fit(self, cog: Cog) -> bool:
        """Filled up, as one is after a moment in an own area."""
        held = cog.sight.held
        gear = cog.sight.gear
        hp = 400 if gear == "scout" else 200 if gear == "scrambler" else 100
        energy = 100 if gear == "scout" else 20
        return held["hp"] >= hp - 20 and held["energy"] >= energy - 4 and (gear != "aligner" or held["influence"] > 15)

    def _blocked(self, cog: Cog) -> int:
        """Other cogs stand on every shortest path: wait, then look for a way around them, then step aside."""
        cog.wait += 1
        if cog.wait >= 2:
            cog.detour = 6
        return self._aside(cog) if cog.wait >= 4 else NOOP

    def _yield(self, cog: Cog) -> int:
        """Nothing to do: out of the way of cogs that pass."""
        beside = spread(bit(cog.cell)) & ~bit(cog.cell) & self.team.planes[PLANE["agent"]]
        return self._aside(cog) if beside else NOOP

    def _aside(self, cog: Cog) -> int:
        free = self.team.ground & ~self.team.planes[PLANE["agent"]] & self.team.known
        for turn in range(len(STEPS)):
            direction = (turn + cog.rank + self.team.step) % len(STEPS)
            if bit(cog.cell + STEPS[direction]) & free:
                cog.wait, cog.goal_cell = 0, cog.cell + STEPS[direction]
                return FIRST_MOVE + direction
        return NOOP

    def _wander(self, cog: Cog) -> int:
        """The hub is not found yet: straight on, turning now and then."""
        direction = (self.team.step // 4 + cog.rank) % len(STEPS)
        centre = self.team.half
        row, column = list(MOVES.values())[direction]
        if any((centre + row, centre + column) in seen for seen in cog.sight.window):
            return NOOP
        return FIRST_MOVE + direction if cog.sight.held["energy"] >= MOVE_COST else NOOP


class Scripted(MultiAgentPolicy):
    """A crew of cogs that share one map."""

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", **kwargs: Any) -> None:
        super().__init__(policy_env_info, device)
        self.team = Team(policy_env_info, self.settings(**kwargs))
        self.mind = Mind(self.team)
        self.claimed: set[int] = set()
        self.claimed_at = -1

    def settings(self, **kwargs: Any) -> Settings:
        """The crew that the arguments ask for."""
        return Settings(**kwargs)

    def reset(self) -> None:
        """Forget the episode."""
        super().reset()
        self.team.reset()
        self.claimed_at = -1

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """A cog of the crew."""
        self.team.join(agent_id)
        if agent_id not in self._agents:
            self._agents[agent_id] = ScriptedCog(self, agent_id)
        return self._agents[agent_id]

    def decide(self, agent_id: int) -> int:
        """The action of one cog, once `team` is up to date."""
        if self.claimed_at != self.team.step:
            self.claimed, self.claimed_at = set(), self.team.step
        return self.mind.decide(self.team.cogs[agent_id], self.claimed)

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """All cogs see, then all decide."""
        for agent_id in range(len(raw_observations)):
            self.team.join(agent_id)
        for agent_id, raw in enumerate(raw_observations):
            self.team.see(agent_id, raw)
        self.team.update()
        for agent_id in range(len(raw_observations)):
            raw_actions[agent_id] = self.decide(agent_id)


class ScriptedCog(AgentPolicy):
    """One cog; it sees and decides when it is asked, with what the others saw before."""

    def __init__(self, crew: Scripted, agent_id: int) -> None:
        super().__init__(crew.policy_env_info)
        self.crew, self.agent_id = crew, agent_id

    def step(self, obs: AgentObservation) -> Action:
        """See, think, act."""
        team = self.crew.team
        team.see(self.agent_id, obs.raw(self.policy_env_info.observation_space.shape[0]))
        team.update()
        action = ACTIONS[self.crew.decide(self.agent_id)]
        cog = team.cogs[self.agent_id]
        self.infos = {"role": ROLES[cog.role], "about": MODES[cog.mode], "target": cog.target}
        return Action(action)

    def reset(self, simulation: object | None = None) -> None:
        """Before an episode: the whole crew forgets, once."""
        if self.crew.team.step >= 0:
            self.crew.team.reset()
            self.crew.claimed_at = -1
