"""`-r gui`: the page in src/rewardlab/web/cogs, served to this machine alone, that shows an episode or a replay."""

from __future__ import annotations

import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rewardlab.cogs.render.history import Frame, History
from rewardlab.cogs.render.replay import Replay, header_of
from rewardlab.cogs.render.scene import Control, Scene, Setting, Summary
from rewardlab.cogs.render.serve import PageServer
from rewardlab.cogs.rules import ACTIONS

BATCH = 1000  # frames in one answer
PATIENCE = 15.0  # seconds that a question for frames waits for an answer
GONE = 6.0  # seconds without a question after which nobody is looking any more
TICK = 0.25  # seconds between two looks at whether Ctrl-C was pressed


class Broadcast:
    """What the page and the episode tell each other; every method may be called from any thread."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.summary: Summary | None = None
        self.wanted = 0  # the step up to which the page wants the episode played
        self.steer: dict[int, int] = {}
        self.quit = False
        self.asked = 0.0  # when the page last asked for frames
        self.waiting = 0
        self._news = threading.Condition()

    def add(self, scene: Scene) -> None:
        """One more scene to be seen."""
        with self._news:
            self.history.add(scene)
            self._news.notify_all()

    def finish(self, summary: Summary | None) -> None:
        """No further scene comes."""
        with self._news:
            self.summary = summary
            self._news.notify_all()

    def frames(self, start: int) -> Mapping[str, Any]:
        """What came after the first `start` frames; waits a while if nothing has."""
        with self._news:
            self.asked, self.waiting = time.monotonic(), self.waiting + 1
            self._news.wait_for(lambda: len(self.history) > start or self.summary is not None or self.quit, PATIENCE)
            self.asked, self.waiting = time.monotonic(), self.waiting - 1
            found: list[Frame] = self.history.frames[start : start + BATCH]
            summary = asdict(self.summary) if self.summary is not None else None
            return {"frames": found, "total": len(self.history), "summary": summary}

    def command(self, message: Mapping[str, Any]) -> None:
        """What the person did; a ValueError if it makes no sense."""
        want, steer, leave = message.get("want", 0), message.get("steer", {}), message.get("quit", False)
        if not isinstance(want, int) or not isinstance(steer, dict) or not isinstance(leave, bool):
            raise ValueError("want is a step, steer says an action for each cog, quit is true or false")
        orders = {int(cog): action for cog, action in steer.items()}
        cogs, actions = range(self.history.setting.cogs), range(len(ACTIONS))
        if not all(cog in cogs and isinstance(action, int) and action in actions for cog, action in orders.items()):
            raise ValueError("there is no such cog or action")
        with self._news:
            self.wanted = max(self.wanted, min(want, self.history.setting.max_steps))
            self.steer = orders or self.steer
            self.quit = self.quit or leave
            self._news.notify_all()

    def next_control(self, step: int) -> Control | None:
        """What to do after a step; None while the page wants no further one."""
        with self._news:
            if not self._news.wait_for(lambda: self.quit or self.wanted > step, TICK):
                return None
            steer, self.steer = self.steer, {}
            return Control(self.quit, steer)

    def watched(self) -> bool:
        """Whether a page has asked lately."""
        with self._news:
            return self.waiting > 0 or time.monotonic() - self.asked < GONE


class GuiViewer:
    """Shows an episode in the browser. It is played as far as the page wants: pausing and speed are the page's."""

    def __init__(
        self,
        *,
        autostart: bool = False,
        open_browser: bool = True,
        linger: bool = True,
        port: int = 0,
        speed: float = 10,
        stream: Any = None,
    ) -> None:
        self.options = {"live": True, "autostart": autostart, "speed": speed}
        self.open_browser, self.linger, self.port = open_browser, linger, port
        self.stream = stream if stream is not None else sys.stderr
        self.broadcast: Broadcast | None = None
        self.server: PageServer | None = None

    @property
    def url(self) -> str:
        """Where the page is, secret included; only while the episode is shown."""
        assert self.server is not None
        return self.server.url

    def begin(self, setting: Setting) -> None:
        """Serve the page, say where, open it if there is a browser."""
        self._serve(History(setting), self.options)

    def _serve(self, history: History, options: Mapping[str, Any]) -> None:
        self.broadcast = Broadcast(history)
        opening = {"header": header_of(history.setting), **options}
        self.server = PageServer(opening, self.broadcast.frames, self.broadcast.command, self.port)
        self.server.start()
        print(f"Watch at {self.url} (Ctrl-C ends)", file=self.stream, flush=True)
        if self.open_browser:
            threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()

    def show(self, scene: Scene) -> Control:
        """Hand the scene to the page, and wait until it wants the next."""
        assert self.broadcast is not None
        self.broadcast.add(scene)
        if scene.step >= self.broadcast.history.setting.max_steps:
            return Control()
        while True:
            control = self.broadcast.next_control(scene.step)
            if control is not None:
                return control

    def end(self, summary: Summary) -> None:
        """Tell the page; the episode stays to be looked at until the page is closed."""
        assert self.broadcast is not None
        self.broadcast.finish(summary)
        deadline = time.monotonic() + GONE
        while self.linger and not self.broadcast.quit and (self.broadcast.watched() or time.monotonic() < deadline):
            time.sleep(TICK)

    def close(self) -> None:
        """Close the port."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def replay(self, replay: Replay) -> None:
        """Show a whole replay until its page is closed; with nobody looking yet, until Ctrl-C."""
        try:
            self._serve(replay.history, {**self.options, "live": False})
            assert self.broadcast is not None
            self.broadcast.finish(replay.summary)
            while not self.broadcast.asked or self.broadcast.watched():
                time.sleep(TICK)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()
