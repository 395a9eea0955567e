"""The metrics file of a speedrun: written at every step, with all that makes the run one that can be checked.

The clock starts before the first completion, after the model is loaded and its compiled programs are not yet; it stands
still between a crash and the resume. A step's time is taken when its reward is known, before learning from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.boards.speedrun import WINDOW, goal_step, rolling
from rewardlab.experiment.provenance import provenance
from rewardlab.files import RecordError, plain, read_json, write_text_atomic
from rewardlab.llm.config import Config, dump
from rewardlab.llm.policy import TINY
from rewardlab.llm.trainer import Step, Trainer

DEFAULT = Path("logs/speedrun/speedrun_metrics.json")
PACKAGE = Path(__file__).resolve().parents[1]


def code_hash() -> str:
    """SHA-256 of the source of everything that trains."""
    digest = hashlib.sha256()
    for room in ("llm", "maths", "spec"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def track_of(model: str, device: Mapping[str, Any]) -> str:
    """Who is compared with whom: the same model on the same kind of device."""
    if model == TINY and device["platform"] == "cpu":
        return "tiny-cpu"
    kind = "cpu" if device["platform"] == "cpu" else str(device["kind"]).lower().replace(" ", "-")
    many = f"-x{device['count']}" if device["count"] > 1 and device["platform"] != "cpu" else ""
    return f"{Path(model).name.removeprefix('builtin:').lower()}-{kind}{many}"


@dataclass
class Speedrun:
    """What the file holds; the seed project's keys first."""

    algorithm: str
    seed: int
    target_reward: float | None
    model_name: str
    dataset: str
    beta: float
    config: dict[str, Any]
    config_hash: str
    code_hash: str
    data_hash: str
    start_weights_hash: str
    provenance: dict[str, Any]
    track: str
    run_id: str
    started: str
    final_reward: float | None = None
    reward_history: list[float] = field(default_factory=list)
    reward_100step_history: list[float | None] = field(default_factory=list)
    walltime_at_step: list[int] = field(default_factory=list)
    seconds_at_step: list[float] = field(default_factory=list)
    walltime_sec: float = 0.0
    goal_reached_at_step: int | None = None  # from 1
    goal_walltime_sec: float | None = None
    cpu_seconds: float = 0.0
    processes: int = 1
    finished: bool = False
    wandb_run_id: str | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None

    @classmethod
    def create(cls, trainer: Trainer, target: float | None) -> Speedrun:
        """Before the first step."""
        c: Config = trainer.config
        made = provenance(c.seed)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        identity = f"{started} {c.hash()} {trainer.start_hash} {made['machine']} {made['device']}"
        return cls(
            algorithm=c.loss,
            seed=c.seed,
            target_reward=target,
            model_name=c.model_name,
            dataset=c.tasks,
            beta=c.beta,
            config=dump(c),
            config_hash=c.hash(),
            code_hash=code_hash(),
            data_hash=trainer.data.hash(),
            start_weights_hash=trainer.start_hash,
            provenance=made,
            track=track_of(c.model_name, made["device"]),
            run_id=hashlib.sha256(identity.encode()).hexdigest()[:8],
            started=started,
        )

    @classmethod
    def resume(cls, path: Path, trainer: Trainer) -> Speedrun:
        """Up to the step of the trainer's checkpoint."""
        made = cls(**read_json(path))
        if made.config_hash != trainer.config.hash():
            raise RecordError(f"{path} is of another config: name another --speedrun-metrics-file")
        for name in ("reward_history", "reward_100step_history", "walltime_at_step", "seconds_at_step"):
            del getattr(made, name)[trainer.step :]
        if made.goal_reached_at_step is not None and made.goal_reached_at_step > trainer.step:
            made.goal_reached_at_step = made.goal_walltime_sec = None
        made.processes += 1
        made.finished = False
        return made

    def take(self, step: Step, cpu_seconds: float) -> None:
        """One step more."""
        at = step.metrics["seconds_to_reward"]
        self.reward_history.append(step.metrics["reward"])
        self.reward_100step_history.append(rolling(self.reward_history))
        self.seconds_at_step.append(round(at, 3))
        self.walltime_at_step.append(int(at))
        self.final_reward, self.cpu_seconds = self.reward_history[-1], round(cpu_seconds, 1)
        self.walltime_sec = round(step.metrics.get("seconds", at), 3)
        if self.goal_reached_at_step is None and goal_step(self.reward_history, self.target_reward) == step.number:
            self.goal_reached_at_step, self.goal_walltime_sec = step.number, round(at, 3)

    @property
    def mean(self) -> float | None:
        """Of the last 100 steps."""
        return self.reward_100step_history[-1] if self.reward_100step_history else None

    def write(self, path: Path) -> None:
        """The whole file, whole or not at all; histories on one line each."""
        content = {k: v for k, v in asdict(self).items() if not (k.startswith("wandb_") and v is None)}
        lines = [f"  {json.dumps(k)}: {json.dumps(plain(v), allow_nan=False)}" for k, v in content.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(path, "{\n" + ",\n".join(lines) + "\n}\n")


__all__ = ["DEFAULT", "WINDOW", "Speedrun", "code_hash", "track_of"]
