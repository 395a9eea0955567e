"""The engine: pure `reset(key)` and `step(state, actions, key)` over [agents × environments], one source for every
device. Nothing here resets by itself: episodes are `env.py`'s."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rewardlab.cogs.act import FIRST_VIBE, Turns, take_turns
from rewardlab.cogs.areas import SOLAR, areas, tick
from rewardlab.cogs.events import clips_changes, no_changes, solar_change
from rewardlab.cogs.maps.pool import Layout, MapPool
from rewardlab.cogs.observe import Blind, Observation
from rewardlab.cogs.rewards import reward
from rewardlab.cogs.rules import ACTIONS, CODE, RESOURCES, STORED, VOID, Rules, amounts
from rewardlab.cogs.state import Changes, Outcome, State
from rewardlab.cogs.statistics import count_turns, junctions_of, no_stats, turned
from rewardlab.cogs.tokens import Tokens
from rewardlab.cogs.window import Window

OBSERVATIONS: dict[str, Any] = {"tokens": Tokens, "grid": Window, "none": Blind}


class Engine:
    """CoGsGuard on a pool of maps, under rules, with one kind of observation: `tokens`, `grid` or `none`."""

    def __init__(self, rules: Rules, pool: MapPool, layout: Layout, observation: str = "tokens") -> None:
        self.rules, self.pool, self.layout = rules, pool, layout
        self.observation: Observation = OBSERVATIONS[observation](rules, layout)

    def reset(self, key: PRNGKeyArray, envs: int) -> State:
        """Fresh episodes, each on a map of the pool drawn evenly."""
        return self.start(self.draw_maps(key, envs))

    def draw_maps(self, key: PRNGKeyArray, envs: int) -> Int[Array, " envs"]:
        """A map of the pool for each environment."""
        return jax.random.randint(key, (envs,), 0, self.pool.codes.shape[0])

    def start(self, maps: Int[Array, " E"]) -> State:
        """Fresh episodes on given maps of the pool."""
        rules, pool, width = self.rules, self.pool, self.layout.width
        envs = maps.shape[0]
        kind, cell, owner = (column[maps].T for column in (pool.kind, pool.cell, pool.owner))
        sources = cell[: self.layout.sources]
        spawn = pool.spawn[maps].T
        initial = jnp.asarray(amounts(rules.initial), jnp.int32)
        stored = jnp.asarray(amounts(rules.store, STORED), jnp.int32)
        nothing = jnp.zeros_like(spawn)
        state = State(
            step=jnp.zeros(envs, jnp.int32),
            map=maps.astype(jnp.int32),
            planes=(),
            kind=kind,
            source_row=sources // width,
            source_col=sources % width,
            owner=owner,
            amount=jnp.full_like(owner, rules.extractor_amount),
            cell=spawn,
            spawn=spawn,
            inventory=jnp.broadcast_to(initial[:, None, None], (len(RESOURCES), *spawn.shape)),
            vibe=nothing,
            last_action=nothing,
            rest=nothing,
            store=jnp.broadcast_to(stored[:, None], (len(rules.teams), len(STORED), envs)),
            stats=no_stats(rules, envs),
        )
        return self._put_agents(state._replace(planes=self._write_grid(state, cell)), spawn)

    def _write_grid(self, state: State, cell: Int[Array, "O E"]) -> tuple[Array, ...]:
        """The grid's planes with walls and objects."""
        codes = self.pool.codes[state.map]
        walls = jnp.where(codes == CODE["wall"], self.observation.wall_word(), 0)
        plane = jnp.where(codes == VOID, VOID, walls).astype(jnp.uint32)
        index = jnp.arange(cell.shape[0])[:, None]
        words = self.observation.object_word(state.kind, state.owner, state.amount, index)
        where = jnp.where(state.kind > 0, cell, codes.shape[1])
        plane = plane.at[jnp.arange(cell.shape[1]), where].set(words, mode="drop")
        return (plane, *(jnp.zeros_like(plane) for _ in range(self.observation.planes - 1)))

    def _put_agents(self, state: State, before: Int[Array, "A E"]) -> State:
        """The words of agents on their cells, as their inventories stand; none left where they were `before`."""
        envs = jnp.arange(state.step.shape[0])
        words = self.observation.agent_words(state)
        further = [plane.at[envs, before].set(0) for plane in state.planes[1:]]
        planes = [state.planes[0], *further]
        return state._replace(
            planes=tuple(plane.at[envs, state.cell].set(word) for plane, word in zip(planes, words, strict=True))
        )

    def step(
        self, state: State, actions: Int[Array, "A E"], key: PRNGKeyArray, changes: Changes | None = None
    ) -> tuple[State, Outcome]:
        """One step: events, the agents in a random order, the tick, the areas, rewards.

        All environments of a batch share the order of a step. `changes` replaces the clips' draws (for replays).
        """
        order_key, event_key = jax.random.split(key)
        rules, before = self.rules, state
        actions = jnp.where((actions >= 0) & (actions < len(ACTIONS)), actions, 0).astype(jnp.int32)
        step = state.step + 1
        state = self._events(state._replace(step=step), event_key, changes)
        order = jax.random.permutation(order_key, actions.shape[0]) if actions.shape[0] > 1 else jnp.zeros(1, jnp.int32)
        turns = take_turns(rules, self.layout, self.pool, self.observation, state, actions, order)
        ticked = tick(rules, turns.inventory)
        felt = state._replace(inventory=ticked, owner=turns.owner, cell=turns.cell)
        inventory, gained, lost = areas(rules, felt, self.layout.width)
        state = self._record(before, state, turns, actions, ticked, gained, lost)
        state = state._replace(
            planes=(turns.plane, *state.planes[1:]),
            inventory=inventory,
            owner=turns.owner,
            amount=turns.amount,
            cell=turns.cell,
            store=turns.store,
            vibe=jnp.where(actions >= FIRST_VIBE, actions - FIRST_VIBE, state.vibe),
            last_action=jnp.where(turns.success, actions, 0),
        )
        state = self._put_agents(state, before.cell)
        over = step >= rules.max_steps
        never = jnp.zeros_like(over)
        terminated, truncated = (never, over) if rules.truncates else (over, never)
        return state, Outcome(reward(rules, before.stats, state.stats), turns.success, terminated, truncated)

    def observe(self, state: State) -> tuple[State, Any]:
        """What every agent sees, environments first; the state counts the tokens in its statistics."""
        seen, used = self.observation.observe(state)
        return self._count_tokens(state, used), seen

    def _events(self, state: State, key: PRNGKeyArray, changes: Changes | None) -> State:
        """The day's change, and the clips' events."""
        rules, envs = self.rules, state.step.shape[0]
        inventory = state.inventory.at[SOLAR].add(solar_change(rules, state.step))
        state = state._replace(inventory=jnp.maximum(inventory, 0))
        if changes is None:
            changes = clips_changes(rules, state, state.step, key) if rules.clips.enabled else no_changes(rules, envs)
        owner, plane = state.owner, state.planes[0]
        lanes = jnp.arange(envs)
        for thing, new in zip(changes.object, changes.owner, strict=True):
            index = jnp.where(thing >= 0, thing, owner.shape[0])
            owner = owner.at[index, lanes].set(new, mode="drop")
            known = jnp.maximum(thing, 0)
            word = self.observation.object_word(state.kind[known, lanes], new, state.amount[known, lanes], known)
            cell = jnp.where(thing >= 0, self.pool.cell[state.map, known], plane.shape[1])
            plane = plane.at[lanes, cell].set(word, mode="drop")
        return state._replace(owner=owner, planes=(plane, *state.planes[1:]))

    def _record(
        self, before: State, state: State, turns: Turns, actions: Array, ticked: Array, gained: Array, lost: Array
    ) -> State:
        """The statistics of the step, and how long each agent has stood still."""
        rest = jnp.where(turns.cell == before.cell, state.rest + 1, 0)
        stats = count_turns(state.stats, turns, actions, rest)
        acted, faded = turns.inventory - before.inventory, ticked - turns.inventory
        up = jnp.maximum(acted, 0) + jnp.maximum(faded, 0) + gained
        down = jnp.maximum(-acted, 0) + jnp.maximum(-faded, 0) + lost
        junctions = junctions_of(self.rules, state, turns.owner)
        by_events = turned(self.rules, state, before.owner, state.owner)
        by_agents = turned(self.rules, state, state.owner, turns.owner)
        stats = stats._replace(
            gained=stats.gained + up,
            lost=stats.lost + down,
            junctions=junctions,
            junctions_held=stats.junctions_held + junctions,
            junctions_gained=stats.junctions_gained + by_events[0] + by_agents[0],
            junctions_lost=stats.junctions_lost + by_events[1] + by_agents[1],
        )
        return state._replace(stats=stats, rest=rest)

    def _count_tokens(self, state: State, used: Int[Array, "A E"] | None) -> State:
        """The statistics of token observations."""
        if used is None:
            return state
        limit = self.rules.tokens
        counts = (jnp.minimum(used, limit), jnp.maximum(used - limit, 0), jnp.maximum(limit - used, 0))
        sums: list[Float[Array, " E"]] = [count.sum(0) for count in counts]
        stats = state.stats
        return state._replace(
            stats=stats._replace(
                tokens_written=stats.tokens_written + sums[0],
                tokens_dropped=stats.tokens_dropped + sums[1],
                tokens_free=stats.tokens_free + sums[2],
            )
        )
