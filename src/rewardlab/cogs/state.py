"""What an episode consists of at one moment. Environments are the last axis: rules on scalars then fill the lanes."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int, UInt32


class Stats(NamedTuple):
    """Counters since the episode's start; K owners are the clips, then the teams. `statistics.py` names them."""

    gained: Int[Array, "R A E"]
    lost: Int[Array, "R A E"]
    moved: Int[Array, "A E"]
    move_failed: Int[Array, "A E"]
    nooped: Int[Array, "A E"]
    vibe_changed: Int[Array, "A E"]
    aligned: Int[Array, "A E"]
    scrambled: Int[Array, "A E"]
    longest_rest: Int[Array, "A E"]  # steps without motion
    junctions: Int[Array, "K E"]
    junctions_gained: Int[Array, "K E"]
    junctions_lost: Int[Array, "K E"]
    junctions_held: Int[Array, "K E"]  # the sum over steps
    deposited: Int[Array, "T I E"]
    withdrawn: Int[Array, "T I E"]
    tokens_written: Int[Array, " E"]
    tokens_dropped: Int[Array, " E"]
    tokens_free: Int[Array, " E"]


class State(NamedTuple):
    """E environments. Cells are numbered row by row; objects as in `maps.pool.MapPool`; owners as in `rules`."""

    step: Int[Array, " E"]
    map: Int[Array, " E"]  # which map of the pool
    planes: tuple[UInt32[Array, "E HW"], ...]  # a word per cell; the low byte of the first is the code of what is there
    kind: Int[Array, "O E"]
    source_row: Int[Array, "S E"]
    source_col: Int[Array, "S E"]
    owner: Int[Array, "O E"]
    amount: Int[Array, "O E"]  # what an extractor still holds
    cell: Int[Array, "A E"]
    spawn: Int[Array, "A E"]
    inventory: Int[Array, "R A E"]
    vibe: Int[Array, "A E"]
    last_action: Int[Array, "A E"]  # 0 if it failed
    rest: Int[Array, "A E"]  # steps since the last motion
    store: Int[Array, "T I E"]  # the elements, then hearts (`rules.STORED`)
    stats: Stats


class Outcome(NamedTuple):
    """What a step gave."""

    reward: Float[Array, "A E"]
    success: Bool[Array, "A E"]
    terminated: Bool[Array, " E"]
    truncated: Bool[Array, " E"]


class Changes(NamedTuple):
    """Junctions that change owner by an event; object −1 is none."""

    object: Int[Array, "K E"]
    owner: Int[Array, "K E"]
