"""Prioritized drawing (https://arxiv.org/abs/1511.05952), proportional variant."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt


class Prioritized(eqx.Module):
    """Draws in proportion to (|error| + ε)^α, with weights (n·P)^−β, the largest of a batch 1.

    Priorities lie in a square with a sum per row: a draw picks a row, then an entry in it, so that a draw and an update
    touch √n numbers each. (A sum tree touches log n, but in log n dependent steps, which is slower here.)
    """

    priority: Float[Array, "rows columns"]
    row_sum: Float[Array, " rows"]
    max_priority: Float[Array, ""]
    alpha: Float[Array, ""]
    epsilon: Float[Array, ""]
    max_size: int = eqx.field(static=True)

    @classmethod
    def create(cls, max_size: int, alpha: float, epsilon: float) -> Prioritized:
        """Nothing stored yet."""
        columns = int(max_size**0.5) + 1
        rows = -(-max_size // columns)
        table = jnp.zeros((rows, columns))
        return cls(table, jnp.zeros(rows), jnp.ones(()), jnp.asarray(alpha), jnp.asarray(epsilon), max_size)

    def _write(self, index: Int[Array, " B"], priority: Float[Array, " B"]) -> Prioritized:
        row, column = jnp.divmod(index, self.priority.shape[1])
        table = self.priority.at[row, column].set(priority)
        row_sum = self.row_sum.at[row].set(table[row].sum(-1))
        highest = jnp.maximum(self.max_priority, priority.max())
        return Prioritized(table, row_sum, highest, self.alpha, self.epsilon, self.max_size)

    def add(self, seen: Int[Array, ""], count: int) -> Prioritized:
        """New ones enter at the highest priority so far, so that each is seen at least once."""
        index = (seen + jnp.arange(count)) % self.max_size
        return self._write(index, jnp.broadcast_to(self.max_priority, (count,)))

    def draw(
        self, noise: UInt[Array, " B"], seen: Int[Array, ""], beta: Array | float
    ) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
        """One from each of B equal shares of the total priority; a random word says where in it."""
        row_end = jnp.cumsum(self.row_sum)
        total = row_end[-1]
        where = (noise >> 8).astype(jnp.float32) * 2.0**-24  # in [0, 1), to the bits that a float32 has
        mass = (jnp.arange(noise.shape[0]) + where) / noise.shape[0] * total
        stored = jnp.minimum(seen, self.max_size)
        # rounding may leave `mass` at the very end, past the last row that holds anything: stay on that row
        last_row = (stored - 1) // self.priority.shape[1]
        row = jnp.minimum(jnp.sum(row_end <= mass[:, None], axis=-1), last_row)
        entries = self.priority[row]
        entry_end = jnp.cumsum(entries, axis=-1)
        # rounding may leave `within` just past the row's end: stay on an entry that has priority
        within = jnp.minimum(mass - (row_end[row] - self.row_sum[row]), entry_end[:, -1] * (1 - 1e-6))
        column = jnp.sum(entry_end <= within[:, None], axis=-1)
        chosen = jnp.take_along_axis(entries, column[:, None], axis=-1)[:, 0]
        weight = (stored * jnp.maximum(chosen / total, 1e-12)) ** -beta
        return row * self.priority.shape[1] + column, weight / weight.max()

    def update(self, index: Int[Array, " B"], error: Float[Array, " B"]) -> Prioritized:
        """With new errors for what was drawn."""
        return self._write(index, (jnp.abs(error) + self.epsilon) ** self.alpha)
