"""A job: what is run elsewhere, and what a runner has to know about it."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Status = Literal["waiting", "running", "done", "failed", "stopped", "lost"]
Handle = dict[str, Any]  # what a runner needs to find a job again, as JSON
LOW = 50.0  # percent: a GPU that is used less waits for something else


class RemoteError(RuntimeError):
    """A runner that does not do as it is told, in one sentence."""


@dataclass(frozen=True)
class Job:
    """A command line of ours with the files that it needs."""

    name: str
    words: tuple[str, ...]  # after `rewardlab`
    program: str = "rewardlab"  # how RewardLab is called there
    files: Mapping[str, str] = field(default_factory=dict)  # small texts, written beside it before it starts
    env: Mapping[str, str] = field(default_factory=dict)
    gpu: bool = False

    def script(self) -> str:
        """The whole job as a shell script that needs nothing else."""
        lines = ["set -e"]
        for name, text in sorted(self.files.items()):
            data = base64.b64encode(text.encode()).decode()
            lines.append(f"printf %s {data} | base64 -d > {shlex.quote(name)}")
        return "\n".join([*lines, f"exec {self.program} {shlex.join(self.words)}"]) + "\n"


@dataclass(frozen=True)
class State:
    """How a job stands."""

    status: Status
    exit_code: int | None = None
    detail: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.status not in ("waiting", "running")

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" ({self.exit_code})"
        return f"{self.status}{code}{f': {self.detail}' if self.detail else ''}"


class Runner(Protocol):
    """Who runs jobs."""

    def expected(self, job: Job) -> Handle:
        """The handle that a job will have, before it is submitted: whoever is killed meanwhile can look for it."""

    def submit(self, job: Job) -> Handle:
        """Start a job; what is needed to find it again."""

    def state(self, handle: Handle) -> State:
        """How it stands."""

    def logs(self, handle: Handle) -> str:
        """All that it said so far."""

    def stop(self, handle: Handle) -> None:
        """End it, with time to save its checkpoint."""

    def metrics(self, handle: Handle) -> Mapping[str, float]:
        """How busy its machine is: cpu_percent, gpu_percent, where they are known."""


def warnings(job_gpu: bool, metrics: Mapping[str, float]) -> Sequence[str]:
    """What about a job's use of its machine deserves a word."""
    used = metrics.get("gpu_percent")
    if job_gpu and used is not None and used < LOW:
        return [f"the GPU is used {used:.0f} %: the environment or the CPU holds it up, not the training"]
    return []
