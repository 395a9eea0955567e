"""From a file or a name to a checked Spec: variables, overrides, notes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardlab.spec import arc
from rewardlab.spec.build import (
    all_paths,
    build,
    check_env_key,
    coerce,
    join,
    keys_of,
    near,
    plain,
    schema_at,
    unknown_key,
)
from rewardlab.spec.check import check_together
from rewardlab.spec.files import locate, read
from rewardlab.spec.text import Variables, parse, parse_value, variable_names
from rewardlab.spec.types import AgentSpec, EnvSpec, MetaSpec, Spec, SpecError

NOTHING: Mapping[str, Any] = {}


def load(
    path_or_name: str | Path,
    spec_name: str | None = None,
    variables: Mapping[str, Any] = NOTHING,
    overrides: Mapping[str, Any] = NOTHING,
    settings: Sequence[str] = (),
) -> Spec:
    """The named spec of a file, or of the packaged specs; `settings` are a command line's `key=value`."""
    path, spec_name, notes = locate(path_or_name, spec_name)
    text = read(path)
    more_variables, more_overrides = parse_settings(settings, text)
    document, marked = parse(text, path)
    spec_name, raw = choose(document, spec_name, path)
    return _finish(
        spec_name, raw, marked, {**variables, **more_variables}, {**overrides, **more_overrides}, tuple(notes)
    )


def loads(text: str, spec_name: str | None = None, source: str = "text.yaml", **given: Any) -> Spec:
    """`load` for a text at hand; `source` names it in errors and says YAML or JSON by its ending."""
    document, marked = parse(text, source)
    spec_name, raw = choose(document, spec_name, source)
    return _finish(spec_name, raw, marked, given.get("variables", {}), given.get("overrides", {}), ())


def _finish(
    name: str,
    raw: Any,
    marked: Variables,
    variables: Mapping[str, Any],
    overrides: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Spec:
    """The Spec of a parsed mapping whose variables are still tokens."""
    from rewardlab import slm

    uses = marked.used_in(raw)
    _check_filled(name, uses, variables, overrides)
    for key in sorted(set(variables) - {use[1] for use in uses}):
        notes += (f"the variable {key} has no effect: {name} does not use ${{{key}}}",)
    raw = marked.fill(raw, variables)
    if slm.is_slm(raw):
        raw, converted = slm.convert(raw)
        notes += tuple(converted)
    return from_dict(set_paths(raw, overrides), name, notes)


def _check_filled(
    name: str,
    uses: list[tuple[str, str, str | None]],
    variables: Mapping[str, Any],
    overrides: Collection[str],
) -> None:
    """An error for variables that nobody fills, unless an override takes their place."""
    replaced = tuple(f"{path}." for path in overrides)
    missing: dict[str, str] = {}
    for place, key, default in uses:
        if key not in variables and default is None and not f"{place}.".startswith(replaced or ("\0",)):
            missing.setdefault(key, place)
    if missing:
        what = " and ".join(f"${{{key}}} (at {place})" for key, place in missing.items())
        flags = " ".join(f"-s {key}=…" for key in missing)
        raise SpecError(f"{name} needs {what}; fill {'them' if len(missing) > 1 else 'it'} with {flags}")


def choose(document: Mapping[str, Any], spec_name: str | None, source: object) -> tuple[str, Any]:
    """The named spec of a document, or its only one; names with a leading underscore are anchors."""
    named = {str(key): value for key, value in document.items() if not str(key).startswith("_")}
    if not named:
        raise SpecError(f"{source} holds no specs: every name in it starts with an underscore")
    if spec_name is None:
        if len(named) > 1:
            raise SpecError(f"{source} holds several specs; name one of {', '.join(named)}")
        return next(iter(named.items()))
    if spec_name not in named:
        nearest = near(spec_name, named)
        hint = f"did you mean {nearest}?" if nearest else f"it holds {', '.join(named)}"
        raise SpecError(f"{source} holds no spec {spec_name}; {hint}")
    return spec_name, named[spec_name]


def from_dict(raw: Any, name: str, notes: Sequence[str] = ()) -> Spec:
    """The checked Spec of a plain mapping in our keys."""
    if not isinstance(raw, Mapping):
        raise SpecError(f"the spec {name} is {raw!r}, expected a mapping with agent, env and meta")
    known = keys_of(Spec)
    for key in raw:
        if key not in (*known, "body"):
            raise SpecError(unknown_key("", str(key), known))
    for key in ("agent", "env"):
        if not isinstance(raw.get(key), Mapping):
            raise SpecError(f"{key} is missing" if key not in raw else f"{key} is {raw[key]!r}, expected a mapping")
    if "body" in raw:
        notes = (*notes, "body has no effect: an agent has one body here")
    search = coerce(Mapping[str, Any], raw.get("search") or {}, "search")
    meta = build(MetaSpec, raw.get("meta") or {}, "meta")
    spec = Spec(name, _agent(raw["agent"]), _env(raw["env"]), meta, search, tuple(notes))
    check_together(spec)
    return spec


def _agent(raw: Mapping[str, Any]) -> AgentSpec:
    """The agent; its name is a label, which the algorithm's stands in for."""
    algorithm = raw.get("algorithm")
    label = algorithm.get("name") if isinstance(algorithm, Mapping) else None
    filled = {"name": label if isinstance(label, str) else "agent", **raw}
    for key in ("net", "critic_net"):
        if key in filled:
            filled[key] = arc.resolve(filled[key], join("agent", key))
    return build(AgentSpec, filled, "agent")


def _env(raw: Mapping[str, Any]) -> EnvSpec:
    """The environment's own keys go to it as they stand, unless they look like one of ours mistyped."""
    known = keys_of(EnvSpec)
    others = {str(key): plain(value) for key, value in raw.items() if key not in known}
    for key in others:
        check_env_key(key)
    made = build(EnvSpec, {key: value for key, value in raw.items() if key in known}, "env")
    return replace(made, kwargs=others)


def parse_settings(settings: Sequence[str], source: str | Spec) -> tuple[dict[str, Any], dict[str, Any]]:
    """`key=value` texts as (variables, overrides): a ${key} of the text, or a dotted key of the schema."""
    names = variable_names(source) if isinstance(source, str) else []
    variables: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SpecError(f"-s {setting} is not of the form key=value")
        if key in names:
            variables[key] = value
        elif "." in key:
            schema_at(key)
            overrides[key] = parse_value(value)
        else:
            raise SpecError(_unknown_setting(key, names))
    return variables, overrides


def _unknown_setting(key: str, names: Sequence[str]) -> str:
    """The sentence for a bare key that nothing answers to."""
    leaves = {path.rpartition(".")[2]: path for path in reversed(all_paths()) if "." in path}
    nearest = near(key, [*names, *leaves])
    told = f"-s {key}=… fills nothing: the spec has no ${{{key}}}"
    if nearest is None:
        return f"{told} (it has {', '.join(names)})" if names else f"{told}; a setting of a spec is a dotted key"
    return f"{told}; did you mean -s {nearest if nearest in names else leaves[nearest]}=…?"


def set_paths(raw: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a plain spec with values at dotted paths; sections that are not there yet are made."""
    made = plain(raw)
    for path, value in values.items():
        schema_at(path)
        *parents, last = path.split(".")
        here = made
        for part in parents:
            if not isinstance(here.get(part), dict):
                here[part] = {}
            here = here[part]
        here[last] = plain(value)
    return made


def apply(spec: Spec, values: Mapping[str, Any]) -> Spec:
    """A new checked Spec with values at dotted paths."""
    from rewardlab.spec.dump import dump

    return from_dict(set_paths(dump(spec), values), spec.name, spec.notes)
