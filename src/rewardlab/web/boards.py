"""The pages of what was trained: the benchmark board, the speedrun board, and every run with its curves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.boards import speedrun
from rewardlab.experiment.record import RecordError, RunFolder
from rewardlab.experiment.table import read_columns
from rewardlab.files import read_json
from rewardlab.web import language
from rewardlab.web.site import Site, chart

PUBLISHED, RECORDS, KEPT = Path("docs/benchmarks.json"), Path("docs/SPEEDRUN.md"), Path("benchmarks/runs")
LINKED = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
FRAMES, STEPS = ("frames", "mean reward of the last 100 checkpoints"), ("steps", "reward")
POINTS = 400  # of a curve on a page
WORDS = {"solved": "reached", "close": "close", "failed": "below"}


@dataclass(frozen=True)
class Runs:
    """Run folders of this machine: those that a person trained, and those that the repository keeps."""

    data: Path

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """Where they lie."""
        return (self.data, KEPT)

    def all(self) -> list[Path]:
        """Every run, the newest first."""
        found = [spec.parent for root in self.roots for spec in root.glob("*/*_t0_spec.yaml")]
        return sorted(set(found), key=lambda path: path.name[-17:], reverse=True)

    def get(self, name: str) -> RunFolder:
        """A run by the name of its folder; names that are no folder's name lead nowhere."""
        for path in self.all():
            if path.name == name:
                return RunFolder.open(path)
        raise missing("run", name, [path.name for path in self.all()])


def router(data: Path, site: Site) -> APIRouter:
    """All pages of the boards."""
    pages, runs = APIRouter(include_in_schema=False), Runs(data)

    @pages.get("/benchmarks")
    def benchmarks(request: Request) -> Response:
        known = {path.name for path in runs.all()}
        rows = [row | {"here": row["folder"] in known} for row in _published()]
        boards: dict[str, dict[str, list[Any]]] = {}
        for row in rows:
            boards.setdefault(row["category"], {}).setdefault(row["env"], []).append(row)
        return site.page(request, "benchmarks.html", boards=boards, words=WORDS)

    @pages.get("/speedruns")
    def speedruns(request: Request) -> Response:
        tracks: dict[str, list[dict[str, Any]]] = {}
        for row in speedrun.rows(RECORDS):
            linked = LINKED.fullmatch(row.cells["run_id"])
            name = linked[1] if linked else row.cells["run_id"]
            tracks.setdefault(row.track, []).append({**row.cells, "run_id": name})
        return site.page(request, "speedruns.html", tracks=tracks)

    @pages.get("/speedruns/{name}")
    def record(request: Request, name: str) -> Response:
        path = next((p for p in RECORDS.parent.glob("speedrun/*.json") if p.stem == name), None)
        if path is None:
            raise missing("speedrun", name, [p.stem for p in RECORDS.parent.glob("speedrun/*.json")])
        run = read_json(path)
        history = [float(value) for value in run.get("reward_history", [])]
        drawn = chart([("mean of the last 100 steps", _thin(language.curve(history)))], "steps", "reward")
        facts = {key: value for key, value in run.items() if isinstance(value, str | int | float) and value != ""}
        return site.page(request, "record.html", name=name, facts=facts, curve=drawn)

    @pages.get("/runs")
    def all_runs(request: Request) -> Response:
        return site.page(request, "runs.html", runs=[_summary(path) for path in runs.all()])

    @pages.get("/runs/{name}")
    def run(request: Request, name: str) -> Response:
        folder = runs.get(name)
        try:
            steps = language.steps_of(folder)
            lines = list(_curves(folder, steps))
            metrics = _metrics(folder)
            spec = folder.trial_spec_path.read_text(encoding="utf-8")
        except (RecordError, OSError, ValueError) as error:
            raise ArenaError(f"The run {name} cannot be read: {error}", 404) from error
        pictures = sorted(path.name for path in (folder.path / "graph").glob("*.png"))
        return site.page(
            request,
            "run.html",
            name=name,
            place=folder.path.as_posix(),
            metrics=metrics,
            curve=chart(lines, *(FRAMES if steps is None else STEPS)),
            sample=steps[-1].get("sample") if steps else None,
            language=steps is not None,
            pictures=pictures,
            spec=spec,
        )

    @pages.get("/runs/{name}/graph/{picture}")
    def graph(name: str, picture: str) -> Response:
        for path in (runs.get(name).path / "graph").glob("*.png"):
            if path.name == picture:
                return FileResponse(path, media_type="image/png")
        raise missing("picture", picture)

    return pages


@lru_cache(maxsize=1)
def _parsed(path: Path, _changed: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows


def _published() -> list[dict[str, Any]]:
    """The rows of the benchmark board as it is published."""
    return _parsed(PUBLISHED, PUBLISHED.stat().st_mtime_ns) if PUBLISHED.is_file() else []


def _metrics(folder: RunFolder) -> dict[str, float]:
    """A run's figures; a run that is not finished has none yet, but for a language model's."""
    if (steps := language.steps_of(folder)) is not None:
        return language.figures(steps)
    if not folder.trial_metrics_path.is_file():
        return {}
    scalars: dict[str, float] = read_json(folder.trial_metrics_path)["scalar"]
    return scalars


def _summary(path: Path) -> dict[str, Any]:
    """A run as a line of the list; one that cannot be read says so there."""
    try:
        folder = RunFolder.open(path)
        return {"name": path.name, "spec": folder.spec_name, "metrics": _metrics(folder), "problem": ""}
    except (RecordError, OSError, ValueError, KeyError) as error:
        return {"name": path.name, "spec": "", "metrics": {}, "problem": str(error)}


def _curves(folder: RunFolder, steps: language.Steps | None) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    if steps is not None:
        yield "mean of the last 100 steps", _thin(language.curve([step["reward"] for step in steps]))
        return
    for session in folder.sessions():
        columns = read_columns(folder.session_df_path(session, "train"))
        points = zip(columns["frame"], columns["total_reward_ma"], strict=True)
        yield f"session {session}", _thin([(float(x), float(y)) for x, y in points])


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    every = max(1, len(points) // POINTS)
    return [*points[::every], points[-1]] if points else []
