"""Which jobs were submitted from here, and the runner that a name stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.files import read_json, write_json
from rewardlab.remote.job import Job, RemoteError, Runner
from rewardlab.spec import near

NOTHING: Mapping[str, Any] = {}
RUNNERS = ("local", "ssh", "ray", "dstack")


def make_runner(name: str, options: Mapping[str, Any]) -> Runner:
    """A runner by its name: ours, or one that an installed package offers as `rewardlab.runners`."""
    if name == "local":
        from rewardlab.remote.shell import ShellRunner

        return ShellRunner(str(options["folder"]))
    if name == "ssh":
        from rewardlab.remote.shell import ShellRunner

        if not options.get("host"):
            raise RemoteError("the runner ssh needs a machine: --host USER@HOST")
        given = (options.get("port"), options.get("identity"), tuple(options.get("ssh_options") or ()))
        return ShellRunner(str(options.get("folder") or "rewardlab-jobs"), str(options["host"]), *given)
    if name == "ray":
        from rewardlab.remote.ray_jobs import RayRunner

        return RayRunner(str(options.get("address") or "http://127.0.0.1:8265"))
    if name == "dstack":
        from rewardlab.remote.dstack import DstackRunner

        return DstackRunner(options)
    return _offered(name, options)


def _offered(name: str, options: Mapping[str, Any]) -> Runner:
    from importlib.metadata import entry_points

    offered = {point.name: point for point in entry_points(group="rewardlab.runners")}
    if name in offered:
        runner: Runner = offered[name].load()(options)
        return runner
    known = [*RUNNERS, *offered]
    nearest = near(name, known)
    hint = f"did you mean {nearest}?" if nearest else f"there are {', '.join(known)}"
    raise RemoteError(f"the runner {name!r} is unknown; {hint}")


@dataclass(frozen=True)
class Ledger:
    """A file per job."""

    root: Path

    def add(self, job: Job, runner: str, options: Mapping[str, Any], handle: Mapping[str, Any]) -> None:
        """Note a job that was submitted."""
        self.root.mkdir(parents=True, exist_ok=True)
        told = {"name": job.name, "words": list(job.words), "program": job.program, "files": dict(job.files)}
        about = {"runner": runner, "options": dict(options), "handle": dict(handle), "gpu": job.gpu}
        write_json(self._path(job.name), told | about | {"since": datetime.now(UTC).isoformat(timespec="seconds")})

    def get(self, name: str) -> dict[str, Any]:
        """A job by its name."""
        if not self._path(name).exists():
            nearest = near(name, self.names())
            hint = f"did you mean {nearest}?" if nearest else "rewardlab remote ps shows those there are"
            raise RemoteError(f"no job {name} was submitted from here; {hint}")
        return dict(read_json(self._path(name)))

    def names(self) -> list[str]:
        """All of them, the newest last."""
        found = [read_json(path) for path in self.root.glob("*.json")] if self.root.is_dir() else []
        return [row["name"] for row in sorted(found, key=lambda row: str(row["since"]))]

    def runner(self, name: str, secrets: Mapping[str, Any] = NOTHING) -> tuple[Runner, dict[str, Any]]:
        """Who runs a job, and its handle; secrets are never written down."""
        row = self.get(name)
        return make_runner(row["runner"], row["options"] | secrets), row["handle"]

    def _path(self, name: str) -> Path:
        return self.root / f"{name}.json"
