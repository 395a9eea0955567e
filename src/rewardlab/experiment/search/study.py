"""A search on disk: every trial's spec and tables, how each ended, the ranking, the best spec."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rewardlab.experiment import metrics
from rewardlab.experiment.record import RunFolder, SessionTable, provenance, read_json, write_json, write_text_atomic
from rewardlab.experiment.search.points import Point
from rewardlab.spec import Spec, SpecError, apply, to_yaml

SEED = 1000  # searches draw from other seeds than the runs that confirm them
VALIDATION_SESSIONS = 4

Status = Literal["waiting", "running", "stopped", "finished", "crashed"]
SCALARS = ("strength", "sample_efficiency", "training_efficiency", "stability", "consistency")


@dataclass
class Outcome:
    """How far a trial came."""

    status: Status = "waiting"
    frame: int = 0
    reason: str = ""


@dataclass
class Study:
    """The trials of a search, as they come in."""

    spec: Spec
    folder: RunFolder
    engine: str
    points: dict[int, Point] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    tables: dict[int, list[SessionTable]] = field(default_factory=dict)

    @classmethod
    def open(cls, spec: Spec, folder: RunFolder) -> Study:
        """A search as it was left."""
        state = read_json(folder.search_path)
        points = {int(trial): dict(point) for trial, point in state["points"].items()}
        outcomes = {int(trial): Outcome(**outcome) for trial, outcome in state["outcomes"].items()}
        study = cls(spec, folder, state["engine"], points, outcomes)
        for trial, outcome in outcomes.items():
            if outcome.frame:
                study.tables[trial] = study._read_tables(trial)
        return study

    def add(self, trial: int, point: Point) -> None:
        """A trial that is to be run."""
        self.points[trial] = point
        self.outcomes[trial] = Outcome()

    def trial_spec(self, trial: int) -> Spec:
        """What a trial runs: a spec that `train` would run the same way."""
        return apply(self.spec, {**self.points[trial], "meta.seed": self.spec.meta.seed + SEED})

    def note(self, trial: int, sessions: Sequence[Mapping[str, Any]]) -> None:
        """New rows of a trial: the columns of each session, without their moving averages."""
        tables = self.tables.setdefault(trial, [SessionTable() for _ in sessions])
        for table, columns in zip(tables, sessions, strict=True):
            history = np.concatenate([table.columns.get("total_reward", np.zeros(0)), columns["total_reward"]])
            averages = metrics.moving_average(history)[len(table) :].astype(np.float32)
            table.extend({**columns, "total_reward_ma": averages})
        outcome = self.outcomes[trial]
        outcome.frame = int(tables[0].columns["frame"][-1]) if len(tables[0]) else 0
        outcome.status = "running"

    def end(self, trial: int, status: Status, reason: str = "") -> None:
        """A trial that runs no further."""
        self.outcomes[trial].status, self.outcomes[trial].reason = status, reason

    def trim(self, trial: int, frame: int) -> None:
        """Forget what a trial did after a frame: a resume starts from its checkpoint, not from its last row."""
        for table in self.tables.get(trial, ()):
            table.keep(int(np.sum(table.columns["frame"] <= frame)) if len(table) else 0)
        self.outcomes[trial].frame = frame if self.tables.get(trial) else 0

    def score(self, trial: int) -> float:
        """total_reward_ma so far, the mean over sessions; NaN for a crashed trial and for one that has no rows."""
        tables = self.tables.get(trial, ())
        if self.outcomes[trial].status == "crashed" or not tables or not len(tables[0]):
            return float("nan")
        return float(np.mean([table.columns["total_reward_ma"][-1] for table in tables]))

    def ranking(self) -> list[int]:
        """The trials, best first: those that went further before those that were stopped, crashed ones last."""

        def worth(trial: int) -> tuple[bool, float, float, int]:
            outcome, score = self.outcomes[trial], self.score(trial)
            known = outcome.status != "crashed" and not np.isnan(score)
            return (not known, -float(outcome.frame) if known else 0.0, -score if known else 0.0, trial)

        return sorted(self.outcomes, key=worth)

    def save(self) -> None:
        """The tables first, then the state that counts them."""
        for trial, tables in self.tables.items():
            place = self.folder.with_trial(trial)
            for session, table in enumerate(tables):
                if len(table):
                    table.write(place.session_df_path(session, "train"))
        outcomes = {str(t): vars(o) for t, o in sorted(self.outcomes.items())}
        points = {str(t): p for t, p in sorted(self.points.items())}
        write_json(self.folder.search_path, {"engine": self.engine, "points": points, "outcomes": outcomes})

    def finish(self) -> None:
        """Every trial's spec and metrics, the ranking, and the best spec."""
        self.save()
        origin = provenance(self.spec.meta.seed + SEED)
        for trial in self.outcomes:
            place = self.folder.with_trial(trial)
            try:
                spec = self.trial_spec(trial)
            except SpecError:
                continue  # its outcome says why
            write_text_atomic(place.trial_spec_path, to_yaml(spec, {"_run": {**origin, "mode": "search"}}))
            if scalars := self._metrics(trial):
                write_json(place.trial_metrics_path, {"scalar": scalars})
        write_text_atomic(ranking_path(self.folder), self.ranking_csv())
        best = self.best()
        if best is not None:
            write_text_atomic(best_path(self.folder), to_yaml(best))

    def best(self) -> Spec | None:
        """The spec of the best trial, ready for `train`: with the seed of the spec that was searched, no ranges, and
        enough sessions to confirm it."""
        ranking = self.ranking()
        if not ranking or np.isnan(self.score(ranking[0])):
            return None
        sessions = max(self.spec.meta.max_session, VALIDATION_SESSIONS)
        meta = {"meta.max_session": sessions, "meta.max_trial": 1, "meta.search_scheduler": None}
        return apply(self.spec, {**self.points[ranking[0]], **meta, "meta.search_resources": None, "search": {}})

    def ranking_csv(self) -> str:
        """The ranking as a table: how each trial ended, what it reached, its values."""
        names = list(dict.fromkeys(path for point in self.points.values() for path in point))
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["trial", "status", "frame", "total_reward_ma", *SCALARS, *names, "reason"])
        for trial in self.ranking():
            outcome, scalars = self.outcomes[trial], self._metrics(trial)
            numbers = [self.score(trial), *(scalars.get(name, float("nan")) for name in SCALARS)]
            cells = ["" if np.isnan(value) else f"{value:.6g}" for value in numbers]
            values = [self.points[trial].get(name, "") for name in names]
            writer.writerow([trial, outcome.status, outcome.frame, *cells, *values, outcome.reason])
        return buffer.getvalue()

    def _metrics(self, trial: int) -> dict[str, float]:
        tables = [table for table in self.tables.get(trial, ()) if len(table)]
        baseline = metrics.random_baseline(self.spec.env.name)
        sessions = [metrics.session_metrics(table.columns, baseline) for table in tables]
        return dict(metrics.trial_metrics(sessions)["scalar"]) if sessions else {}

    def _read_tables(self, trial: int) -> list[SessionTable]:
        place = self.folder.with_trial(trial)
        return [SessionTable.read(place.session_df_path(s, "train")) for s in place.sessions()]


def ranking_path(folder: RunFolder) -> Any:
    """The sorted table, under SLM-Lab's name."""
    return folder.path / "info" / f"{folder.spec_name}_experiment_df.csv"


def best_path(folder: RunFolder) -> Any:
    """The best spec."""
    return folder.path / f"{folder.spec_name}_best_spec.yaml"
