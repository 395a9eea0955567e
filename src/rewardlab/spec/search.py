"""Search ranges: `agent.algorithm.gamma__uniform: [0.95, 0.999]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rewardlab.spec.build import coerce, join, near, schema_at
from rewardlab.spec.types import SpecError

# what each kind takes, in the order it takes it
KINDS = {
    "uniform": ("low", "high"),
    "quniform": ("low", "high", "step"),
    "loguniform": ("low", "high"),
    "randint": ("low", "high"),
    "qrandint": ("low", "high", "step"),
    "choice": (),
    "normal": ("mean", "deviation"),
}
WHOLE = ("randint", "qrandint")


@dataclass(frozen=True)
class SearchRange:
    """What a search varies: a dotted path, how it is drawn, and between what (randint's high is left out)."""

    path: str
    kind: str
    args: tuple[Any, ...]


def parse_search(search: Mapping[str, Any]) -> list[SearchRange]:
    """The checked ranges of a spec's `search`; nested mappings read as dotted keys."""
    return [_range(key, value) for key, value in _flat(search, "")]


def _flat(search: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for key, value in search.items():
        if isinstance(value, Mapping):
            yield from _flat(value, join(where, key))
        else:
            yield join(where, key), value


def _range(key: str, value: Any) -> SearchRange:
    path, separator, kind = key.rpartition("__")
    if not separator:
        raise SpecError(f"search.{key} says not how to draw: add one of {', '.join('__' + k for k in KINDS)}")
    if kind not in KINDS:
        nearest = near(kind, KINDS)
        hint = f"did you mean {path}__{nearest}?" if nearest else f"there are {', '.join(KINDS)}"
        raise SpecError(f"search.{key} ends in an unknown way to draw, __{kind}; {hint}")
    hint = schema_at(path)
    if not isinstance(value, list | tuple):
        raise SpecError(f"search.{key} is {value!r}, expected a list")
    if kind == "choice":
        if not value:
            raise SpecError(f"search.{key} is empty, expected one choice or more")
        return SearchRange(path, kind, tuple(_fitting(hint, v, f"search.{key}") for v in value))
    _check(key, kind, value)
    if hint is int and kind not in WHOLE:
        raise SpecError(f"search.{key}: {path} is a whole number; draw it with {path}__randint or __qrandint")
    return SearchRange(path, kind, tuple(value))


def _fitting(hint: Any, value: Any, where: str) -> Any:
    """A choice of the type that its place has; one that names a section is checked when it is applied."""
    if hint in (int, float, bool, str):
        coerce(hint, value, where)
    return value


def _check(key: str, kind: str, value: list[Any] | tuple[Any, ...]) -> None:
    """Arity, type and order of a range's numbers."""
    names = KINDS[kind]
    if len(value) != len(names):
        raise SpecError(f"search.{key} has {len(value)} entries, expected {len(names)}: {', '.join(names)}")
    for name, number in zip(names, value, strict=True):
        coerce(int if kind in WHOLE else float, number, f"search.{key} ({name})")
    if kind == "normal":
        if value[1] <= 0:
            raise SpecError(f"search.{key} has the deviation {value[1]!r}, expected more than 0")
        return
    low, high, *step = value
    if low >= high:
        raise SpecError(f"search.{key} runs from {low!r} to {high!r}, expected the low end first")
    if kind == "loguniform" and low <= 0:
        raise SpecError(f"search.{key} starts at {low!r}, expected more than 0 for a logarithm")
    if step and not 0 < step[0] <= high - low:
        raise SpecError(f"search.{key} has the step {step[0]!r}, expected one that fits between {low!r} and {high!r}")
