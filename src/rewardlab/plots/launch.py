"""Draws the curves of a run in a process of its own: training never waits for a plot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def draw_apart(folder: Path, what: str = "curves") -> subprocess.Popen[bytes]:
    """Start drawing and go on; what it has to say goes to the run's log folder."""
    with (folder / "log" / "plots.log").open("w") as log:
        command = [sys.executable, "-m", f"rewardlab.plots.{what}", str(folder)]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
