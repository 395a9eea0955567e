"""Weights & Biases and TensorBoard: consumers of a trial's rows, beside the recorder and never inside the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rewardlab.experiment.record import RunFolder
from rewardlab.experiment.table import SessionTable
from rewardlab.files import plain
from rewardlab.spec import Spec, SpecError, dump, near


class Logger(Protocol):
    """What is told of a trial."""

    def rows(self, session: int, columns: Mapping[str, Any]) -> None:
        """New rows of a session's training table."""

    def close(self, scalars: Mapping[str, float]) -> None:
        """The end, with the trial's metrics; none if it was interrupted."""


class TensorBoard:
    """A folder of events per session: `tensorboard --logdir data`."""

    def __init__(self, spec: Spec, folder: RunFolder) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise SpecError('the logger tensorboard needs: pip install "rewardlab[tensorboard]"') from error
        self.writers: dict[int, Any] = {}
        self.make: Callable[..., Any] = SummaryWriter
        self.path = folder.path / "log" / "tensorboard"

    def _writer(self, session: int) -> Any:
        if session not in self.writers:
            self.writers[session] = self.make(str(self.path / f"session_{session}"))
        return self.writers[session]

    def rows(self, session: int, columns: Mapping[str, Any]) -> None:
        """A point per column and row, at its frame."""
        for name, values in columns.items():
            if name != "frame":
                for frame, value in zip(columns["frame"], values, strict=True):
                    if not np.isnan(value):
                        self._writer(session).add_scalar(name, float(value), int(frame))

    def close(self, scalars: Mapping[str, float]) -> None:
        """The trial's metrics at the last frame."""
        for name, value in scalars.items():
            if value is not None and not np.isnan(value):
                self._writer(0).add_scalar(f"trial/{name}", float(value), int(scalars["frame"]))
        for writer in self.writers.values():
            writer.close()


class WeightsAndBiases:
    """One run per trial, its sessions side by side; WANDB_MODE=offline writes to the run folder alone."""

    def __init__(self, spec: Spec, folder: RunFolder) -> None:
        try:
            import wandb
        except ImportError as error:
            raise SpecError('the logger wandb needs: pip install "rewardlab[wandb]"') from error
        path: Path = folder.path / "log"
        self.run: Any = wandb.init(
            project="rewardlab",
            name=folder.path.name,
            id=folder.path.name,  # a run that is resumed goes on in the same chart
            resume="allow",
            group=spec.name,
            dir=str(path),
            config=plain(dump(spec)),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.run.define_metric("frame")
        self.run.define_metric("*", step_metric="frame")

    def rows(self, session: int, columns: Mapping[str, Any]) -> None:
        """A record per row."""
        for i, frame in enumerate(columns["frame"]):
            values = {f"session_{session}/{n}": float(v[i]) for n, v in columns.items() if n != "frame"}
            self.run.log({"frame": int(frame)} | {n: v for n, v in values.items() if not np.isnan(v)})

    def close(self, scalars: Mapping[str, float]) -> None:
        """The trial's metrics as its summary."""
        for name, value in scalars.items():
            self.run.summary[name] = plain(value)
        self.run.finish()


LOGGERS: dict[str, Callable[[Spec, RunFolder], Logger]] = {"wandb": WeightsAndBiases, "tensorboard": TensorBoard}


def check_loggers(names: Sequence[str]) -> None:
    """An error that names the nearest, where a logger is unknown."""
    for name in names:
        if name not in LOGGERS:
            nearest = near(name, LOGGERS)
            hint = f"did you mean {nearest}?" if nearest else f"there are {', '.join(LOGGERS)}"
            raise SpecError(f"the logger {name!r} is unknown; {hint}")


class Loggers:
    """All loggers of a run; each row is told once."""

    def __init__(self, names: Sequence[str], spec: Spec, folder: RunFolder, frame: int) -> None:
        check_loggers(names)
        self.loggers = [LOGGERS[name](spec, folder) for name in dict.fromkeys(names)]
        self.frame = frame  # up to which everything was told before

    def show(self, tables: Sequence[SessionTable]) -> None:
        """What is new in the tables."""
        last = self.frame
        for session, table in enumerate(tables if self.loggers else ()):
            columns = table.columns
            new = columns["frame"] > self.frame if len(table) else np.zeros(0, bool)
            if new.any():
                last = int(columns["frame"][-1])
                for logger in self.loggers:
                    logger.rows(session, {name: values[new] for name, values in columns.items()})
        self.frame = last

    def close(self, scalars: Mapping[str, float] | None = None) -> None:
        """The end."""
        for logger in self.loggers:
            logger.close(scalars or {})
