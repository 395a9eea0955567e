"""`-r unicode`: the episode in a terminal, live; plain pictures at intervals where there is no terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TextIO

from rewardlab.cogs.render.history import History
from rewardlab.cogs.render.keys import Keyboard, Screen, clock, is_terminal, taken
from rewardlab.cogs.render.picture import Look, picture
from rewardlab.cogs.render.scene import Control, Scene, Setting, Summary, describe
from rewardlab.cogs.rules import ACTIONS, VIBES

SPEEDS = (0.5, 1, 2, 4, 8, 15, 30, 60, 120, 1000)
MOST_PICTURES = 30  # per second
PANS = {"left": (0, -4), "right": (0, 4), "up": (-2, 0), "down": (2, 0)}
LETTERS = {"h": "left", "j": "down", "k": "up", "l": "right"}
STEERS = {"left": "move_west", "right": "move_east", "up": "move_north", "down": "move_south"}
KEYS = "space pause  . step  b back  ←↑↓→ pan  tab/0-9 follow  s steer  +- speed  q quit"
REPLAY_KEYS = "space pause  . step  b back  ←↑↓→ pan  tab/0-9 follow  +- speed  home end  q quit"
STEER_KEYS = "←↑↓→/hjkl move  v vibe  . wait  space pause: a step per key  s let go  q quit"
EVENTS, EVENTS_BACK = 20, 200  # shown, and steps looked back for them


class TerminalViewer:
    """A live picture with keys. Every scene is kept, so that one can look back at any time."""

    def __init__(
        self,
        *,
        source: TextIO | None = None,
        target: TextIO | None = None,
        speed: float = 8,
        paused: bool = False,
        colour: bool = True,
        every: int = 100,
        steerable: bool = True,
    ) -> None:
        self.source = source if source is not None else sys.stdin
        self.target = target if target is not None else sys.stdout
        self.every, self.steerable = every, steerable
        self.keys = KEYS if steerable else REPLAY_KEYS
        self.look = Look(centre=(0, 0), speed=speed, paused=paused, colour=colour, keys=self.keys)
        self.live = is_terminal(self.source, self.target)
        self._stack = contextlib.ExitStack()
        self._order: int | None = None  # what the steered cog does next
        self._quit = False
        self._due = 0.0
        self._drawn = 0.0

    def begin(self, setting: Setting) -> None:
        """Take the terminal."""
        self.setting, self.history, self.at = setting, History(setting), 0
        self.look = replace(self.look, centre=(setting.height // 2, setting.width // 2))
        if self.live:
            self._stack.enter_context(taken(self.source, self.target))
            self.keyboard, self.screen = Keyboard(self.source), Screen(self.target)

    def show(self, scene: Scene) -> Control:
        """Draw the scene; answer keys until the next step is due."""
        self.history.add(scene)
        if not self.live:
            if scene.step % self.every == 0 or scene.step == self.setting.max_steps:
                self._print(scene)
            return Control()
        if self.at == scene.step - 1 or scene.step == 0:
            self.at = scene.step
        self._wait(lambda: self.at == scene.step)
        steer = {}
        if self.look.steering:
            steer = {self.look.follow: self._order or 0}
        self._order = None
        return Control(self._quit, steer)

    def end(self, summary: Summary) -> None:
        """Stay on the last scene until a key ends it."""
        if not self.live or self._quit:
            return
        self.look = replace(self.look, paused=True, steering=False)
        self.at = len(self.history) - 1
        self._wait(lambda: False, f"complete after {summary.steps} steps · b back · . on · arrows pan · q quit")

    def close(self) -> None:
        """Give the terminal back."""
        self._stack.close()

    def _print(self, scene: Scene) -> None:
        look = replace(self.look, colour=False, keys="", newest=scene.step, recent=self._recent())
        lines = picture(self.setting, scene, look, 2 * self.setting.width + 30, self.setting.height + 2)
        print("\n".join(line.rstrip() for line in lines), file=self.target, flush=True)

    def _wait(self, may_leave: Callable[[], bool], keys: str | None = None) -> None:
        """Until the person wants a step beyond the newest scene, or quits."""
        while not self._quit:
            self._draw(keys)
            left = self._due - clock() if not self.look.paused else 0.5
            if not self.look.paused and left <= 0:
                if self._forward(may_leave):
                    return
                continue
            key = self.keyboard.key(min(left, 0.5))
            if key is not None and self._press(key, may_leave):
                return

    def _forward(self, may_leave: Callable[[], bool]) -> bool:
        """One step on: to a scene that is already known, else the episode must go on (True)."""
        self._due = max(self._due, clock() - 0.05) + 1 / self.look.speed
        if self.at + 1 < len(self.history):
            self.at += 1
            return False
        if not may_leave():
            self.look = replace(self.look, paused=True)
            return False
        return True

    def _press(self, key: str, may_leave: Callable[[], bool]) -> bool:
        """Do what a key says; True if the episode is to go on by a step."""
        if key in ("interrupt",):
            raise KeyboardInterrupt
        if self.look.steering and self._steer_key(key):
            return self.look.paused and self._forward(may_leave)
        if key == ".":
            self.look = replace(self.look, paused=True)
            return self._forward(may_leave)
        self._view_key(key)
        return False

    def _steer_key(self, key: str) -> bool:
        """Whether a key told the steered cog what to do."""
        name = LETTERS.get(key, key)
        if name in STEERS:
            self._order = ACTIONS.index(STEERS[name])
        elif key in "vV":
            vibe = int(self.history.latest["vibe"][self.look.follow])
            self._order = ACTIONS.index(f"change_vibe_{VIBES[(vibe + 1) % len(VIBES)]}")
        else:
            return False
        self.at = len(self.history) - 1
        return True

    def _view_key(self, key: str) -> None:
        look, name = self.look, LETTERS.get(key, key)
        if key == "q":
            self._quit = True
        elif key == "space":
            self.look = replace(look, paused=not look.paused)
            self._due = clock()
        elif key in ("b", "backspace"):
            self.at = max(self.at - 1, 0)
            self.look = replace(look, paused=True)
        elif key in ("+", "=", "-"):
            self._pace(-1 if key == "-" else 1)
        elif key in ("home", "end"):
            self.at = 0 if key == "home" else len(self.history) - 1
        elif name in PANS:
            row, col = PANS[name]
            centre = self._centre()
            height, width = self.setting.height, self.setting.width
            moved = min(max(centre[0] + row, 0), height), min(max(centre[1] + col, 0), width)
            self.look = replace(look, centre=moved, panned=True)
        elif key == "L":
            self.look = replace(look, legend=not look.legend)
        else:
            self._follow_key(key)

    def _follow_key(self, key: str) -> None:
        look, cogs = self.look, self.setting.cogs
        if key in ("tab", "backtab"):
            cog = (look.follow + (1 if key == "tab" else -1)) % cogs
        elif key.isdigit() and int(key) < cogs:
            cog = int(key)
        elif key == "s" and self.steerable and look.follow >= 0:
            keys = self.keys if look.steering else STEER_KEYS
            self.look = replace(look, steering=not look.steering, panned=False, keys=keys)
            return
        else:
            return
        self.look = replace(look, follow=cog, steering=False, panned=False, keys=self.keys)

    def _pace(self, by: int) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.look.speed))
        self.look = replace(self.look, speed=SPEEDS[min(max(nearest + by, 0), len(SPEEDS) - 1)])
        self._due = clock()

    def _centre(self) -> tuple[int, int]:
        """The followed cog, unless the person has moved the map."""
        if self.look.panned or not 0 <= self.look.follow < self.setting.cogs:
            return self.look.centre
        return self.setting.place(int(self.history.scene(self.at)["cell"][self.look.follow]))

    def _draw(self, keys: str | None) -> None:
        now = clock()
        if self._due > now or self.look.paused or now - self._drawn > 1 / MOST_PICTURES:
            self._drawn = now
            look = replace(self.look, centre=self._centre(), newest=len(self.history) - 1, recent=self._recent())
            look = replace(look, keys=keys or look.keys)
            columns, rows = self.screen.size()
            self.screen.draw(picture(self.setting, self.history.scene(self.at), look, columns, rows))

    def _recent(self) -> tuple[str, ...]:
        """The last events before the scene on show."""
        found: list[str] = []
        last = self.at if self.live else len(self.history) - 1
        for step in range(last, max(last - EVENTS_BACK, -1), -1):
            found += [f"{step} {describe(self.setting, event)}" for event in reversed(self.history.events(step))]
            if len(found) >= EVENTS:
                break
        return tuple(found[:EVENTS])
