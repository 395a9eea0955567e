"""A worker's own folder for what it unpacks. What a worker that was killed left behind is removed by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX, LOCK = "rewardlab-worker-", "lock"
YOUNG = 60.0  # seconds in which a folder may be without its lock


class Scratch:
    """A folder that is ours as long as we live: its lock ends with the process, however that ends."""

    def __init__(self, above: Path | None = None) -> None:
        above = above or Path(tempfile.gettempdir())
        sweep(above)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        self.path.chmod(0o711)  # a sandboxed uid passes through to its own bundle, and can list nothing
        self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """All of it; a second time does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep(above: Path) -> None:
    """Remove the folders of workers that are no more."""
    for left in above.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another one was faster, or it is somebody else's
            if left.stat().st_mtime > time.time() - YOUNG:
                continue
            lock = os.open(left / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
