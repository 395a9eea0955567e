"""From plain mappings to frozen dataclasses by their type hints; every mistake is one sentence with its place."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import numbers
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rewardlab.spec.check import check
from rewardlab.spec.types import EnvSpec, Spec, SpecError

T = TypeVar("T")
ENV_CUTOFF = 0.75  # how near a key of `env` comes to one of ours before it is a mistake and not the environment's own


def near(word: str, options: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The valid name that a mistyped one most resembles, if any does."""
    lowered = {option.lower(): option for option in options}
    found = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    found = found or [option for option in lowered if sorted(option) == sorted(word.lower())]
    return lowered[found[0]] if found else None


def join(where: str, key: object) -> str:
    """A dotted place."""
    return f"{where}.{key}" if where else str(key)


def keys_of(cls: type) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """The keys that a dataclass takes from a spec, each with its field and its type."""
    return _keys_of(cls)


@functools.cache
def _keys_of(cls: Any) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    chosen = [f for f in dataclasses.fields(cls) if f.init and f.metadata.get("spec", True)]
    return {f.name: (f, hints[f.name]) for f in chosen}


def build(cls: type[T], mapping: Any, where: str, ignore: Collection[str] = ()) -> T:
    """The dataclass that a mapping describes, checked; `ignore` names keys that are somebody else's."""
    if not isinstance(mapping, Mapping):
        raise SpecError(f"{where} is {mapping!r}, expected a mapping with the keys {', '.join(keys_of(cls))}")
    known = keys_of(cls)
    for key in mapping:
        if key not in known and key not in ignore:
            raise SpecError(unknown_key(where, str(key), known))
    values = {}
    for name, (field, hint) in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        value = mapping.get(name)
        if value is None and not required and not (name in mapping and _takes_none(hint)):
            continue  # left out, or null where null means nothing: SLM-Lab's specs say null for "the default"
        if name not in mapping:
            raise SpecError(f"{join(where, name)} is missing")
        values[name] = coerce(hint, value, join(where, name))
    try:
        made = cls(**values)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, SpecError) else SpecError(f"{where}: {error}") from error
    check(made, where)
    return made


def coerce(hint: Any, value: Any, where: str) -> Any:
    """The value as its type, or an error that says the place, what was given and what is expected."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(hint, value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else build(hint, value, where)
    if origin in (tuple, list) and isinstance(value, Sequence) and not isinstance(value, str):
        return _coerce_sequence(hint, value, where)
    if _is_mapping(hint) and isinstance(value, Mapping):
        return plain(value)
    if origin is typing.Literal and value in typing.get_args(hint):
        return value
    if hint is float and _is_number(value):
        return float(value)
    if hint is int and _is_number(value) and value == value // 1:
        return int(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    if hint is None or hint is type(None):
        if value is None:
            return None
    elif not _is_checked(hint):
        return plain(value)  # a type that no spec can write, such as an array: its owner checks it
    raise SpecError(f"{where} is {value!r}, expected {expected(hint)}")


def _coerce_union(hint: Any, value: Any, where: str) -> Any:
    """The first member that takes the value; a lone dataclass among them says its own mistake."""
    members = typing.get_args(hint)
    for member in members:
        if dataclasses.is_dataclass(member) and isinstance(value, Mapping):
            return coerce(member, value, where)
    for member in members:
        if _is_checked(member):
            try:
                return coerce(member, value, where)
            except SpecError:
                continue
        if isinstance(member, type) and isinstance(value, member):
            return value
    told = [m for m in members if _is_checked(m)]
    raise SpecError(f"{where} is {value!r}, expected {' or '.join(expected(m) for m in told)}")


def _coerce_sequence(hint: Any, value: Sequence[Any], where: str) -> Any:
    """A list or tuple, each entry as its type."""
    members = typing.get_args(hint)
    if typing.get_origin(hint) is list or (len(members) == 2 and members[1] is ...):
        members = (members[0],) * len(value)
    if len(members) != len(value):
        raise SpecError(f"{where} has {len(value)} entries, expected {len(members)}")
    made = [coerce(m, v, f"{where}[{i}]") for i, (m, v) in enumerate(zip(members, value, strict=True))]
    return made if typing.get_origin(hint) is list else tuple(made)


def plain(value: Any) -> Any:
    """Mappings, lists and scalars only, sharing nothing with what was given."""
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)


def _is_mapping(hint: Any) -> bool:
    return (typing.get_origin(hint) or hint) in (Mapping, dict)


def _takes_none(hint: Any) -> bool:
    return hint is Any or type(None) in typing.get_args(hint)


def _is_checked(hint: Any) -> bool:
    """Whether a spec can write a value of this type, so that one can be judged."""
    known = hint in (int, float, bool, str, None, type(None)) or dataclasses.is_dataclass(hint)
    return known or _is_mapping(hint) or typing.get_origin(hint) in (tuple, list, typing.Literal)


def expected(hint: Any) -> str:
    """A type in words."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    if hint in words:
        return words[hint]
    members, origin = typing.get_args(hint), typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(expected(m) for m in members if _is_checked(m))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, members))
    if origin in (tuple, list):
        several = origin is list or (len(members) == 2 and members[1] is ...)
        return f"a list, each entry {expected(members[0])}" if several else f"a list of {len(members)} numbers"
    return "a mapping"


def unknown_key(where: str, key: str, options: Iterable[str]) -> str:
    """The sentence for a key that is not there: SLM-Lab's, or the nearest here, or the nearest elsewhere, or all."""
    from rewardlab import slm  # only on the way to an error

    place, options = join(where, key), list(options)
    if key in slm.DEAD_KEYS.get(where.replace("critic_net", "net"), ()):
        return f"{place} is a key of SLM-Lab that has no effect here; `rewardlab spec import FILE` drops it"
    if nearest := near(key, options):
        return f"{place} is unknown; did you mean {join(where, nearest)}?"
    elsewhere = {path.rpartition(".")[2]: path for path in reversed(all_paths())}
    if nearest := near(key, elsewhere, cutoff=0.85):
        return f"{place} is unknown; did you mean {elsewhere[nearest]}?"
    return f"{place} is unknown; {where or 'a spec'} has the keys {', '.join(options)}"


@functools.cache
def all_paths() -> tuple[str, ...]:
    """Every dotted key of the schema, shallow ones first."""

    def below(cls: type, where: str) -> list[str]:
        paths = []
        for name, (_, hint) in keys_of(cls).items():
            inner = dataclass_in(hint)
            paths += [join(where, name), *(below(inner, join(where, name)) if inner else [])]
        return paths

    return tuple(sorted(below(Spec, ""), key=lambda path: path.count(".")))


def dataclass_in(hint: Any) -> type | None:
    """The dataclass of a type, also where it is optional."""
    found = [m for m in (hint, *typing.get_args(hint)) if isinstance(m, type) and dataclasses.is_dataclass(m)]
    return found[0] if found else None


def schema_at(path: str) -> Any:
    """The type that the schema has at a dotted path (Any where everything goes), or an error naming the nearest."""
    hint: Any = Spec
    done = ""
    for part in path.split("."):
        cls = dataclass_in(hint)
        if cls is None:
            if hint is Any or any(_is_mapping(m) for m in (hint, *typing.get_args(hint))):
                return Any
            raise SpecError(f"{done} is {expected(hint)} and holds no keys, so there is no {path}")
        known = keys_of(cls)
        if part in known:
            hint = known[part][1]
        elif cls is EnvSpec:
            check_env_key(part)
            hint = Any
        else:
            raise SpecError(unknown_key(done, part, known))
        done = join(done, part)
    return hint


def check_env_key(key: str) -> None:
    """Keys of `env` that are not ours go to the environment, unless they look like one of ours mistyped."""
    nearest = near(key, keys_of(EnvSpec), ENV_CUTOFF)
    if nearest:
        raise SpecError(f"env.{key} is unknown; did you mean env.{nearest}?")
    if key == "kwargs":
        raise SpecError("env.kwargs is unknown; the environment's own keys stand directly under env")
