"""The views by their names on the command line."""

from __future__ import annotations

from rewardlab.cogs.errors import unknown
from rewardlab.cogs.render.gui import GuiViewer
from rewardlab.cogs.render.log import LogViewer, NullViewer
from rewardlab.cogs.render.replay import Replay
from rewardlab.cogs.render.scene import Summary, Viewer, play
from rewardlab.cogs.render.session import ReplaySession
from rewardlab.cogs.render.terminal import TerminalViewer

VIEWS = ("gui", "vibescope", "unicode", "log", "none")  # vibescope is the original's other name for its window


def viewer_of(name: str, *, autostart: bool = False, steerable: bool = True) -> Viewer:
    """A view; `autostart` lets a page play at once instead of waiting for a click."""
    if name in ("gui", "vibescope"):
        return GuiViewer(autostart=autostart)
    if name == "unicode":
        return TerminalViewer(steerable=steerable)
    if name in ("log", "none"):
        return LogViewer() if name == "log" else NullViewer()
    raise unknown("view", name, VIEWS)


def watch_replay(replay: Replay, name: str = "gui", *, autostart: bool = True) -> Summary:
    """Watch a replay. A page gets all of it at once, so that one can go anywhere in it from the start."""
    viewer = viewer_of(name, autostart=autostart, steerable=False)
    if isinstance(viewer, GuiViewer):
        viewer.replay(replay)
        return replay.summary
    return play(ReplaySession(replay), viewer)
