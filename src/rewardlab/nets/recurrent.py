"""Layers that remember, and what an observation is to a network that does."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Recalled(NamedTuple):
    """Observations [*batch, …] and what is remembered at each."""

    obs: Array
    memory: Any


class Sequence(NamedTuple):
    """Observations [T, N, …] in their order, what is remembered at the first, and where an episode begins: there the
    memory is blank again."""

    obs: Array
    memory: Any
    starts: Bool[Array, "T N"]


def recalled(obs: Array, memory: Any) -> Any:
    """Observations with what a policy remembers at them, if it remembers."""
    return obs if memory is None else Recalled(obs, memory)


def in_order(obs: Array | Recalled, done: Bool[Array, "T N"]) -> Array | Sequence:
    """A rollout's observations; remembered ones as a sequence, so that a gradient reaches back through all of it."""
    if not isinstance(obs, Recalled):
        return obs
    first = jax.tree.map(lambda x: x[0], obs.memory)  # it is blank already where an episode begins there
    return Sequence(obs.obs, first, jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]]))


def part(x: Any, name: str) -> Any:
    """An observation with the memory of one network among several."""
    return x._replace(memory=x.memory[name]) if isinstance(x, Recalled | Sequence) else x


def forget(memory: Any, done: Bool[Array, " N"]) -> Any:
    """Blank where an episode has ended."""
    return jax.tree.map(lambda x: jnp.where(done.reshape(done.shape + (1,) * (x.ndim - done.ndim)), 0.0, x), memory)


class Recurrent(eqx.Module):
    """A GRU (https://arxiv.org/abs/1406.1078) or an LSTM (https://doi.org/10.1162/neco.1997.9.8.1735)."""

    cell: eqx.nn.GRUCell | eqx.nn.LSTMCell

    @classmethod
    def create(cls, key: PRNGKeyArray, kind: str, n_in: int, width: int) -> Recurrent:
        """A cell of a kind, `gru` or `lstm`."""
        made = eqx.nn.GRUCell if kind == "gru" else eqx.nn.LSTMCell
        return cls(made(n_in, width, key=key))

    def blank(self, *batch: int) -> Any:
        """What is remembered when nothing was seen."""
        zeros = jnp.zeros((*batch, self.cell.hidden_size))
        return zeros if isinstance(self.cell, eqx.nn.GRUCell) else (zeros, zeros)

    def step(self, x: Float[Array, "*batch in"], memory: Any) -> tuple[Float[Array, "*batch out"], Any]:
        """What comes out for an input, and what is remembered after it."""
        cell: Any = self.cell
        for _ in x.shape[:-1]:
            cell = jax.vmap(cell)
        memory = cell(x, memory)
        return (memory if isinstance(self.cell, eqx.nn.GRUCell) else memory[0]), memory

    def unroll(self, x: Float[Array, "T N in"], memory: Any, starts: Bool[Array, "T N"]) -> tuple[Array, Any]:
        """Step after step."""

        def one(memory: Any, given: tuple[Array, Array]) -> tuple[Any, Array]:
            out, memory = self.step(given[0], forget(memory, given[1]))
            return memory, out

        memory, out = jax.lax.scan(one, memory, (x, starts))
        return out, memory
