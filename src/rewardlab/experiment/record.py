"""Run folders: the only place that knows where a run keeps its spec, tables, metrics, graphs, checkpoints and log."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from rewardlab.experiment.checkpoint import load_arrays, load_tree, read_meta, save_tree
from rewardlab.experiment.compare import Difference, first_difference
from rewardlab.experiment.provenance import provenance
from rewardlab.experiment.table import SessionTable, read_columns
from rewardlab.files import (
    RecordError,
    plain,
    read_json,
    read_text,
    record_error,
    sweep_temporaries,
    write_bytes_atomic,
    write_json,
    write_text_atomic,
)
from rewardlab.spec import SpecError
from rewardlab.spec.text import dump_yaml, parse

__all__ = [
    "Difference",
    "Mode",
    "RecordError",
    "RunFolder",
    "SessionTable",
    "first_difference",
    "holds_spec",
    "load_arrays",
    "load_tree",
    "provenance",
    "read_columns",
    "read_json",
    "read_meta",
    "save_tree",
    "write_bytes_atomic",
    "write_json",
    "write_text_atomic",
]

Mode = Literal["train", "eval"]

_FOLDERS = ("info", "graph", "model", "log")
_SPEC_FILE = re.compile(r"(?P<spec>.+?)(?:_t(?P<trial>\d+))?_spec\.(?:yaml|json)")  # SLM-Lab wrote JSON for long
_STAMP = r"(?P<stamp>\d{4}_\d{2}_\d{2}_\d{6})(?:_(?P<again>\d+))?"


@dataclass(frozen=True)
class RunFolder:
    """A run on disk, seen as one of its trials."""

    path: Path
    spec_name: str
    trial: int = 0

    @classmethod
    def create(cls, spec_name: str, root: Path = Path("data"), now: datetime | None = None) -> RunFolder:
        """A new folder named by the spec and the second; a second run in the same second gets _1, _2 …"""
        if not spec_name or spec_name.startswith(".") or "/" in spec_name:
            raise RecordError(
                f"A run folder cannot be named after the spec {spec_name!r}: use letters, digits, _ and -."
            )
        stem = f"{spec_name}_{now or datetime.now():%Y_%m_%d_%H%M%S}"
        if root.exists() and not root.is_dir():
            raise RecordError(f"{root} is not a folder: name another place for the runs.")
        path, again = root / stem, 0
        while path.exists():
            again += 1
            path = root / f"{stem}_{again}"
        try:
            path.mkdir(parents=True)
            for name in _FOLDERS:
                (path / name).mkdir()
        except FileExistsError:  # another process was faster
            return cls.create(spec_name, root, now)
        except OSError as error:
            raise record_error(path, error) from error
        return cls(path, spec_name)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """The run of a folder, or of a spec file inside one."""
        path = Path(path)
        trial: int | None = None
        if path.is_file() and (match := _SPEC_FILE.fullmatch(path.name)):
            trial = int(match["trial"]) if match["trial"] else None
            path = path.parent
        if not path.is_dir():
            raise RecordError(f"There is no run folder {path}.")
        try:
            matches = [match for file in path.iterdir() if (match := _SPEC_FILE.fullmatch(file.name))]
        except OSError as error:
            raise record_error(path, error, "read") from error
        if not matches:
            raise RecordError(f"{path} is not a run folder: it holds no spec file, *_spec.yaml.")
        return cls(path, min((match["spec"] for match in matches), key=len), trial or 0)

    @classmethod
    def latest(cls, spec_name: str, root: Path = Path("data"), search: bool = False) -> RunFolder:
        """The newest run of a spec, or its newest search."""
        name = re.compile(re.escape(spec_name) + "_" + _STAMP)
        folders = [(match, path) for path in root.glob("*") if (match := name.fullmatch(path.name))]
        for _, path in sorted(folders, key=lambda f: (f[0]["stamp"], int(f[0]["again"] or 0)), reverse=True):
            if holds_spec(path):  # a run that was killed before it wrote its spec is none
                found = cls.open(path)
                if found.is_search == search:
                    return found
        what, verb = ("search", "search") if search else ("run", "train")
        raise RecordError(f"There is no {what} of {spec_name} in {root}: {verb} it first.")

    def with_trial(self, trial: int) -> RunFolder:
        """The same folder, seen as another trial of a search."""
        return replace(self, trial=trial)

    @property
    def stem(self) -> str:
        """What the names of this trial's files begin with."""
        return f"{self.spec_name}_t{self.trial}"

    @property
    def spec_path(self) -> Path:
        """The spec as it was asked for."""
        return _spec_path(self.path, self.spec_name)

    @property
    def trial_spec_path(self) -> Path:
        """The spec of this trial with its provenance."""
        return _spec_path(self.path, self.stem)

    @property
    def trial_metrics_path(self) -> Path:
        """The trial's metrics."""
        return self.path / "info" / f"{self.stem}_trial_metrics.json"

    @property
    def checkpoint_path(self) -> Path:
        """Everything that a resume needs, of all sessions."""
        return self.path / "model" / f"{self.stem}_ckpt-last.safetensors"

    @property
    def search_path(self) -> Path:
        """What a search tried, and how each trial ended."""
        return self.path / "info" / f"{self.spec_name}_search.json"

    @property
    def is_search(self) -> bool:
        """Whether this is a search and no run."""
        return self.search_path.exists()

    @property
    def timing_path(self) -> Path:
        """Wall-clock times, apart from the tables because no two runs share them."""
        return self.path / "log" / "timing.jsonl"

    def session_df_path(self, session: int, mode: Mode) -> Path:
        """The table of a session."""
        return self.path / "info" / f"{self.stem}_s{session}_session_df_{mode}.csv"

    def session_metrics_path(self, session: int, mode: Mode) -> Path:
        """The metrics of a session."""
        return self.path / "info" / f"{self.stem}_s{session}_session_metrics_{mode}.json"

    def best_policy_path(self, session: int) -> Path:
        """The policy of a session at its best."""
        return self.path / "model" / f"{self.stem}_s{session}_ckpt-best_policy.safetensors"

    def graph_path(self, name: str) -> Path:
        """A graph of this trial; the name ends in .png or .html."""
        return self.path / "graph" / f"{self.stem}_{name}"

    def sessions(self, mode: Mode = "train") -> list[int]:
        """The sessions that have a table in this mode."""
        name = re.compile(re.escape(self.stem) + rf"_s(\d+)_session_df_{mode}\.csv")
        return sorted(int(m[1]) for p in (self.path / "info").glob("*.csv") if (m := name.fullmatch(p.name)))

    def write_specs(self, spec: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        """Save the spec by its name, and once more with `_run` beside it; the loader skips names that begin with _."""
        named = {self.spec_name: plain(spec)}
        write_text_atomic(self.trial_spec_path, dump_yaml({**named, "_run": plain(run)}))
        write_text_atomic(self.spec_path, dump_yaml(named))

    def read_spec(self) -> dict[str, Any]:
        """The trial's spec as it was saved."""
        return dict(self._read_trial_spec()[self.spec_name])

    def read_run(self) -> dict[str, Any]:
        """The trial's provenance."""
        return dict(self._read_trial_spec().get("_run") or {})

    def append_timing(self, row: Mapping[str, Any]) -> None:
        """Add a line to the timings."""
        try:
            with self.timing_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain(row)) + "\n")
        except OSError as error:
            raise record_error(self.timing_path, error) from error

    def read_timings(self) -> list[dict[str, Any]]:
        """All timings; a line that a kill cut short is left out."""
        lines = self.timing_path.read_text(encoding="utf-8").splitlines() if self.timing_path.exists() else []
        return [row for line in lines if (row := _parse(line)) is not None]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder as its one writer; the system lets go of it when the process ends, however it ends."""
        path = self.path / "log" / "lock"
        try:
            path.parent.mkdir(exist_ok=True)
            file = path.open("a")
        except OSError as error:
            raise record_error(path, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                sweep_temporaries(self.path)
            except BlockingIOError:
                raise RecordError(f"{self.path} is being written by another process: wait for it or stop it.") from None
            except OSError as error:
                raise record_error(path, error, "lock") from error
            yield

    def _read_trial_spec(self) -> dict[str, Any]:
        path = self.trial_spec_path
        try:
            content, _ = parse(read_text(path), path)
        except SpecError as error:
            raise RecordError(f"{path} is damaged: {error}") from error
        if {"agent", "env"} <= content.keys():  # SLM-Lab saves a spec without its name, with lists of one
            return {self.spec_name: {k: v[0] if isinstance(v, list) and v else v for k, v in content.items()}}
        if not isinstance(content.get(self.spec_name), dict):
            raise RecordError(f"{path} is damaged: it does not hold the spec {self.spec_name}.")
        return content


def holds_spec(folder: Path) -> bool:
    """Whether a folder is a run's, ours or SLM-Lab's."""
    return any(_SPEC_FILE.fullmatch(path.name) for path in folder.glob("*_spec.*"))


def _spec_path(folder: Path, stem: str) -> Path:
    """The YAML file of a spec, or the JSON file where SLM-Lab left one."""
    yaml, json_file = folder / f"{stem}_spec.yaml", folder / f"{stem}_spec.json"
    return json_file if json_file.exists() and not yaml.exists() else yaml


def _parse(line: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(line))
    except ValueError:
        return None
