"""Small worlds to test the rules in: ASCII maps, and an engine that any of them can be stepped with."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.maps.grid import Cell, from_ascii
from rewardlab.cogs.maps.pool import Layout, MapPool, make_pool
from rewardlab.cogs.rules import ACTIONS, FIRST_TEAM, INDEX, Clips, Rules, Team
from rewardlab.cogs.simulation import owner_name
from rewardlab.cogs.state import Changes, State

# One room, so that all tests share one compiled program; the hub stands at its right wall.
ROOM = """
#######################
#@J..................H#
#@C...................#
#.#..................=#
#.....................#
#.................ARMT#
#######################
"""


@lru_cache(maxsize=16)
def _stepper(rules: Rules, layout: Layout) -> Callable[..., Any]:
    def step(pool: MapPool, state: State, actions: Any, key: Any, changes: Changes) -> Any:
        return Engine(rules, pool, layout, "none").step(state, actions, key, changes)

    return jax.jit(step)


class World:
    """One environment whose state tests may set."""

    def __init__(self, rules: Rules, text: str = ROOM, spawns: list[Cell] | None = None) -> None:
        self.rules, self.map = rules, from_ascii(text)
        starts = spawns or list(self.map.pads[: rules.num_agents])
        self.pool, self.layout = make_pool([self.map], rules, spawns=[starts], multiple=8)
        self.state = Engine(rules, self.pool, self.layout, "none").start(jnp.zeros(1, jnp.int32))
        self.key = jax.random.key(0)

    def act(self, *actions: str) -> Any:
        """One step, without the clips' draws."""
        none = Changes(jnp.full((1, 1), -1, jnp.int32), jnp.zeros((1, 1), jnp.int32))
        ids = jnp.asarray([[ACTIONS.index(action)] for action in actions], jnp.int32)
        self.key, key = jax.random.split(self.key)
        self.state, outcome = _stepper(self.rules, self.layout)(self.pool, self.state, ids, key, none)
        return outcome

    def give(self, agent: int = 0, **amounts: int) -> None:
        """Set what an agent holds."""
        inventory = np.array(self.state.inventory)
        for name, amount in amounts.items():
            inventory[INDEX[name], agent, 0] = amount
        self.state = self.state._replace(inventory=jnp.asarray(inventory))

    def held(self, agent: int = 0) -> dict[str, int]:
        """What an agent holds; zeros are left out."""
        return {name: int(x) for name, i in INDEX.items() if (x := self.state.inventory[i, agent, 0])}

    def put(self, agent: int, row: int, col: int) -> None:
        """Move an agent."""
        envs = jnp.zeros(1, jnp.int32)
        cell, plane = self.state.cell, self.state.planes[0]
        word = plane[envs, cell[agent]]
        number = self.layout.number(row, col)
        plane = plane.at[envs, cell[agent]].set(0).at[envs, number].set(word)
        self.state = self.state._replace(planes=(plane,), cell=cell.at[agent].set(number))

    def place(self, agent: int = 0) -> Cell:
        """Where an agent is."""
        return self.layout.place(int(self.state.cell[agent, 0]))

    def thing(self, row: int, col: int) -> int:
        """The number of the object on a cell."""
        return int(self.pool.object_at[0, self.layout.number(row, col)])

    def owner(self, row: int, col: int) -> str | None:
        """Whose the object on a cell is."""
        return owner_name(self.rules, int(self.state.owner[self.thing(row, col), 0]))

    def own(self, row: int, col: int, owner: int = FIRST_TEAM) -> None:
        """Give a junction to an owner."""
        self.state = self.state._replace(owner=self.state.owner.at[self.thing(row, col), 0].set(owner))

    def store(self, team: int = 0) -> list[int]:
        """Oxygen, carbon, germanium, silicon, hearts of a team."""
        return [int(x) for x in self.state.store[team, :, 0]]


QUIET = Rules(teams=(Team(size=1),), clips=Clips(enabled=False))
