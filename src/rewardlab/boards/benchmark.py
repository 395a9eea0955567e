"""The benchmark board: from run folders to `docs/BENCHMARKS.md`, each number computed from a run's own tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.experiment import metrics
from rewardlab.experiment.record import RecordError, RunFolder, read_columns, read_json, write_json
from rewardlab.experiment.trial import speed

ALGORITHMS = {"DDQN+PER": "ddqn_per"}  # labels whose spec names are not their lower case
SETTINGS = ("max_frame", "num_envs", "max_session", "log_frequency")
CLOSE = 0.8  # the share of the way from random play to the target that counts as close


@dataclass(frozen=True)
class Target:
    """A row that the board wants filled: what is to be reached, at which settings, and what SLM-Lab publishes."""

    category: str
    env: str
    algorithm: str
    goal: float
    published: float | None
    settings: Mapping[str, Any] = field(hash=False)

    @property
    def spec_prefix(self) -> str:
        """What the names of fitting specs begin with."""
        return ALGORITHMS.get(self.algorithm, self.algorithm.lower()) + "_"


@dataclass(frozen=True)
class Result:
    """A run as the board shows it."""

    target: Target
    folder: str
    spec_name: str
    scores: tuple[float, ...]
    fps: float
    problems: tuple[str, ...]

    @property
    def score(self) -> float:
        """The mean over sessions."""
        return float(np.mean(self.scores))

    @property
    def status(self) -> str:
        """✅ reached, ⚠️ at least 0.8 of the way from random play, ❌ neither."""
        if self.score >= self.target.goal:
            return "✅"
        floor = metrics.random_baseline(self.target.env)
        if floor is None:
            return "❌"
        return "⚠️" if (self.score - floor) / (self.target.goal - floor) >= CLOSE else "❌"


@cache
def targets() -> tuple[Target, ...]:
    """All rows, in the order of the seeds' tables."""
    rows = json.loads(resources.files("rewardlab.boards").joinpath("targets.json").read_text())["rows"]
    return tuple(
        Target(r["category"], r["env"], r["algorithm"], goal_of(r["target"]), r["published"], r["settings"])
        for r in rows
    )


def goal_of(text: Any) -> float:
    """The number in `> 400` or `~ 2000`."""
    try:
        return float(str(text).lstrip("><~≥ "))
    except ValueError:
        return float("nan")


def read_result(path: Path) -> Result | None:
    """The run of a folder, if it answers a row of the board."""
    folder = RunFolder.open(path)
    spec = folder.read_spec()
    env = spec["env"]["name"]
    fitting = [t for t in targets() if t.env == env and folder.spec_name.startswith(t.spec_prefix)]
    if not fitting:
        return None
    target = max(fitting, key=lambda t: len(t.spec_prefix))
    sessions = [read_columns(folder.session_df_path(s, "train")) for s in folder.sessions()]
    scores = tuple(metrics.session_metrics(c, 0.0)["scalar"]["total_reward_ma"] for c in sessions)
    problems = tuple(settings_problems(spec, target, [int(c["frame"][-1]) for c in sessions]))
    return Result(target, path.name, folder.spec_name, scores, speed(folder.read_timings()), problems)


def settings_problems(spec: Mapping[str, Any], target: Target, last_frames: list[int]) -> Iterable[str]:
    """Where a run departs from its row's settings."""
    given = {**spec["meta"], **spec["env"]}
    for name in SETTINGS:
        if float(given[name]) != float(target.settings[name]):
            yield f"{name} is {given[name]}, the settings say {target.settings[name]}"
    if len(last_frames) != given["max_session"]:
        yield f"{len(last_frames)} of {given['max_session']} sessions finished"
    for frame in last_frames:
        if frame < given["max_frame"] - given["log_frequency"]:
            yield f"a session ended at frame {frame}"


def collect(root: Path) -> list[Result]:
    """The newest run of each row below a folder that keeps its row's settings."""
    found: dict[Target, Result] = {}
    for path in sorted(p.parent for p in root.glob("*/*_t0_spec.yaml")):
        result = read_result(path)
        if result is None or result.problems:
            continue
        kept = found.get(result.target)
        if kept is None or result.folder > kept.folder:  # the newest, not the best: no choosing among seeds
            found[result.target] = result
    return [found[t] for t in targets() if t in found]


def settings_line(target: Target) -> str:
    """`max_frame 2e5 | num_envs 4 | …`, as the seeds write it."""
    frame = f"{float(target.settings['max_frame']):.0e}".replace("e+0", "e")
    others = " | ".join(f"{name} {target.settings[name]}" for name in SETTINGS[1:])
    return f"max_frame {frame} | {others}"


def render(results: list[Result], root: Path) -> str:
    """The board as Markdown."""
    lines = [
        "# Benchmarks",
        "",
        "Generated by `rewardlab bench table`; do not edit. Score: `total_reward_ma`, the mean over sessions of",
        "the mean of the last 100 log checkpoints of the training return; ± is the standard deviation over sessions.",
        "The newest `train` run of a row that keeps its settings counts, not the best one.",
        "",
        "✅ target reached · ⚠️ at least 80 % of the way from random play · ❌ below · – not run.",
        "SLM-Lab: what v5.3 publishes.",
    ]
    by_target = {result.target: result for result in results}
    shown = [t for t in targets() if any(r.target.category == t.category for r in results)]
    for category in dict.fromkeys(t.category for t in shown):
        lines += ["", f"## {category}"]
        for env in dict.fromkeys(t.env for t in shown if t.category == category):
            rows = [t for t in shown if t.category == category and t.env == env]
            lines += ["", f"### {env}", "", f"**Settings**: {settings_line(rows[0])}", ""]
            lines += [
                "| Algorithm | Status | Score | Target | SLM-Lab | frames/s | Spec | Run |",
                "|---|---|---|---|---|---|---|---|",
            ]
            lines += [row(t, by_target.get(t), root) for t in rows]
    return "\n".join(lines) + "\n"


def row(target: Target, result: Result | None, root: Path) -> str:
    """One line of a table."""
    published = "–" if target.published is None else f"{target.published:g}"
    if result is None:
        return f"| {target.algorithm} | – | – | {target.goal:g} | {published} | – | – | – |"
    spread = np.std(result.scores, ddof=1) if len(result.scores) > 1 else 0.0
    link = f"[{result.folder}](../{root.as_posix()}/{result.folder})"
    return (
        f"| {target.algorithm} | {result.status} | {result.score:.2f} ± {spread:.2f} | {target.goal:g} | {published} "
        f"| {result.fps:,.0f} | `{result.spec_name}` | {link} |"
    )


def keep(path: Path, root: Path) -> Path:
    """The small part of a finished run, copied: what the board reads and a person looks at, without the weights."""
    folder = RunFolder.open(path)
    if not folder.trial_metrics_path.exists():
        raise RecordError(f"{path} is not finished: resume it with rewardlab run {folder.spec_name} train@{path}")
    kept = RunFolder(root / path.name, folder.spec_name)
    sessions = folder.sessions()
    files = [folder.trial_spec_path, folder.timing_path, folder.graph_path("trial_graph_mean_returns_vs_frames.png")]
    files += [folder.session_df_path(s, "train") for s in sessions]
    for file in files:
        target = kept.path / file.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    scalars = {"scalar": read_json(folder.trial_metrics_path)["scalar"]}
    write_json(kept.trial_metrics_path, scalars)
    return kept.path
