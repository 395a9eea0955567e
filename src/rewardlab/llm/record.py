"""What a run of the trainer leaves on disk: its steps, its speedrun file, its checkpoint, its weights."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewardlab.experiment.record import RunFolder
from rewardlab.files import plain, record_error, write_text_atomic
from rewardlab.llm.policy import Policy, save_policy
from rewardlab.llm.speedrun import Speedrun
from rewardlab.llm.trainer import Step, Trainer


def steps_path(folder: RunFolder) -> Path:
    """One line of JSON per step."""
    return folder.path / "info" / f"{folder.stem}_steps.jsonl"


def read_steps(folder: RunFolder) -> list[dict[str, Any]]:
    """All steps; a line that a kill cut short is left out."""
    path = steps_path(folder)
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


@dataclass
class Recorder:
    """Takes steps and keeps them. Before a checkpoint everything is on disk; after a kill, what is ahead of it goes."""

    trainer: Trainer
    folder: RunFolder
    speedrun: Speedrun | None = None
    speedrun_path: Path | None = None
    history: list[float] = field(default_factory=list)
    saved: float = field(default_factory=time.monotonic)
    cpu: float = 0.0  # of the processes before this one

    def __post_init__(self) -> None:
        kept = [row for row in read_steps(self.folder) if row["step"] <= self.trainer.step]
        self.history = [row["reward"] for row in kept]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        write_text_atomic(steps_path(self.folder), text)
        self.cpu = self.speedrun.cpu_seconds if self.speedrun else 0.0

    def take(self, step: Step) -> None:
        """One step."""
        self.history.append(step.metrics["reward"])
        path = steps_path(self.folder)
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain({"step": step.number, **step.metrics, "sample": step.sample})) + "\n")
        except OSError as error:
            raise record_error(path, error) from error
        if self.speedrun is not None and self.speedrun_path is not None:
            self.speedrun.take(step, self.cpu + time.process_time())
            self.speedrun.write(self.speedrun_path)
        if time.monotonic() - self.saved > self.trainer.config.checkpoint_seconds:
            self.save()

    @property
    def mean(self) -> float:
        """Of the last 100 rewards, or of all while there are fewer."""
        last = self.history[-100:]
        return sum(last) / max(len(last), 1)

    @property
    def reached(self) -> bool:
        """Whether the goal is reached and the run ends there."""
        goal = self.speedrun is not None and self.speedrun.goal_reached_at_step is not None
        return goal and self.trainer.config.stop_at_goal

    def save(self) -> None:
        """A checkpoint."""
        self.trainer.save(self.folder.checkpoint_path)
        self.saved = time.monotonic()

    def finish(self) -> Path:
        """The end: a last checkpoint, and the weights as `transformers` reads them."""
        self.save()
        weights = self.folder.path / "model" / "policy"
        save_policy(weights, Policy(self.trainer.learner.policy, self.trainer.tokenizer), self.trainer.dtype)
        if self.speedrun is not None and self.speedrun_path is not None:
            self.speedrun.finished = True
            self.speedrun.write(self.speedrun_path)
        return weights
