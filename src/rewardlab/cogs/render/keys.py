"""A terminal as a place for pictures and single keys, given back as it was whatever happens."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

# Not on every system: where they are missing a terminal view falls back to plain pictures.
try:
    import termios
    import tty
except ImportError:  # pragma: no cover
    termios = tty = None  # type: ignore[assignment]

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # another screen, no cursor, no wrapping
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l\x1b[0m"
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
ESCAPES = {
    **{f"\x1b{lead}{code}": name for lead in "[O" for code, name in ARROWS.items()},
    "\x1b[Z": "backtab",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
}
NAMED = {"\t": "tab", " ": "space", "\x1b": "escape", "\x03": "interrupt", "\r": "enter", "\n": "enter"}
ESCAPE_WAIT = 0.03  # seconds after which an escape is a key of its own


def is_terminal(source: TextIO, target: TextIO) -> bool:
    """Whether keys can be read and pictures drawn."""
    return termios is not None and source.isatty() and target.isatty()


class Keyboard:
    """Reads keys from a terminal that gives every byte at once."""

    def __init__(self, source: TextIO) -> None:
        self.descriptor = source.fileno()
        self._bytes = b""

    def key(self, seconds: float) -> str | None:
        """The next key, by name or character; None if none comes in time."""
        if not self._bytes and not self._more(seconds):
            return None
        text = self._bytes.decode("utf-8", "replace")
        if text.startswith("\x1b") and len(text) < 3:
            self._more(ESCAPE_WAIT)
            text = self._bytes.decode("utf-8", "replace")
        for sequence, name in ESCAPES.items():
            if text.startswith(sequence):
                self._bytes = self._bytes[len(sequence) :]
                return name
        if text.startswith(("\x1b[", "\x1bO")):  # an unknown one: all of it goes
            self._bytes = b""
            return "unknown"
        self._bytes = text[1:].encode()
        return NAMED.get(text[0], text[0])

    def _more(self, seconds: float) -> bool:
        if not select.select([self.descriptor], [], [], max(seconds, 0))[0]:
            return False
        chunk = os.read(self.descriptor, 1024)
        if not chunk:
            raise KeyboardInterrupt  # the terminal is gone
        self._bytes += chunk
        return True


class Screen:
    """Draws lines; only those that changed are sent."""

    def __init__(self, target: TextIO) -> None:
        self.target = target
        self._lines: list[str] = []
        self._size = (0, 0)

    def size(self) -> tuple[int, int]:
        """Columns and rows now."""
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self.target.fileno())
            if found.columns and found.lines:
                return found.columns, found.lines
        return 80, 24

    def draw(self, lines: list[str]) -> None:
        """Show these lines, and nothing else."""
        size = self.size()
        parts = []
        if size != self._size:
            parts, self._lines, self._size = ["\x1b[2J"], [], size
        for i, line in enumerate(lines[: size[1]]):
            if i >= len(self._lines) or self._lines[i] != line:
                parts.append(f"\x1b[{i + 1};1H{line}\x1b[K")
        if len(lines) < len(self._lines):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._lines = list(lines)
        if parts:
            self.target.write("".join(parts))
            self.target.flush()


@contextlib.contextmanager
def taken(source: TextIO, target: TextIO) -> Iterator[None]:
    """Take the terminal; it is given back on return, on errors, on Ctrl-C and when the process is told to end."""
    descriptor = source.fileno()
    before = termios.tcgetattr(descriptor)
    old = _on_end()
    try:
        tty.setcbreak(descriptor)
        target.write(ENTER)
        target.flush()
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            target.write(LEAVE)
            target.flush()
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in old.items():
            signal.signal(number, handler)


def _on_end() -> dict[signal.Signals, signal._HANDLER]:
    """Let hang-ups and requests to end unwind as errors do, so that the terminal is given back."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    try:
        return {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not the main thread: signals are another's affair
        return {}


def clock() -> float:
    """Seconds that only grow."""
    return time.monotonic()
