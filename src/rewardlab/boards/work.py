"""The work loop of the board: which rows are missing, which spec to try next, and publishing what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardlab.boards import benchmark, page
from rewardlab.boards.benchmark import FAILED, Target, targets
from rewardlab.files import RecordError, read_json, write_json, write_text_atomic
from rewardlab.plots import compare
from rewardlab.spec import Spec, SpecError, load, names, near
from rewardlab.spec.text import variable_names

VARIANTS = ("lam95", "lam85", "lam70")  # the seeds' order: shorter and shorter credit


@dataclass(frozen=True)
class Attempt:
    """A run that could fill a row."""

    target: Target
    spec_name: str
    settings: tuple[str, ...]
    mode: str = "train"

    @property
    def key(self) -> str:
        """By what the ledger knows it."""
        return f"{self.spec_name}/{self.target.env}/{self.mode}"


def publish(runs: Path, output: Path, json_output: Path) -> int:
    """Write the table, its JSON, and a plot per environment from exactly the runs in the table."""
    results = benchmark.collect(runs)
    plots = output.parent / "plots"
    output.parent.mkdir(parents=True, exist_ok=True)
    for env in dict.fromkeys(r.target.env for r in results):
        folders = [r.folder for r in results if r.target.env == env]
        target = plots / page.plot_name(env)
        manifest = target.with_name(f"{target.name}.json")
        if not manifest.exists() or sorted(read_json(manifest)["folders"]) != sorted(folders):
            compare.draw(env, [runs / folder for folder in folders], target, interactive=False)
    write_text_atomic(output, page.render(results, runs, Path("plots"), read_ledger(runs)))
    write_text_atomic(json_output, page.as_json(results, runs))
    return len(results)


def attempts(target: Target) -> list[Attempt]:
    """The specs that could fill a row, in the order in which they are tried: the plain one, then lam95, lam85, lam70;
    a search of the first at the end, if it says what to search."""
    fitting: list[Attempt] = []
    searchable: set[str] = set()
    for path, name in names():
        if not name.startswith(target.spec_prefix) or benchmark.target_of(target.env, name) != target:
            continue
        known = variable_names(path.read_text(encoding="utf-8"))
        given = {"env": target.env, "max_frame": target.settings["max_frame"]}
        settings = tuple(f"{key}={value}" for key, value in given.items() if key in known)
        spec, usual = _loaded(path, name, settings), _loaded(path, name, [s for s in settings if s[:4] != "env="])
        if spec is None or spec.env.name != target.env:
            continue
        if usual is not None and usual.env.name != target.env and kind_of(usual.env.name) != target.category:
            continue  # a spec for many environments, but of another kind
        fitting.append(Attempt(target, name, settings))
        searchable |= {name} if spec.search else set()
    fitting.sort(key=lambda a: _rank(a.spec_name))
    first = [a for a in fitting[:1] if a.spec_name in searchable]
    return fitting + [Attempt(a.target, a.spec_name, a.settings, "search") for a in first]


def _loaded(path: Path, name: str, settings: Sequence[str]) -> Spec | None:
    """A spec with these settings, if they fill it."""
    try:
        return load(path, name, settings=settings)
    except SpecError:
        return None


def kind_of(env: str) -> str | None:
    """The category of an environment on the board."""
    return next((t.category for t in targets() if t.env == env), None)


def _rank(name: str) -> tuple[int, int, str]:
    """Plain names first, then variants from the longest credit to the shortest."""
    found = [i for i, variant in enumerate(VARIANTS, start=1) if name.endswith(variant)]
    return (found[0] if found else 0, len(name), name)


def fits(part: str, target: Target) -> bool:
    """Whether a part of an environment's name, or of a spec's, means a row."""
    return part in target.env or part in f"{target.spec_prefix}{target.env.lower()}"


def check_parts(only: Sequence[str]) -> None:
    """Refuses a part that no row has."""
    for part in only:
        if not any(fits(part, target) for target in targets()):
            known = [*dict.fromkeys(t.env for t in targets()), *dict.fromkeys(t.spec_prefix[:-1] for t in targets())]
            nearest = near(part, known)
            hint = f"did you mean {nearest}?" if nearest else "rewardlab bench coverage shows what there is"
            raise RecordError(f"no row of the board fits {part!r}; {hint}")


def missing(runs: Path, only: Sequence[str] = ()) -> Iterator[Target]:
    """The rows without a run, and those whose run missed the target by far."""
    done = {r.target: r for r in benchmark.collect(runs)}
    for target in targets():
        result = done.get(target)
        if (not only or any(fits(part, target) for part in only)) and (result is None or result.status == FAILED):
            yield target


def next_attempt(target: Target, ledger: Mapping[str, Any]) -> Attempt | None:
    """The first one that was not yet tried."""
    tried = {row["key"] for part in ("active", "completed") for row in ledger.get(part, [])}
    return next((a for a in attempts(target) if a.key not in tried), None)


def ledger_path(runs: Path) -> Path:
    """What the work loop has under way and behind it."""
    return runs.parent / "work.json"


def read_ledger(runs: Path) -> dict[str, Any]:
    """Both lists; empty where nothing was ever run."""
    path = ledger_path(runs)
    return dict(read_json(path)) if path.exists() else {"active": [], "completed": []}


def write_ledger(runs: Path, ledger: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    write_json(ledger_path(runs), ledger)
