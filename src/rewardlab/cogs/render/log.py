"""`-r log`: a line now and then; `-r none`: nothing. And several views at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TextIO

from rewardlab.cogs.render.picture import clean
from rewardlab.cogs.render.scene import Control, Event, Scene, Setting, Summary, Viewer, describe
from rewardlab.cogs.rules import STORED

MOST_EVENTS = 4  # told one by one in a line; beyond that they are counted
TOLD_FIRST = ("clips_take", "clips_scramble", "align", "scramble", "down", "gear", "heart_made", "heart_taken")


class NullViewer:
    """Shows nothing."""

    def begin(self, setting: Setting) -> None:
        """Nothing."""

    def show(self, scene: Scene) -> Control:
        """On with it."""
        return Control()

    def end(self, summary: Summary) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class LogViewer(NullViewer):
    """One line per `every` steps: junctions, stores, reward, and what happened since the last line."""

    def __init__(self, *, every: int = 100, stream: TextIO | None = None) -> None:
        self.every = max(every, 1)
        self.stream = stream if stream is not None else sys.stdout

    def begin(self, setting: Setting) -> None:
        """A line that says what is played."""
        self.setting, self.events, self.last = setting, list[Event](), -1
        policies = ", ".join(dict.fromkeys(name for name in setting.policies if name))
        parts = (setting.mission, f"{setting.cogs} cogs", f"{setting.max_steps} steps", policies)
        self._print(" · ".join(part for part in parts if part))

    def show(self, scene: Scene) -> Control:
        """A line if it is time for one."""
        self.events += scene.events
        self.scene = scene
        if scene.step % self.every == 0:
            self._line()
        return Control()

    def end(self, summary: Summary) -> None:
        """What the last line has not told yet."""
        if self.last != self.scene.step:
            self._line()

    def _line(self) -> None:
        setting, scene = self.setting, self.scene
        counts = scene.counts(setting)
        shown = [*range(2, len(counts)), *([1] if setting.clips else []), 0]
        junctions = " ".join(f"{setting.owners[i]} {counts[i]}" for i in shown)
        stores = " ".join(
            (f"{team}: " if len(setting.teams) > 1 else "")
            + " ".join(f"{name} {amount}" for name, amount in zip(STORED, store, strict=True))
            for team, store in zip(setting.teams, scene["store"].tolist(), strict=True)
        )
        reward = sum(scene.reward(cog) for cog in range(setting.cogs)) / setting.cogs
        step = f"step {scene.step:>{len(str(setting.max_steps))}}/{setting.max_steps}"
        parts = (step, f"junctions: {junctions}", f"store: {stores}", f"reward {reward:.3f}", self._told())
        self._print(" | ".join(part for part in parts if part))
        self.events, self.last = [], scene.step

    def _told(self) -> str:
        """The weightiest events, and how many more there were."""
        rank = {kind: i for i, kind in enumerate(TOLD_FIRST)}
        told = sorted((event for event in self.events if event.kind in rank), key=lambda event: rank[event.kind])
        said = [describe(self.setting, event) for event in told[:MOST_EVENTS]]
        more = len(self.events) - len(said)
        return ", ".join(said + ([f"{more} more"] if more else [])) if self.events else ""

    def _print(self, line: str) -> None:
        print(clean(line), file=self.stream, flush=True)


class Views:
    """Several views as one: each is shown everything, their orders are joined, and any of them may quit."""

    def __init__(self, views: Sequence[Viewer]) -> None:
        self.views = list(views)

    def begin(self, setting: Setting) -> None:
        """Each in turn."""
        for view in self.views:
            view.begin(setting)

    def show(self, scene: Scene) -> Control:
        """Each in turn."""
        controls = [view.show(scene) for view in self.views]
        steer = {cog: action for control in controls for cog, action in control.steer.items()}
        return Control(any(control.quit for control in controls), steer)

    def end(self, summary: Summary) -> None:
        """Each in turn."""
        for view in self.views:
            view.end(summary)

    def close(self) -> None:
        """All, even if one fails."""
        with contextlib.ExitStack() as stack:
            for view in self.views:
                stack.callback(view.close)
