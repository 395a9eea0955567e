"""Token observations, uint8 [agents, 200, 3]: (location, feature, value), byte for byte the original's.

Each environment has one table of tokens: a wall's, each object's, each agent's, each agent's view of the whole. A grid
word names the rows of what stands on a cell (code, 5 bits of count, 13 bits of first row). An observation is then a
running count over the window's cells in their order, a write of each cell's first row at its first slot, and a walk
over the slots that carries the last row written, reads the table and packs the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8, UInt32

from rewardlab.cogs.lanes import read, write
from rewardlab.cogs.maps.pool import Layout
from rewardlab.cogs.observe import agent_codes, is_extractor, present, window_cells
from rewardlab.cogs.rules import (
    CODE,
    ELEMENTS,
    EMPTY_BYTE,
    FEATURES,
    FIRST_TEAM,
    GEAR,
    GLOBAL_LOCATION,
    INDEX,
    KINDS,
    NEUTRAL,
    RESOURCES,
    TOKEN_BASE,
    Rules,
)
from rewardlab.cogs.state import State

OBJECT_ROWS = 3  # collective, the team's tag, the type's; or type, amount, amount:p1
AGENT_ROWS = 18  # collective, 2 tags, vibe; 9 amounts, hp:p1, one gear; group, frozen, id
VIEW_ROWS = 13  # completion, last action, last reward; 2 offsets; 4 elements of the store, each with :p1
COUNT_BITS, CODE_BITS = 5, 8
UNROLL = 8  # steps of a walk that are compiled as one
EMPTY_WORD = np.uint32(EMPTY_BYTE << 24 | EMPTY_BYTE << 16 | EMPTY_BYTE << 8 | EMPTY_BYTE)
EMPTY = EMPTY_WORD >> 8
Candidate = tuple[Array, Array]  # whether a token is there, and it


def token(feature: str, value: Array | int) -> Array:
    """A token without its location: feature in the low byte, value above it."""
    return jnp.asarray(value, jnp.uint32) << 8 | FEATURES[feature]


def collective_values(rules: Rules) -> tuple[int, ...]:
    """The value of a `collective` token per owner: neutral (never shown), clips, the teams."""
    names = rules.collectives
    clips = names.index("clips") if "clips" in names else 0
    return (names.index("neutral"), clips, *(names.index(team.name) for team in rules.teams))


def choose(values: Sequence[int], index: Array) -> Array:
    """values[index] for a short constant table, by comparisons: no gather, so that it fills the lanes."""
    chosen = jnp.zeros_like(index)
    for i, value in enumerate(values):
        chosen = jnp.where(index == i, value, chosen)
    return chosen


def compacted(candidates: Sequence[Candidate], rows: int) -> tuple[list[Array], Array]:
    """The tokens that are there, in order and without gaps, as `rows` arrays; and how many they are."""
    count = jnp.zeros(candidates[0][0].shape, jnp.int32)
    packed = [jnp.zeros(count.shape, jnp.uint32) for _ in range(rows)]
    for i, (there, value) in enumerate(candidates):
        for row in range(min(i + 1, rows)):
            packed[row] = jnp.where(there & (count == row), value, packed[row])
        count = count + there
    return packed, count


def packed(tokens: Sequence[UInt32[Array, " L"]]) -> list[UInt32[Array, " L"]]:
    """Tokens of three bytes in the low end of words, four of them in three words."""
    words = []
    for i in range(0, len(tokens), 4):
        first, second, third, fourth = tokens[i : i + 4]
        words += [first | second << 24, second >> 8 | third << 16, third >> 16 | fourth << 8]
    return words


def in_bytes(words: UInt32[Array, "W A E"]) -> UInt8[Array, "E A S 3"]:
    """Packed tokens as bytes, environments first: words are transposed while four bytes still move as one."""
    ordered = jax.lax.optimization_barrier(jnp.transpose(jax.lax.optimization_barrier(words), (2, 1, 0)))
    return jax.lax.bitcast_convert_type(ordered, jnp.uint8).reshape(*ordered.shape[:2], -1, 3)


class Tokens:
    """The encoder of token observations."""

    planes = 1

    def __init__(self, rules: Rules, layout: Layout) -> None:
        self.rules, self.layout = rules, layout
        self.first_agent_row = 1 + OBJECT_ROWS * layout.objects
        self.first_view_row = self.first_agent_row + AGENT_ROWS * rules.num_agents
        offsets = window_cells(rules.window)
        half = rules.window // 2
        self.offsets = offsets[:, 0] * layout.width + offsets[:, 1]
        self.locations = (offsets[:, 0] + half) << 4 | (offsets[:, 1] + half)

    def _word(self, code: Array, count: Array, row: Array) -> UInt32[Array, ...]:
        word = code | count << CODE_BITS | row << (CODE_BITS + COUNT_BITS)
        return word.astype(jnp.uint32)

    def object_word(self, kind: Array, owner: Array, amount: Array, index: Array) -> UInt32[Array, ...]:
        """Code, count and first row of an object's tokens."""
        owned = owner != NEUTRAL
        count = jnp.where(kind == CODE["junction"], 1 + owned, jnp.where(owned, 3, 1))
        count = jnp.where(is_extractor(kind), 2 + (amount >= TOKEN_BASE), count)
        word = self._word(kind, count, 1 + OBJECT_ROWS * index)
        return jnp.where(present(kind, amount), word, 0)

    def wall_word(self) -> int:
        """One token, in row 0."""
        return CODE["wall"] | 1 << CODE_BITS

    def agent_words(self, state: State) -> tuple[UInt32[Array, "A E"], ...]:
        """Code, count and first row of agents' tokens."""
        _, count = compacted(self._agent_candidates(state), 0)
        rows = self.first_agent_row + AGENT_ROWS * jnp.arange(count.shape[0])[:, None]
        return (self._word(agent_codes(state).astype(jnp.int32), count, rows),)

    def _object_tokens(self, state: State) -> list[Array]:
        """Three rows [O, E]."""
        tags = [self.rules.tags.index(f"type:{kind}") if kind != "empty" else 0 for kind in KINDS]
        teams = [self.rules.tags.index(f"collective:{team.name}") for team in self.rules.teams]
        kind, owner, amount = state.kind, state.owner, state.amount
        collective = token("collective", choose(collective_values(self.rules), owner))
        team_tag = token("tag", choose([0] * FIRST_TEAM + teams, owner))
        type_tag = token("tag", choose(tags, kind))
        owned, extractor, junction = owner != NEUTRAL, is_extractor(kind), kind == CODE["junction"]
        feature = choose([0] * (len(KINDS) - len(ELEMENTS)) + [FEATURES[f"inv:{name}"] for name in ELEMENTS], kind)
        low = (amount % TOKEN_BASE << 8 | feature).astype(jnp.uint32)
        high = (amount // TOKEN_BASE << 8 | feature + 1).astype(jnp.uint32)
        second = jnp.where(extractor, low, jnp.where(junction, type_tag, team_tag))
        return [jnp.where(owned, collective, type_tag), second, jnp.where(extractor, high, type_tag)]

    def _agent_candidates(self, state: State) -> list[Candidate]:
        rules, tags = self.rules, self.rules.tags
        yes = jnp.ones(state.cell.shape, bool)
        of_team = [collective_values(rules)[FIRST_TEAM + i] for i in rules.team_of]
        team_tags = [tags.index(f"collective:{rules.teams[i].name}") for i in rules.team_of]
        column = [jnp.broadcast_to(jnp.asarray(x)[:, None], yes.shape) for x in (of_team, team_tags)]
        found: list[Candidate] = [
            (yes, token("collective", column[0])),
            (yes, token("tag", column[1])),
            (yes, jnp.broadcast_to(token("tag", tags.index("type:agent")), yes.shape)),
            (state.vibe > 0, token("vibe", state.vibe)),
        ]
        gear_held, gear = jnp.zeros_like(yes), jnp.zeros(yes.shape, jnp.uint32)
        for name in RESOURCES:
            amount = state.inventory[INDEX[name]]
            if name in GEAR:  # an agent holds one at most, so they share a place
                gear_held = gear_held | (amount > 0)
                gear = jnp.where(amount > 0, token(f"inv:{name}", amount), gear)
                continue
            found.append((amount > 0, token(f"inv:{name}", amount % TOKEN_BASE)))
            if name == "hp":
                found.append((amount >= TOKEN_BASE, token(f"inv:{name}:p1", amount // TOKEN_BASE)))
        ids = jnp.broadcast_to(jnp.arange(yes.shape[0])[:, None], yes.shape)
        none = [(yes, jnp.broadcast_to(token(name, 0), yes.shape)) for name in ("agent:group", "agent:frozen")]
        return [*found, (gear_held, gear), *none, (yes, token("agent_id", ids))]

    def _view_candidates(self, state: State) -> list[Candidate]:
        """What an agent is told of the whole: completion, its last action, its offset from spawn, its team's store."""
        shape = state.cell.shape
        yes = jnp.ones(shape, bool)
        share = jnp.where(state.step >= self.rules.max_steps, 255, 256 * state.step // self.rules.max_steps)
        width = self.layout.width
        rows = state.cell // width - state.spawn // width
        cols = state.cell % width - state.spawn % width
        along = jnp.where(cols > 0, FEATURES["lp:east"], FEATURES["lp:west"])
        across = jnp.where(rows > 0, FEATURES["lp:south"], FEATURES["lp:north"])
        found: list[Candidate] = [
            (yes, jnp.broadcast_to(token("episode_completion_pct", share), shape)),
            (yes, token("last_action", state.last_action)),
            (yes, jnp.broadcast_to(token("last_reward", 0), shape)),  # observed before rewards are paid: always 0
            (cols != 0, (jnp.abs(cols) << 8 | along).astype(jnp.uint32)),
            (rows != 0, (jnp.abs(rows) << 8 | across).astype(jnp.uint32)),
        ]
        store = jnp.stack([state.store[team] for team in self.rules.team_of])  # [A, I, E]
        for i, name in enumerate(ELEMENTS):
            stored = store[:, i]
            found.append((yes, token(f"inv:collective:{name}", stored % TOKEN_BASE)))
            found.append((stored >= TOKEN_BASE, token(f"inv:collective:{name}:p1", stored // TOKEN_BASE)))
        return found

    def _table(self, state: State) -> tuple[UInt32[Array, "N E"], Int[Array, "A E"]]:
        """All tokens of each environment, and how many the view of the whole has."""
        envs = state.step.shape[0]
        wall = jnp.broadcast_to(token("tag", self.rules.tags.index("type:wall")), (1, envs))
        agents, _ = compacted(self._agent_candidates(state), AGENT_ROWS)
        view, count = compacted(self._view_candidates(state), VIEW_ROWS)
        blocks = [jnp.stack(rows, 1).reshape(-1, envs) for rows in (self._object_tokens(state), agents, view)]
        return jnp.concatenate([wall, *blocks]), count

    def _starts(self, state: State, view_count: Int[Array, "A E"]) -> tuple[Array, Array, Array]:
        """Per cell that an agent sees the place [slot, lane] where its tokens start and a pointer to them, [C, L] each
        over L lanes (agents × environments), and the number of tokens in all.

        A pointer is row − slot, beside the location: adding a slot gives the row of that slot's token. Empty cells
        start behind the last slot.
        """
        envs, cells = state.planes[0].shape
        slots = self.rules.tokens
        plane, lanes = state.planes[0].reshape(-1), jnp.arange(view_count.size, dtype=jnp.int32)
        first = (state.cell + jnp.arange(envs, dtype=jnp.int32) * cells).reshape(-1)

        def cell(start: Array, seen: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            offset, location = seen
            word = read(plane, first + offset)
            count = ((word >> CODE_BITS) & (1 << COUNT_BITS) - 1).astype(jnp.int32)
            row = (word >> (CODE_BITS + COUNT_BITS)).astype(jnp.int32)
            pointer = (row - start + slots) << 8 | location
            place = jnp.where(count > 0, jnp.minimum(start, slots), slots) * lanes.shape[0] + lanes
            return start + count, (place, pointer)

        order = jnp.asarray(self.offsets, jnp.int32), jnp.asarray(self.locations, jnp.int32)
        total, (starts, pointers) = jax.lax.scan(cell, view_count.reshape(-1), order, unroll=UNROLL)
        return starts, pointers, total

    def observe(self, state: State) -> tuple[UInt8[Array, "E A 200 3"], Int[Array, "A E"]]:
        """All agents' observations, and how many tokens they would take without a limit."""
        # Barriers: else the table is computed anew for each token that reads it.
        table, view_count = jax.lax.optimization_barrier(self._table(state))
        agents, envs = view_count.shape
        slots, lanes = self.rules.tokens, jnp.arange(agents * envs, dtype=jnp.int32)
        places, pointers, total = self._starts(state, view_count)
        marked = write(jnp.zeros((slots + 1, agents * envs), jnp.int32), places, pointers)[:slots]
        view_row = self.first_view_row + VIEW_ROWS * (lanes // envs)
        flat, env = table.reshape(-1), lanes % envs

        def fill(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            pointer, words = carry
            first = block * UNROLL
            marks = jax.lax.dynamic_slice_in_dim(marked, first, UNROLL)
            tokens = []
            for i in range(UNROLL):
                pointer = jnp.where(marks[i] == 0, pointer, marks[i])
                row = jnp.minimum((pointer >> 8) - slots + first + i, table.shape[0] - 1)
                found = read(flat, row * envs + env) << 8 | (pointer & 0xFF).astype(jnp.uint32)
                tokens.append(jnp.where(first + i < total, found, EMPTY))
            more = jnp.stack(packed(tokens))
            return pointer, jax.lax.dynamic_update_slice_in_dim(words, more, block * len(more), 0)

        view = (view_row + slots) << 8 | GLOBAL_LOCATION
        empty = jnp.full((slots // 4 * 3, agents * envs), EMPTY_WORD)
        blocks = jnp.minimum(-(-jnp.max(total) // UNROLL), slots // UNROLL)  # nobody has tokens beyond
        words = jax.lax.fori_loop(0, blocks, fill, (view, empty))[1]
        return in_bytes(words.reshape(-1, agents, envs)), total.reshape(agents, envs)
