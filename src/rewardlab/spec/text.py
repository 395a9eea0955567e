"""The text of a spec file: YAML or JSON with ${variables}, read without YAML's traps and written back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rewardlab.spec.types import SpecError

VARIABLE = re.compile(r"\$\$\{|\$\{\s*([A-Za-z_]\w*)\s*(?::([^{}\n]*))?\}")  # $${ is a ${ that is no variable
# Each ${…} becomes a token of private-use characters before parsing: it is a text in YAML and in JSON, it cannot be
# somebody's own, and one that stays unfilled is noticed only in the spec that uses it.
TOKEN = re.compile("\ue000([0-9]+)\ue001")
LITERAL = "\ue002"
JSON_STRING_OR_VARIABLE = re.compile(r'"(?:[^"\\\n]|\\.)*"|' + VARIABLE.pattern)

INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$|[-+]?\.(?:inf|Inf|INF)$|\.nan$"
)
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")


def _with_our_scalars(cls: Any) -> Any:
    """YAML 1.1 without its traps: 1e-4 is a number; 1:30, 010, on, no and 2020-01-01 are texts."""
    ours = {"tag:yaml.org,2002:" + name for name in ("int", "float", "bool", "timestamp")}
    kept = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in ours]
        for first, resolvers in cls.yaml_implicit_resolvers.items()
    }
    made: Any = type("Our" + cls.__name__, (cls,), {"yaml_implicit_resolvers": kept})
    made.ignore_aliases = lambda *_: True  # a shared value is written out again, not as &id001
    made.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
    made.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
    made.add_implicit_resolver("tag:yaml.org,2002:bool", BOOL, list("tTfF"))
    return made


Loader = _with_our_scalars(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
Dumper = _with_our_scalars(yaml.SafeDumper)


def _text(dumper: Any, value: str) -> Any:
    """Unicode's other line ends are folded into spaces unless they are escaped."""
    style = '"' if set(value) & set("\x85\u2028\u2029\ufeff") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Dumper.add_representer(str, _text)


class Variables:
    """The ${variables} of a text, in the order they stand."""

    def __init__(self, text: str, is_json: bool) -> None:
        self.uses: list[tuple[str, str | None]] = []
        if is_json:
            self.text = JSON_STRING_OR_VARIABLE.sub(self._mark_json, text)
        else:
            self.text = VARIABLE.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return LITERAL
        self.uses.append((match[1], match[2]))
        return f"\ue000{len(self.uses) - 1}\ue001"

    def _mark_json(self, match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return VARIABLE.sub(self._mark, match[0])
        return f'"{self._mark(match)}"'  # unquoted, as SLM-Lab writes numbers

    def used_in(self, value: Any, where: str = "") -> list[tuple[str, str, str | None]]:
        """Each variable that a parsed value holds: its place, its name, its default."""
        if isinstance(value, Mapping):
            inner = ((k, v, f"{where}.{k}" if where else str(k)) for k, v in value.items())
            return [use for k, v, place in inner for use in self.used_in(k, place) + self.used_in(v, place)]
        if isinstance(value, list):
            return [use for v in value for use in self.used_in(v, where)]
        found = TOKEN.findall(value) if isinstance(value, str) else []
        return [(where, *self.uses[int(index)]) for index in found]

    def fill(self, value: Any, given: Mapping[str, Any]) -> Any:
        """The parsed value with its variables filled; one alone in its place takes the type it is written in."""
        if isinstance(value, Mapping):
            return {self.fill(k, given): self.fill(v, given) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v, given) for v in value]
        if not isinstance(value, str):
            return value
        if alone := TOKEN.fullmatch(value):
            filled = self._value(int(alone[1]), given)
            return value if filled is None else parse_value(filled) if isinstance(filled, str) else filled

        def within(match: re.Match[str]) -> str:
            filled = self._value(int(match[1]), given)
            return match[0] if filled is None else str(filled)

        return TOKEN.sub(within, value.replace(LITERAL, "${"))

    def restore(self, value: Any) -> Any:
        """The parsed value with its variables written out again as ${name:default}."""
        if isinstance(value, Mapping):
            return {self.restore(k): self.restore(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.restore(v) for v in value]
        if not isinstance(value, str):
            return value
        return TOKEN.sub(lambda m: self._written(int(m[1])), value.replace(LITERAL, "$${"))

    def _written(self, index: int) -> str:
        name, default = self.uses[index]
        return f"${{{name}}}" if default is None else f"${{{name}:{default}}}"

    def _value(self, index: int, given: Mapping[str, Any]) -> Any:
        name, default = self.uses[index]
        return given.get(name, default)


def variable_names(text: str) -> list[str]:
    """The names that a text uses as ${name}."""
    return sorted({match[1] for match in VARIABLE.finditer(text) if match[1]})


def parse_value(text: str) -> Any:
    """A value as on a command line: YAML, or the text itself where that says nothing."""
    try:
        value = yaml.load(text, Loader)
    except yaml.YAMLError:
        return text
    return text if value is None and text.strip() not in ("null", "~", "Null", "NULL") else value


def parse(text: str, source: Path | str) -> tuple[dict[str, Any], Variables]:
    """The document of a YAML or JSON text (by the name of its file), its variables still tokens."""
    is_json = str(source).endswith(".json")
    if set(text) & set("\ue000\ue001\ue002"):
        raise SpecError(f"{source} holds a private-use character (U+E000 to U+E002), which a spec may not")
    variables = Variables(text, is_json)
    try:
        document = _parse_json(variables.text) if is_json else _parse_yaml(variables.text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{source} is not valid JSON: {error.msg} (line {error.lineno})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise SpecError(f"{source} is not valid YAML: {getattr(error, 'problem', error)}{place}") from error
    except _DuplicateKeyError as error:
        raise SpecError(f"{source} has the key {error} twice in one place") from error
    if not isinstance(document, dict):
        raise SpecError(f"{source} holds no named specs: expected a mapping of names to specs")
    return document, variables


class _DuplicateKeyError(Exception):
    """A key that stands twice in one mapping: one of them would be lost in silence."""


def _parse_yaml(text: str) -> Any:
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_duplicates(node, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_duplicates(node: Any, seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys = set()
        for key, value in node.value:
            if key.value in keys and key.value != "<<":
                raise _DuplicateKeyError(f"{key.value} (line {key.start_mark.line + 1})")
            keys.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            _refuse_duplicates(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_duplicates(value, seen)


def _parse_json(text: str) -> Any:
    def pairs(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in items:
            if key in made:
                raise _DuplicateKeyError(key)
            made[key] = value
        return made

    return json.loads(text, object_pairs_hook=pairs)


def dump_yaml(value: Mapping[str, Any]) -> str:
    """YAML that `parse` reads back as the same value."""
    text: str = yaml.dump(dict(value), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
