"""The benchmark board: its rows, the runs that answer them, what is kept of a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
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
SOLVED, NEAR, FAILED = "✅", "⚠️", "❌"


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
    max_frame: int
    link: str | None = None

    @property
    def stamp(self) -> str:
        """When it was begun, as the name of its folder tells."""
        return self.folder.removeprefix(self.spec_name)

    @property
    def score(self) -> float:
        """The mean over sessions."""
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """The standard deviation over sessions."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else 0.0

    @property
    def status(self) -> str:
        """✅ reached, ⚠️ (score − random) / (target − random) ≥ 0.8, ❌ neither."""
        if self.score >= self.target.goal:
            return SOLVED
        floor = metrics.random_baseline(self.target.env)
        if floor is None:
            return FAILED
        return NEAR if (self.score - floor) / (self.target.goal - floor) >= CLOSE else FAILED


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


def target_of(env: str, spec_name: str) -> Target | None:
    """The row that a spec answers in an environment."""
    fitting = [t for t in targets() if t.env == env and spec_name.startswith(t.spec_prefix)]
    return max(fitting, key=lambda t: len(t.spec_prefix), default=None)


def read_result(path: Path) -> Result | None:
    """The run of a folder, if it answers a row of the board."""
    folder = RunFolder.open(path)
    env = folder.read_spec()["env"]
    target = target_of(env["name"], folder.spec_name)
    if target is None:
        return None
    sessions = [read_columns(folder.session_df_path(s, "train")) for s in folder.sessions()]
    scores = tuple(metrics.session_metrics(c, 0.0)["scalar"]["total_reward_ma"] for c in sessions)
    fps = speed(folder.read_timings())
    return Result(target, path.name, folder.spec_name, scores, fps, int(env["max_frame"]), link_of(folder))


def collect(root: Path) -> list[Result]:
    """The newest run of each row below a folder of runs that were added."""
    found: dict[Target, Result] = {}
    for path in sorted(p.parent for p in root.glob("*/*_t0_spec.yaml")):
        result = read_result(path)
        kept = None if result is None else found.get(result.target)
        if result is not None and (kept is None or result.stamp > kept.stamp):
            found[result.target] = result  # the newest, not the best: no choosing among seeds
    return [found[t] for t in targets() if t in found]


def keep(path: Path, root: Path, link: str | None = None) -> Path:
    """The small part of a finished run, copied: what the board reads and a person looks at, without the weights."""
    folder = RunFolder.open(path)
    if not folder.trial_metrics_path.exists():
        raise RecordError(f"{path} is not finished: resume it with rewardlab run {folder.spec_name} train@{path}")
    kept = RunFolder(root / path.name, folder.spec_name)
    files = [folder.trial_spec_path, folder.timing_path, folder.graph_path("trial_graph_mean_returns_vs_frames.png")]
    files += [folder.session_df_path(s, "train") for s in folder.sessions()]
    for file in files:
        if file.exists() and kept.path.resolve() != path.resolve():
            target = kept.path / file.relative_to(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    scalars = {"scalar": read_json(folder.trial_metrics_path)["scalar"]}
    write_json(kept.trial_metrics_path, scalars)
    if link is not None:
        write_json(_link_path(kept), {"link": link})
    return kept.path


def link_of(folder: RunFolder) -> str | None:
    """Where the whole run lies, weights included, if that was told when it was added."""
    path = _link_path(folder)
    return str(read_json(path)["link"]) if path.exists() else None


def _link_path(folder: RunFolder) -> Path:
    return folder.path / "info" / f"{folder.stem}_link.json"
