"""Completions: each prompt is read once for all its rollouts, then one token after another from a cache in place.

Every shape comes from a short list: prompts are padded to a bucket, tokens are made in chunks of a fixed number, and
between chunks the rows that have finished leave, so that the others go on in a batch half as large. A draw is a
function of one uniform number of its row and step, drawn before: who leaves when changes no completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from numpy.typing import NDArray

from rewardlab.llm.errors import LlmError
from rewardlab.llm.model import MASKED, Cache, Model
from rewardlab.llm.shard import Placement
from rewardlab.maths.truncation import NONE, Draw, Truncation, draw

SMALLEST = 8  # rows: a smaller batch is not faster
GROWTH = 512  # slots: caches up to this size are made whole, larger ones grow by it


@dataclass(frozen=True)
class Sampling:
    """How completions are made; a part of the compiled program."""

    truncation: Truncation
    max_new_tokens: int
    stops: tuple[int, ...]
    pad: int
    forbidden: tuple[int, ...] = ()
    chunk: int = 0  # tokens between two looks at who has finished; 0: by length

    @property
    def steps(self) -> int:
        """Tokens per chunk."""
        return self.chunk or max(8, min(64, self.max_new_tokens // 8))


class Rollouts(NamedTuple):
    """Completions on the host, the rollouts of a prompt side by side."""

    prompts: NDArray[np.int32]  # [prompts, P], padded on the left
    padding: NDArray[np.int32]  # [prompts]
    tokens: NDArray[np.int32]  # [rows, C], padded on the right
    length: NDArray[np.int32]  # [rows], what ends a text included
    finished: NDArray[np.bool_]  # [rows]: ended by itself, not by max_new_tokens
    log_prob: NDArray[np.float32]  # [rows, C]
    entropy: NDArray[np.float32]  # [rows, C]
    support: NDArray[Any] | None  # [rows, C, …]: what could have been drawn


class State(NamedTuple):
    """What one decoding step hands to the next."""

    caches: tuple[Cache, ...]
    hidden: Array
    padding: Array
    done: Array
    slot: Array


def bucket(length: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, 64, …"""
    size = 8
    while size < length:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def allowed(logits: Array, forbidden: Sequence[int]) -> Array:
    """Logits without the tokens that are never drawn."""
    return logits if not forbidden else logits.at[..., jnp.asarray(forbidden)].set(MASKED)


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of one bucket's width, and how much of each is padding."""
    width = bucket(max(map(len, rows)))
    table = np.full((len(rows), width), pad, np.int32)
    for i, row in enumerate(rows):
        table[i, width - len(row) :] = row
    return table, np.asarray([width - len(row) for row in rows], np.int32)


@partial(jax.jit, static_argnames=("rollouts", "slots"))
def begin(model: Model, prompts: Array, padding: Array, rollouts: int, slots: int) -> State:
    """Read every prompt once; its caches serve all its rollouts."""
    hidden, caches = model.read(prompts, padding)
    room = ((0, 0), (0, 0), (0, slots - prompts.shape[1]), (0, 0))
    caches = jax.tree.map(lambda x: jnp.repeat(jnp.pad(x, room), rollouts, axis=0), caches)
    hidden, padding = jnp.repeat(hidden[:, -1], rollouts, axis=0), jnp.repeat(padding, rollouts)
    return State(caches, hidden, padding, jnp.zeros(len(hidden), bool), jnp.asarray(prompts.shape[1], jnp.int32))


@partial(jax.jit, static_argnames="sampling", donate_argnames="state")
def advance(model: Model, state: State, uniforms: Array, sampling: Sampling) -> tuple[State, Draw]:
    """One chunk: draw a token of each row, write it into the caches, again. Rows that have finished draw padding."""

    def step(state: State, uniform: Array) -> tuple[State, Draw]:
        drawn = draw(sampling.truncation, allowed(model.logits(state.hidden), sampling.forbidden), uniform)
        token = jnp.where(state.done, sampling.pad, drawn.token)
        done = state.done | jnp.isin(token, jnp.asarray(sampling.stops))
        hidden, caches = model.decode(token, state.padding, state.caches, state.slot)
        return State(caches, hidden, state.padding, done, state.slot + 1), drawn._replace(token=token)

    return jax.lax.scan(step, state, uniforms)


@partial(jax.jit, static_argnames="slots")
def grow(state: State, slots: int) -> State:
    """The same with longer caches."""
    room = ((0, 0), (0, 0), (0, slots - state.caches[0].keys.shape[2]), (0, 0))
    return state._replace(caches=jax.tree.map(lambda x: jnp.pad(x, room), state.caches))


@jax.jit
def keep(state: State, rows: Array) -> State:
    """The rows that go on."""
    caches, hidden, padding, done = jax.tree.map(lambda x: x[rows], state[:4])
    return State(caches, hidden, padding, done, state.slot)


def generate(
    model: Model,
    sampling: Sampling,
    prompts: Sequence[Sequence[int]],
    rollouts: int,
    key: PRNGKeyArray,
    placement: Placement = Placement(),  # noqa: B008  a constant
) -> Rollouts:
    """Complete every prompt `rollouts` times; on several devices each has the whole model and a part of the rows."""
    if not prompts or not all(prompts):
        raise LlmError("there is nothing to complete: every prompt needs a token")
    table, padding = pad_left(prompts, sampling.pad)
    total, width, steps = len(prompts) * rollouts, table.shape[1], sampling.steps
    chunks = -(-sampling.max_new_tokens // steps)
    need = width + chunks * steps
    if need > model.config.max_position_embeddings:
        raise LlmError(f"{need} tokens are more than the model's {model.config.max_position_embeddings}")
    uniforms = np.asarray(jax.random.uniform(key, (total, chunks * steps)))
    slots = min(need, -(-(width + steps) // GROWTH) * GROWTH)
    state = placement.rows(begin(model, jnp.asarray(table), jnp.asarray(padding), rollouts, slots))
    out = _blank(table, padding, total, chunks * steps, sampling)
    rows = np.arange(total)  # which row of the output each row of the batch is
    for i in range(chunks):
        at = slice(i * steps, (i + 1) * steps)
        if width + at.stop > slots:
            slots = min(need, slots + GROWTH)
            state = grow(state, slots)
        state, drawn = advance(model, state, placement.rows(jnp.asarray(uniforms[rows, at].T), axis=1), sampling)
        out = _write(out, rows, at, drawn)
        alive = np.flatnonzero(~np.asarray(state.done))
        if not len(alive):
            break
        if len(rows) // 2 >= max(len(alive), SMALLEST):  # halve while the others fit
            size = len(rows)
            while size // 2 >= max(len(alive), SMALLEST):
                size //= 2
            chosen = np.concatenate([alive, np.setdiff1d(np.arange(len(rows)), alive)[: size - len(alive)]])
            state, rows = placement.rows(keep(state, jnp.asarray(chosen))), rows[chosen]
    return _finish(out, sampling)


def _blank(prompts: Any, padding: Any, rows: int, width: int, sampling: Sampling) -> Rollouts:
    def zeros() -> NDArray[np.float32]:
        return np.zeros((rows, width), np.float32)

    tokens = np.full((rows, width), sampling.pad, np.int32)
    blank = np.zeros(rows, np.int32)
    return Rollouts(prompts, padding, tokens, blank, blank.astype(bool), zeros(), zeros(), None)


def _write(out: Rollouts, rows: NDArray[Any], at: slice, drawn: Draw) -> Rollouts:
    """Put a chunk [steps, rows, …] into its place."""
    if drawn.support is not None:
        chunk = np.asarray(drawn.support)
        if out.support is None:
            empty = NONE if chunk.dtype == np.int32 else 255
            out = out._replace(support=np.full((*out.tokens.shape, chunk.shape[-1]), empty, chunk.dtype))
        assert out.support is not None
        out.support[rows, at] = chunk.swapaxes(0, 1)
    out.tokens[rows, at] = np.asarray(drawn.token).T
    out.log_prob[rows, at] = np.asarray(drawn.log_prob).T
    out.entropy[rows, at] = np.asarray(drawn.entropy).T
    return out


def _finish(out: Rollouts, sampling: Sampling) -> Rollouts:
    """Cut to max_new_tokens, measure, and clear what was drawn after the end."""
    width = sampling.max_new_tokens
    tokens = out.tokens[:, :width]
    stops = np.isin(tokens, sampling.stops)
    finished: NDArray[np.bool_] = np.asarray(stops.any(1))
    length = np.where(finished, stops.argmax(1) + 1, width).astype(np.int32)
    inside = np.arange(width) < length[:, None]
    return out._replace(
        tokens=np.where(inside, tokens, sampling.pad).astype(np.int32),
        length=length,
        finished=finished,
        log_prob=np.where(inside, out.log_prob[:, :width], 0),
        entropy=np.where(inside, out.entropy[:, :width], 0),
        support=None if out.support is None else out.support[:, :width],
    )
