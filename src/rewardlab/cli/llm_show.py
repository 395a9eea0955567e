"""The live table of a trainer on a terminal; plain lines where there is none. Always on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rewardlab.cli.progress import clock, compact
from rewardlab.llm.record import Recorder
from rewardlab.llm.trainer import Step, Trainer

PLAIN_SECONDS = 10.0
ROWS = 12
COLUMNS = ("step", "reward", "100 steps", "accuracy", "format", "KL", "entropy", "length", "tokens/s", "time")


class Show:
    """Shows steps as they come."""

    def __init__(self, trainer: Trainer, recorder: Recorder) -> None:
        from rich.console import Console
        from rich.live import Live

        self.trainer, self.recorder = trainer, recorder
        self.console = Console(stderr=True, highlight=False)
        self.rows: list[list[str]] = []
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self.shown = 0.0

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        else:
            print(" | ".join(COLUMNS), file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def step(self, step: Step) -> None:
        """One step."""
        now = time.monotonic()
        row = self.row(step)
        self.rows = [*self.rows[1 - ROWS :], row]
        last = self.trainer.done
        if self.live and (now - self.shown > 0.2 or last):
            self.shown = now
            self.live.update(self.table(step), refresh=True)
        elif not self.live and (now - self.shown > PLAIN_SECONDS or step.number == 1 or last):
            self.shown = now
            print(" | ".join(row), file=sys.stderr, flush=True)

    def row(self, step: Step) -> list[str]:
        """The figures of a step."""
        m = step.metrics
        of = f"{step.number}/{self.trainer.config.total_steps}"
        figures = [m["reward"], self.recorder.mean, m["accuracy"], m["format"], m["kl"], m["entropy"]]
        ends = [f"{m['length']:.1f}", compact(m["tokens_per_second"]), clock(m["seconds"])]
        return [of, *(f"{x:.3f}" for x in figures), *ends]

    def table(self, step: Step) -> Any:
        """The last steps, and a completion."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        made = Table(show_edge=False, pad_edge=False, header_style="bold")
        for name in COLUMNS:
            made.add_column(name, justify="right")
        for row in self.rows:
            made.add_row(*row)
        s = step.sample
        text = f"{s['question']}\n{s['completion']}\nwanted {s['answer']}, earned {s['reward']:.3f}"
        return Group(made, Panel(Text(text), title="a sample", title_align="left"))
