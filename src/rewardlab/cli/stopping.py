"""How a worker ends when it is told to: at once while it starts, after the job at hand later, at once if told again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """From here on a signal ends the process: an exception could be swallowed by whatever is being imported."""
    _on_signal(lambda number: _end(number, "interrupted"))


def end_in_time(stop: Callable[[], None], let_go: Callable[[], None]) -> None:
    """From here on the first signal asks to stop; a second one does not wait."""
    told: list[int] = []

    def act(number: int) -> None:
        if told:
            let_go()
            _end(number, "the job at hand is left to others")
        told.append(number)
        stop()
        if number == signal.SIGINT:
            _say("ending after the job at hand; Ctrl-C again ends at once")

    _on_signal(act)


def _on_signal(act: Callable[[int], Any]) -> None:
    for number in SIGNALS:  # also where Ctrl-C was ignored, as in jobs that a shell starts in the background
        signal.signal(number, lambda got, _frame: act(got))


def _end(number: int, why: str) -> None:
    _say(why)
    os._exit(128 + number)


def _say(what: str) -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"rewardlab: {what}\n".encode())
