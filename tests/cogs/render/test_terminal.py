"""The terminal view, played in a pseudo-terminal as a person would."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewardlab.cogs.render.picture import PANEL, Look, picture
from rewardlab.cogs.render.scene import play
from rewardlab.cogs.render.terminal import TerminalViewer

SCRIPT = """
import fcntl, importlib.util, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches us
signal.signal(signal.SIGINT, signal.default_int_handler)  # and counts, also where the tests run in the background
spec = importlib.util.spec_from_file_location("toys", sys.argv[1])
toys = importlib.util.module_from_spec(spec)
sys.modules["toys"] = toys
spec.loader.exec_module(toys)
from rewardlab.cogs.render.scene import play
from rewardlab.cogs.render.terminal import TerminalViewer
session = toys.ToySession(steps=200)
if sys.argv[2] == "raise":
    def advance(steer): raise RuntimeError("broken engine")
    session.advance = advance
summary = play(session, TerminalViewer(speed=float(sys.argv[3]), paused=sys.argv[2] == "paused"))
print("left at", summary.steps, "orders", [order for order in session.orders if order])
"""


class Terminal:
    """A process in a pseudo-terminal, and what its screen shows."""

    def __init__(self, mode: str, columns: int = 80, rows: int = 24, speed: float = 1000) -> None:
        self.rows = rows
        self.descriptor, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        command = [sys.executable, "-c", SCRIPT, str(Path(__file__).with_name("conftest.py")), mode, str(speed)]
        self.process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, start_new_session=True)
        os.close(side)
        self.raw, self.lines = "", [""] * rows

    def read(self, seconds: float = 0.1) -> bool:
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:  # the process has ended
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def screen(self) -> list[str]:
        """The lines as last drawn, without colours."""
        start = self.raw.rfind("\x1b[2J")
        for row, text in re.findall(r"\x1b\[(\d+);1H(.*?)\x1b\[K", self.raw[max(start, 0) :]):
            self.lines[int(row) - 1] = re.sub(r"\x1b\[[0-9;]*m", "", text)
        return self.lines

    def until(self, words: str, seconds: float = 90) -> list[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read()
            if any(words in line for line in self.screen()) or words in self.raw.rpartition("\x1b[?1049l")[2]:
                return self.lines
        raise TimeoutError(f"{words!r} never came; the screen: {self.lines}; the end: {self.raw[-500:]!r}")

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def ended(self) -> int:
        while self.read(20):
            pass
        return self.process.wait(30)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*args: Any, **kwargs: Any) -> Terminal:
        started.append(Terminal(*args, **kwargs))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        os.close(each.descriptor)


def assert_given_back(raw: str) -> None:
    assert raw.count("\x1b[?1049h") == raw.count("\x1b[?1049l") == 1
    assert "\x1b[?25h" in raw.rpartition("\x1b[?25l")[2]


def test_step_back_follow_steer_and_quit(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("paused")
    assert "paused" in shown.until("step 0/200")[0]
    for words in ("HQ", "cog 0 · no gear", "♥5", "space pause"):
        shown.until(words)
    shown.type("...")
    shown.until("step 3/200")
    shown.type("b")
    shown.until("step 2/200 · (-1)")
    shown.type("2")
    shown.until("cog 2 · no gear")
    shown.type("s")
    shown.until("STEERING cog 2")
    shown.type("\x1b[C")  # right
    shown.until("step 4/200")
    shown.type("k")
    shown.until("step 5/200")
    shown.type(" ")
    shown.until("step 200/200")
    shown.type("q")
    shown.until("left at 200")
    assert "orders [{2: 4}, {2: 1}, {2: 0}" in shown.raw  # east, north, then it waits for keys
    assert shown.ended() == 0
    assert_given_back(shown.raw)


def test_it_plays_to_the_end_and_waits_for_a_last_key(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("run", columns=140, rows=40)
    shown.until("complete after 200 steps")
    shown.type("bb")
    shown.until("step 198/200")
    shown.type("q")
    assert shown.ended() == 0


def test_ctrl_c_ends_in_good_order(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("paused")
    shown.until("step 0/200")
    shown.type("\x03")
    shown.until("left at 0")
    assert shown.ended() == 0
    assert_given_back(shown.raw)


@pytest.mark.parametrize("end", ["raise", "kill"])
def test_the_terminal_is_given_back_whatever_happens(terminal: Callable[..., Terminal], end: str) -> None:
    shown = terminal("raise" if end == "raise" else "paused", speed=1)
    shown.until("step 0/200")
    if end == "kill":
        shown.process.terminate()
    status = shown.ended()
    assert_given_back(shown.raw)
    assert (status, "broken engine" in shown.raw) == ((1, True) if end == "raise" else (143, False))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60), (40, 10), (10, 3), (1, 1)])
def test_pictures_fit_any_size(toy: Callable[..., Any], columns: int, rows: int) -> None:
    session = toy()
    for colour in (True, False):
        look = Look(centre=(6, 9), colour=colour, keys="q quit")
        lines = picture(session.setting, session.advance({}), look, columns, rows)
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert colour or plain == lines
        assert max(map(len, plain)) <= max(columns, 2)
        assert len(lines) <= max(rows, 4)


def test_letters_from_a_policy_stay_in_their_line(toy: Callable[..., Any]) -> None:
    session = toy(mission="two\nlines\x1b[2J")
    scene = session.scene
    odd = type(scene)(scene.shape, 0, scene.numbers, (), ({"about": "\x1b]0;title\x07" + "x" * 99},) * 3)
    text = "\n".join(picture(session.setting, odd, Look(centre=(6, 9)), 80, 24))
    assert "\x1b[2J" not in text
    assert "\x1b]" not in text
    assert len(text.splitlines()) == 24
    assert PANEL < 80


def test_without_a_terminal_plain_pictures_come_at_intervals(toy: Callable[..., Any]) -> None:
    stream = io.StringIO()
    play(toy(25), TerminalViewer(source=io.StringIO(), target=stream, every=10))
    text = stream.getvalue()
    assert "\x1b" not in text
    assert [line.split(" ·")[0] for line in text.splitlines() if line.startswith("step")] == [
        f"step {step}/25" for step in (0, 10, 20, 25)
    ]
    assert "HQ" in text
