"""What happens by the clock: the clips take and scramble junctions, days come and go."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from rewardlab.cogs.rules import CLIPS, CODE, FIRST_TEAM, NEUTRAL, Rules
from rewardlab.cogs.state import Changes, State


def solar_change(rules: Rules, step: Int[Array, " E"]) -> Int[Array, " E"]:
    """How solar income changes in this step; the dawn of step 0 comes with the first."""
    length, change = rules.weather.day_length, rules.weather.change
    dawn = (step == 1) | (step % length == 0)
    return change * (dawn.astype(jnp.int32) - (step % length == length // 2))


def every(step: Array, start: int, period: int) -> Array:
    """Whether a step is one of start, start + period, …"""
    return (step >= start) & ((step - start) % period == 0)


def clips_due(rules: Rules, step: Int[Array, " E"]) -> tuple[Array, Array, Array]:
    """Whether this step brings an invasion (if none of the clips' junctions is left), a scrambling, a spreading."""
    clips = rules.clips
    going_on = (step <= clips.until) if clips.until is not None else jnp.ones_like(step, bool)
    invade = every(step, clips.start, clips.return_every)
    neutralise = every(step, clips.neutralise_start, clips.every)
    spread = every(step, clips.align_start, clips.every)
    return invade & going_on, neutralise & going_on, spread & going_on


def no_changes(rules: Rules, envs: int) -> Changes:
    """No event."""
    slots = rules.clips.first_draws + 2
    return Changes(jnp.full((slots, envs), -1, jnp.int32), jnp.zeros((slots, envs), jnp.int32))


def clips_changes(rules: Rules, state: State, step: Int[Array, " E"], key: PRNGKeyArray) -> Changes:
    """The junctions that events of this step turn, drawn evenly from those that qualify."""
    due = jnp.any(jnp.stack(clips_due(rules, step)))
    envs = step.shape[0]
    changes: Changes = jax.lax.cond(
        due, lambda: _draw_changes(rules, state, step, key), lambda: no_changes(rules, envs)
    )
    return changes


def _draw_changes(rules: Rules, state: State, step: Array, key: PRNGKeyArray) -> Changes:
    invade, neutralise, spread = clips_due(rules, step)
    sources, envs = state.source_row.shape
    owner = state.owner[:sources]
    junction = state.kind[:sources] == CODE["junction"]
    near = near_clips(rules, state)
    first = step == rules.clips.start
    absent = ~jnp.any(junction & (owner == CLIPS), 0)
    again = [first] * (rules.clips.first_draws - 1)
    wanted = [
        *(junction & due for due in (invade & (first | absent), *again)),
        junction & near & (owner >= FIRST_TEAM) & neutralise,
        junction & near & (owner == NEUTRAL) & spread,
    ]
    lots = jax.random.bits(key, (len(wanted), sources, envs), jnp.uint32) >> 1
    drawn = [_draw(qualifies, lot) for qualifies, lot in zip(wanted, lots.astype(jnp.int32), strict=True)]
    owners = [CLIPS] * (1 + len(again)) + [NEUTRAL, CLIPS]
    return Changes(jnp.stack(drawn), jnp.broadcast_to(jnp.asarray(owners, jnp.int32)[:, None], (len(owners), envs)))


def near_clips(rules: Rules, state: State) -> Bool[Array, "S E"]:
    """Whether a source lies within the clips' radius (Chebyshev) of a junction of theirs."""
    sources = state.source_row.shape[0]
    theirs = (state.owner[:sources] == CLIPS) & (state.kind[:sources] == CODE["junction"])

    def reach(i: Array, near: Array) -> Array:
        rows = jnp.abs(state.source_row - state.source_row[i])
        cols = jnp.abs(state.source_col - state.source_col[i])
        return near | ((jnp.maximum(rows, cols) <= rules.clips.radius) & theirs[i])

    near: Array = jax.lax.fori_loop(0, sources, reach, jnp.zeros_like(theirs), unroll=8)
    return near


def _draw(qualifies: Bool[Array, "S E"], lot: Int[Array, "S E"]) -> Int[Array, " E"]:
    """One of those that qualify, each with the same chance; −1 if none does."""
    best = jnp.argmax(jnp.where(qualifies, lot, -1), 0).astype(jnp.int32)
    return jnp.where(jnp.any(qualifies, 0), best, -1)
