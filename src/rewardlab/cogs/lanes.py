"""Reads and writes at computed places, one per lane, of arrays taken flat: without bounds checks, which would cost as
much as the access. Every place given here is inside by construction."""

from __future__ import annotations

from typing import TypeVar

from jaxtyping import Array, Int

A = TypeVar("A", bound=Array)


def read(array: A, place: Int[Array, ...]) -> A:
    """The flat array's entries at some places."""
    return array.reshape(-1).at[place].get(mode="promise_in_bounds")  # type: ignore[return-value]


def write(array: A, place: Int[Array, ...], value: Array) -> A:
    """The array with entries of its flat form replaced; of equal places any one is kept."""
    flat = array.reshape(-1).at[place].set(value, mode="promise_in_bounds")
    return flat.reshape(array.shape)  # type: ignore[return-value]
