"""The compact observation: each agent's window as bytes, read off two planes of the grid, and nine numbers beside it.

It tells what tokens tell (own and others' inventories, owners, amounts), in 968 + 18 bytes that need no decoding order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int16, UInt8, UInt32

from rewardlab.cogs.maps.pool import Layout
from rewardlab.cogs.observe import agent_codes, present
from rewardlab.cogs.rules import CODE, ELEMENTS, GEAR, INDEX, Rules
from rewardlab.cogs.state import State

BYTES = 8


class GridView(NamedTuple):
    """What agents see. `cells[e, a, plane, row, col]` are four bytes each, the agent in the middle:

    | plane, byte | an object | an agent |
    |---|---|---|
    | 0, 0 | code of its kind (`rules.KINDS`; 0 empty, 31 beyond the map) | 32 + agent id |
    | 0, 1 | owner: 0 neutral, 1 clips, 2 + team | energy |
    | 0, 2 | amount, low byte | hp, low byte |
    | 0, 3 | amount, high byte | bit 0: hp ≥ 256; bits 1–3: gear (0 none, then as `rules.GEAR`); bits 4–7: hearts |
    | 1, 0 | 0 | bits 0–4: influence; bits 5–7: vibe |
    | 1, 1–3 | 0 | six bits each: oxygen, carbon, germanium, silicon (from bit 0 of byte 1 on) |

    `whole[e, a]`: step, max_steps, last action (0 if it failed), rows and columns from spawn, the team's oxygen,
    carbon, germanium and silicon. (Solar is 3 by day, 1 by night: the step tells.)
    """

    cells: UInt8[Array, "E A 2 W W 4"]
    whole: Int16[Array, "E A 9"]


class Window:
    """The encoder of compact observations."""

    planes = 2

    def __init__(self, rules: Rules, layout: Layout) -> None:
        self.rules, self.layout = rules, layout

    def object_word(self, kind: Array, owner: Array, amount: Array, index: Array) -> UInt32[Array, ...]:
        """Kind, owner, amount (of extractors)."""
        left = jnp.where(kind > CODE["c:scout"], amount, 0)
        word = (kind | owner << 8 | left << 16).astype(jnp.uint32)
        return jnp.where(present(kind, amount), word, 0)

    def wall_word(self) -> int:
        """The code alone."""
        return CODE["wall"]

    def agent_words(self, state: State) -> tuple[UInt32[Array, "A E"], ...]:
        """Both planes' words."""
        held = {name: state.inventory[i].astype(jnp.uint32) for name, i in INDEX.items()}
        gear = sum((held[name] * (i + 1) for i, name in enumerate(GEAR)), jnp.zeros_like(held["hp"]))
        body = held["hp"] << 16 | gear << 25 | held["heart"] << 28
        first = agent_codes(state) | held["energy"] << 8 | body
        second = held["influence"] | state.vibe.astype(jnp.uint32) << 5
        for i, name in enumerate(ELEMENTS):
            second = second | held[name] << (8 + 6 * i)
        return first, second

    def observe(self, state: State) -> tuple[GridView, None]:
        """All agents' windows."""
        window, width = self.rules.window, self.layout.width
        half = window // 2
        row, col = (state.cell // width - half).T, (state.cell % width - half).T

        def cut(plane: Array, row: Array, col: Array) -> Array:
            return jax.lax.dynamic_slice(plane, (row, col), (window, window))

        def cut_all(plane: Array) -> Array:
            grids = plane.reshape(-1, self.layout.height, width)
            return jax.vmap(jax.vmap(cut, (None, 0, 0)))(grids, row, col)

        words = jnp.stack([cut_all(plane) for plane in state.planes], 2)
        return GridView(jax.lax.bitcast_convert_type(words, jnp.uint8), self._whole(state)), None

    def _whole(self, state: State) -> Int16[Array, "E A 9"]:
        width, shape = self.layout.width, state.cell.shape
        rows = state.cell // width - state.spawn // width
        cols = state.cell % width - state.spawn % width
        step = jnp.broadcast_to(state.step, shape)
        store = [jnp.stack([state.store[team, i] for team in self.rules.team_of]) for i in range(len(ELEMENTS))]
        numbers = [step, jnp.full(shape, self.rules.max_steps), state.last_action, rows, cols, *store]
        return jnp.stack(numbers).astype(jnp.int16).T
