"""A Spec as plain data and as YAML that loads again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rewardlab.spec.build import keys_of, plain
from rewardlab.spec.text import dump_yaml
from rewardlab.spec.types import EnvSpec, Spec


def dump(spec: Spec) -> dict[str, Any]:
    """The resolved spec, defaults included, without its name: what `from_dict` takes."""
    made = _plain(spec)
    if not made["search"]:
        del made["search"]
    return made


def _plain(part: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, (field, _) in keys_of(type(part)).items():
        value = getattr(part, key)
        if value is None and field.default is None:
            continue
        made[key] = _plain(value) if dataclasses.is_dataclass(value) else plain(value)
    if isinstance(part, EnvSpec):
        made.update(plain(part.kwargs))
    return made


def to_yaml(spec: Spec, extra: Mapping[str, Any] | None = None) -> str:
    """The spec under its name as YAML; `extra` stands beside it under names with a leading underscore (`_run`)."""
    for key in extra or {}:
        if not key.startswith("_"):
            raise ValueError(f"{key} would read as a spec; what stands beside one starts with an underscore")
    return dump_yaml(_escaped({spec.name: dump(spec), **plain(extra or {})}))


def _escaped(value: Any) -> Any:
    """A ${ that stands in a value is no variable of the text that it is written into."""
    if isinstance(value, dict):
        return {_escaped(k): _escaped(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_escaped(v) for v in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
