"""The live line of a trial: frames, speed, return, time left; plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

import numpy as np

from rewardlab.experiment.trial import Chunk, Recorder, Trial

PLAIN_SECONDS = 10.0


def compact(number: float) -> str:
    """1234567 → 1.23M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def clock(seconds: float) -> str:
    """75 → 1:15."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Shows a trial while it runs; always on stderr, so that stdout holds results alone."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.live = sys.stderr.isatty()
        self.begun = self.shown = time.perf_counter()
        self.seconds = 0.0  # without the first chunk, which compiles
        self.frames = 0

    def __enter__(self) -> Self:
        if self.live:
            print("compiling …", end="", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            print(file=sys.stderr, flush=True)

    def show(self, recorder: Recorder, chunk: Chunk) -> None:
        """One look at where the trial stands."""
        if self.frames or self.seconds:
            self.seconds += chunk.seconds
            self.frames += recorder.frames_of(chunk)
        else:
            self.seconds = 1e-9
        now = time.perf_counter()
        if not self.live and now - self.shown < PLAIN_SECONDS and not self.trial.done:
            return
        self.shown = now
        line = self.line(recorder)
        print(f"\r\x1b[2K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)

    def line(self, recorder: Recorder) -> str:
        """frame · share · speed · return · time left."""
        spec = self.trial.spec
        share = self.trial.frame / spec.env.max_frame
        scores = [table.columns["total_reward_ma"][-1] for table in recorder.train if len(table)]
        known = [score for score in scores if not np.isnan(score)]
        reward = f"{np.mean(known):.2f}" if known else "–"
        speed = self.frames / self.seconds if self.frames else 0.0
        left = (spec.env.max_frame - self.trial.frame) * spec.meta.max_session / speed if speed else float("nan")
        pace = f"{compact(speed)} frames/s | {clock(left)} left" if speed else "compiled"
        frame = f"frame {compact(self.trial.frame)} × {spec.meta.max_session}"
        return f"{spec.name} | {share:4.0%} | {frame} | {pace} | total_reward_ma {reward}"
