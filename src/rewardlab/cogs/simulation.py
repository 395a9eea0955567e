"""One episode on the host: step it with plain actions and look at everything. For scripted policies, views, replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.maps.grid import Cell, GameMap
from rewardlab.cogs.maps.pool import Layout, MapPool, choose_spawns, make_pool
from rewardlab.cogs.missions import Mission
from rewardlab.cogs.observe import EXTRACTOR_CODES
from rewardlab.cogs.rules import ACTIONS, CODE, FIRST_AGENT, FIRST_TEAM, KINDS, RESOURCES, STORED, VIBES, Rules
from rewardlab.cogs.state import State
from rewardlab.cogs.statistics import agent_stats, game_stats, team_stats

TABLE = 32  # tables of objects are filled up to a multiple of this: maps of one mission share a compiled program


@dataclass(frozen=True)
class ObjectView:
    """An object as it stands: `owner` is a collective's name or None, `amount` what an extractor still holds."""

    kind: str
    row: int
    col: int
    owner: str | None
    amount: int


@dataclass(frozen=True)
class AgentView:
    """A cog as it stands; inventories leave out what is zero."""

    id: int
    team: str
    row: int
    col: int
    vibe: str
    last_action: str
    inventory: dict[str, int]


@dataclass(frozen=True)
class StepView:
    """What a step gave: per agent the observation, the reward, and whether its action succeeded."""

    observations: NDArray[np.uint8]
    rewards: NDArray[np.float32]
    success: NDArray[np.bool_]
    terminated: bool
    truncated: bool


@lru_cache(maxsize=16)
def _programs(rules: Rules, layout: Layout) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The compiled start and step of one environment; the map is an argument."""

    def start(pool: MapPool) -> Any:
        engine = Engine(rules, pool, layout)
        return engine.observe(engine.start(jnp.zeros(1, jnp.int32)))

    def step(pool: MapPool, state: State, actions: Any, key: Any, count: Any) -> Any:
        engine = Engine(rules, pool, layout)
        state, outcome = engine.step(state, actions, jax.random.fold_in(key, count))
        state, seen = engine.observe(state)
        return state, outcome, seen

    return jax.jit(start), jax.jit(step)


class Simulation:
    """An episode of a mission: `reset` is its construction, `step` plays one step, the rest looks at it."""

    def __init__(
        self,
        mission: Mission,
        *,
        seed: int = 0,
        map_seed: int | None = None,
        game_map: GameMap | None = None,
        spawns: Sequence[Cell] | None = None,
    ) -> None:
        self.mission, self.rules = mission, mission.rules
        self.map_seed = seed if map_seed is None else map_seed
        self.map = game_map if game_map is not None else mission.map(self.map_seed)
        self.spawns = spawns or choose_spawns(self.map, self.rules, np.random.default_rng(self.map_seed))
        pool, self.layout = make_pool([self.map], self.rules, spawns=[self.spawns], multiple=TABLE)
        self._pool, self._key = pool, jax.random.key(seed)
        self._start, self._step = _programs(self.rules, self.layout)
        self._state, observations = self._start(pool)
        self.observations: NDArray[np.uint8] = np.asarray(observations)[0]  # indexing in NumPy is 50 times cheaper
        self.episode_rewards = np.zeros(self.rules.num_agents, np.float32)
        self.terminated = self.truncated = False
        self._owners = (None, "clips", *(team.name for team in self.rules.teams))

    @property
    def num_agents(self) -> int:
        """Cogs of all teams."""
        return self.rules.num_agents

    @property
    def step_count(self) -> int:
        """Steps played."""
        return int(np.asarray(self._state.step)[0])

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated

    def step(self, actions: Sequence[int | str] | NDArray[np.integer[Any]]) -> StepView:
        """Play one step with an action (id or name) per agent."""
        if self.done:
            raise CogsError("The episode is over: start a new one.")
        ids = np.array([action_id(action) for action in actions], np.int32)
        if len(ids) != self.num_agents:
            raise CogsError(f"{len(ids)} actions for {self.num_agents} cogs.")
        self._state, outcome, observations = self._step(
            self._pool, self._state, ids[:, None], self._key, np.int32(self.step_count)
        )
        self.observations = np.asarray(observations)[0]
        rewards = np.asarray(outcome.reward)[:, 0]
        self.episode_rewards = self.episode_rewards + rewards
        self.terminated, self.truncated = (
            bool(np.asarray(outcome.terminated)[0]),
            bool(np.asarray(outcome.truncated)[0]),
        )
        success = np.asarray(outcome.success)[:, 0]
        return StepView(self.observations, rewards, success, self.terminated, self.truncated)

    def codes(self) -> NDArray[np.uint8]:
        """The map as it stands: `rules.KINDS` per cell, 32 + id for a cog."""
        grid = np.asarray(self._state.planes[0][0]).reshape(self.layout.height, self.layout.width) & 0xFF
        edge = self.layout.margin
        return grid[edge : self.layout.height - edge, edge : self.layout.width - edge].astype(np.uint8)

    def objects(self) -> list[ObjectView]:
        """Everything but walls and cogs, exhausted extractors left out."""
        kinds, cells = np.asarray(self._pool.kind[0]), np.asarray(self._pool.cell[0])
        owners, amounts = np.asarray(self._state.owner[:, 0]), np.asarray(self._state.amount[:, 0])
        found = []
        for kind, cell, owner, amount in zip(kinds, cells, owners, amounts, strict=True):
            extractor = kind in EXTRACTOR_CODES
            if kind == 0 or (extractor and amount == 0):
                continue
            row, col = self.layout.place(int(cell))
            found.append(ObjectView(KINDS[kind], row, col, self._owners[owner], int(amount) if extractor else 0))
        return sorted(found, key=lambda thing: (thing.row, thing.col))

    def agents(self) -> list[AgentView]:
        """Every cog."""
        state = self._state
        cells, vibes, last = (np.asarray(x[:, 0]) for x in (state.cell, state.vibe, state.last_action))
        held = np.asarray(state.inventory[:, :, 0])
        found = []
        for agent, team in enumerate(self.rules.team_of):
            row, col = self.layout.place(int(cells[agent]))
            inventory = {name: int(x) for name, x in zip(RESOURCES, held[:, agent], strict=True) if x}
            name, vibe, action = self.rules.teams[team].name, VIBES[vibes[agent]], ACTIONS[last[agent]]
            found.append(AgentView(agent, name, row, col, vibe, action, inventory))
        return found

    def stores(self) -> dict[str, dict[str, int]]:
        """What each team has in store."""
        store = np.asarray(self._state.store[:, :, 0])
        return {
            team.name: {name: int(x) for name, x in zip(STORED, store[i], strict=True)}
            for i, team in enumerate(self.rules.teams)
        }

    def junctions(self) -> dict[str, int]:
        """How many junctions each owner holds; `neutral` are the rest."""
        owners = np.asarray(self._state.owner[:, 0])[np.asarray(self._pool.kind[0]) == CODE["junction"]]
        names = ("neutral", *self._owners[1:])
        return {str(name): int(np.sum(owners == i)) for i, name in enumerate(names)}

    def stats(self) -> dict[str, Any]:
        """`agent` (a list), `collective` (by name) and `game` statistics, under the original's names."""
        state = jax.tree.map(np.asarray, self._state)
        agents = [agent_stats(state.inventory, state.stats, agent) for agent in range(self.num_agents)]
        kinds = np.asarray(self._pool.kind[0])
        walls = int(np.sum(self.map.codes == CODE["wall"]))
        game = game_stats(kinds, walls, self.num_agents, state.stats)
        return {"agent": agents, "collective": team_stats(self.rules, state.store, state.stats), "game": game}

    def text(self) -> str:
        """The map as it stands in ASCII, cogs as digits and letters."""
        live = GameMap(np.where(self.codes() >= FIRST_AGENT, 0, self.codes()).astype(np.uint8), ())
        lines = [list(line) for line in live.to_ascii().splitlines()]
        for agent in self.agents():
            lines[agent.row][agent.col] = "0123456789abcdefghij"[agent.id]
        return "\n".join("".join(line) for line in lines) + "\n"


def action_id(action: int | str | np.integer[Any]) -> int:
    """The id of an action given by id or name."""
    if isinstance(action, str):
        if action not in ACTIONS:
            raise unknown("action", action, ACTIONS)
        return ACTIONS.index(action)
    if not 0 <= int(action) < len(ACTIONS):
        raise CogsError(f"Action {action} is none of 0 to {len(ACTIONS) - 1}.")
    return int(action)


def owner_name(rules: Rules, owner: int) -> str | None:
    """The name of an owner's number; None is neutral."""
    return None if owner == 0 else "clips" if owner < FIRST_TEAM else rules.teams[owner - FIRST_TEAM].name
