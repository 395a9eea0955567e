"""The agents' turns: one after another in the step's order, each over all environments at once."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from rewardlab.cogs.lanes import read, write
from rewardlab.cogs.maps.pool import Layout, MapPool
from rewardlab.cogs.observe import Observation
from rewardlab.cogs.rules import ACTIONS, CODE, FIRST_AGENT, FIRST_TEAM, INDEX, MOVES, NEUTRAL, Rules, movement
from rewardlab.cogs.state import State
from rewardlab.cogs.use import Use, use

FIRST_VIBE = ACTIONS.index("change_vibe_default")
ENERGY = INDEX["energy"]


class Turns(NamedTuple):
    """What turns change."""

    plane: UInt32[Array, "E HW"]
    cell: Int[Array, "A E"]
    inventory: Int[Array, "R A E"]
    store: Int[Array, "T I E"]
    owner: Int[Array, "O E"]
    amount: Int[Array, "O E"]
    success: Bool[Array, "A E"]
    aligned: Bool[Array, "A E"]
    scrambled: Bool[Array, "A E"]
    deposited: Int[Array, "T I E"]
    withdrawn: Int[Array, "T I E"]


def start_turns(state: State) -> Turns:
    """Before the first turn."""
    no, none = jnp.zeros(state.cell.shape, bool), jnp.zeros_like(state.store)
    world = state.planes[0], state.cell, state.inventory, state.store, state.owner, state.amount
    return Turns(*world, no, no, no, none, none)


def take_turns(
    rules: Rules,
    layout: Layout,
    pool: MapPool,
    observation: Observation,
    state: State,
    actions: Int[Array, "A E"],
    order: Int[Array, " A"],
) -> Turns:
    """All agents act, in an order."""
    movements = jnp.asarray(movement(layout.width), jnp.int32)
    teams = jnp.asarray(rules.team_of, jnp.int32)

    def turn(i: Array, turns: Turns) -> Turns:
        agent = order[i]
        action = actions[agent]
        return _turn(rules, pool, observation, state, turns, agent, teams[agent], action, movements[action])

    turns: Turns = jax.lax.fori_loop(0, actions.shape[0], turn, start_turns(state))
    return turns


def _turn(
    rules: Rules,
    pool: MapPool,
    observation: Observation,
    state: State,
    turns: Turns,
    agent: Array,
    team: Array,
    action: Int[Array, " E"],
    movement: Int[Array, " E"],
) -> Turns:
    lanes, cells = jnp.arange(action.shape[0], dtype=jnp.int32), turns.plane.shape[1]
    here = turns.cell[agent]
    there = here + movement
    word, standing = (read(turns.plane, lanes * cells + place) for place in (there, here))
    thing = jnp.minimum(read(pool.object_at, state.map * cells + there), turns.owner.shape[0] - 1)
    known = thing * lanes.shape[0] + lanes
    owner, amount, kind = read(turns.owner, known), read(turns.amount, known), read(state.kind, known)
    # Barriers: else reads, rules and writes become one loop, which does not fill the lanes.
    word, standing, owner, amount, kind = jax.lax.optimization_barrier((word, standing, owner, amount, kind))
    moves = (action >= 1) & (action <= len(MOVES))
    held = list(turns.inventory[:, agent])
    able = moves & (held[ENERGY] >= rules.move_cost)
    code = (word & 0xFF).astype(jnp.int32)
    walks = able & (code == CODE["empty"])
    store = list(turns.store[team])
    before = Use(held, store, owner, amount, jnp.zeros_like(able))
    after = use(rules, jnp.where(able, code, CODE["empty"]), team + FIRST_TEAM, before)
    paid = walks | after.success
    after.held[ENERGY] = jnp.maximum(after.held[ENERGY] - jnp.where(paid, rules.move_cost, 0), 0)
    after = jax.lax.optimization_barrier(after)
    used = observation.object_word(kind, after.owner, after.amount, thing)
    arrived = (agent + FIRST_AGENT).astype(jnp.uint32)
    word = jnp.where(walks, arrived, jnp.where(after.success, used, word))
    left = jnp.where(walks, 0, standing)
    # Whoever stands still writes its own cell's word back. One write for both cells: with two, the grid is copied.
    places = lanes * cells + jnp.stack([here, there])
    plane = write(turns.plane, places, jnp.stack([left, word]))
    change = jnp.stack(after.store) - turns.store[team]
    return Turns(
        plane=plane,
        cell=turns.cell.at[agent].set(jnp.where(walks, there, here)),
        inventory=turns.inventory.at[:, agent].set(jnp.stack(after.held)),
        store=turns.store.at[team].set(jnp.stack(after.store)),
        owner=write(turns.owner, known, after.owner),
        amount=write(turns.amount, known, after.amount),
        success=turns.success.at[agent].set(jnp.where(moves, paid, True)),
        aligned=turns.aligned.at[agent].set((owner == NEUTRAL) & (after.owner != NEUTRAL)),
        scrambled=turns.scrambled.at[agent].set((owner != NEUTRAL) & (after.owner == NEUTRAL)),
        deposited=turns.deposited.at[team].add(jnp.maximum(change, 0)),
        withdrawn=turns.withdrawn.at[team].add(jnp.maximum(-change, 0)),
    )
