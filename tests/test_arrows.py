"""The arrows of the house: who may import whom. Read from the source: an import inside a function counts too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "rewardlab"
FILES = sorted(ROOT.rglob("*.py"))

# maths ← nets, memory ← algos ← experiment ← cli: nobody imports from a floor above
FLOORS = [{"maths"}, {"nets", "memory"}, {"algos"}, {"experiment"}, {"cli"}]
NEVER = {
    "algos": {"llm", "boards", "plots", "hub", "web", "arena"},
    "llm": {"algos", "cli", "cogs", "arena"},
    "cogs": {"nets", "memory", "algos", "envs", "experiment", "spec", "boards", "plots", "hub", "web"}
    | {"llm", "arena", "cli"},
    "envs": {"algos", "nets", "memory", "experiment", "llm", "cli"},
    "spec": {"nets", "memory", "algos", "envs", "experiment", "llm", "cogs", "arena", "boards", "plots", "web"},
    "experiment": {"llm", "arena", "boards", "hub", "web"},
    "plots": {"algos", "nets", "memory", "envs", "llm", "cli"},
    "boards": {"algos", "nets", "memory", "envs", "llm", "cli"},
    "hub": {"algos", "nets", "memory", "envs", "llm", "cli"},
    "arena": {"algos", "nets", "memory", "envs", "llm", "web", "cli"},
    "web": {"algos", "nets", "memory", "envs", "llm", "cli"},
}


def module_of(path: Path) -> str:
    """`maths.loss` for …/maths/loss.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(name: str) -> bool:
    """Whether `a.b` is a module or package of ours."""
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


def imports(path: Path) -> Iterator[str]:
    """Our own modules that a file imports, wherever in it, as `maths.loss`."""
    package = ["rewardlab", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in found:
            if name.split(".")[0] == "rewardlab":
                inner = name.removeprefix("rewardlab").strip(".")
                yield inner if is_package(inner) else inner.rpartition(".")[0]


def room(module: str) -> str:
    return module.split(".")[0]


def floor(name: str) -> int | None:
    return next((i for i, rooms in enumerate(FLOORS) if name in rooms), None)


def test_the_source_is_found() -> None:
    assert ROOT / "maths" / "loss.py" in FILES
    found = set(imports(ROOT / "algos" / "dqn.py"))
    assert {"maths.loss", "maths.advantage", "algos.base", "envs.base", "nets.heads"} <= found


def test_maths_imports_nothing_of_ours_but_maths() -> None:
    wrong = {(module_of(f), name) for f in FILES if room(module_of(f)) == "maths" for name in imports(f)}
    assert {pair for pair in wrong if room(pair[1]) != "maths"} == set()


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_arrows_point_one_way(path: Path) -> None:
    here = room(module_of(path))
    for name in imports(path):
        there = room(name)
        assert there not in NEVER.get(here, set()), f"{module_of(path)} imports {name}"
        if floor(here) is not None and floor(there) is not None and here != there:
            assert (floor(there) or 0) < (floor(here) or 0), f"{module_of(path)} imports {name}"


def test_of_the_arena_only_its_matches_know_the_game() -> None:
    wrong = [
        (module_of(f), name)
        for f in FILES
        if room(module_of(f)) == "arena" and not module_of(f).startswith("arena.match")
        for name in imports(f)
        if room(name) == "cogs"
    ]
    assert wrong == []


@pytest.mark.parametrize("room_name", ["nets", "memory", "algos"])
def test_learners_know_of_environments_only_what_one_is(room_name: str) -> None:
    wrong = [
        (module_of(f), name)
        for f in FILES
        if room(module_of(f)) == room_name
        for name in imports(f)
        if room(name) == "envs" and name != "envs.base"
    ]
    assert wrong == []


def test_nothing_is_named_utils() -> None:
    names = {part for f in FILES for part in module_of(f).split(".")}
    assert names.isdisjoint({"utils", "util", "helpers", "misc", "common"})


def reads_environment(path: Path) -> bool:
    """Whether a file touches `os.environ` or `os.getenv`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv"):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return any(alias.name in ("environ", "getenv", "putenv") for alias in node.names)
    return False


def test_environment_variables_are_read_in_cli_only() -> None:
    assert [module_of(f) for f in FILES if room(module_of(f)) != "cli" and reads_environment(f)] == []
