"""Pushes a run to the hub while it goes, in a process of its own: `python -m rewardlab.cli.follow DIR HUB SECONDS`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rewardlab.cli.hub import open_hub
from rewardlab.hub.manifest import HubError, encode, scan
from rewardlab.hub.transfer import push

EVERY = 60.0  # seconds between two looks at what is new


def follow(folder: Path, url: str, every: float) -> None:
    """Push what is new, for ever: whoever started this ends it. A hub that is away for a while is asked again."""
    store, sent = open_hub(url), b""
    while True:
        time.sleep(every)
        if any(folder.glob("model/*.safetensors")):  # before that, there is nothing to go on from
            now = encode(scan(folder))
            if now != sent:
                try:
                    push(store, folder)
                    sent = now
                except HubError as error:
                    print(error, file=sys.stderr, flush=True)


@contextmanager
def pushed(folder: Path, url: str | None, every: float = EVERY) -> Iterator[None]:
    """A run whose folder goes to the hub as it goes, and once more at its end, however it ends."""
    if url is None:
        yield
        return
    words = [sys.executable, "-m", "rewardlab.cli.follow", str(folder), url, str(every)]
    with (folder / "log" / "push.log").open("w") as log:
        follower = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        follower.terminate()
        follower.wait()
        push(open_hub(url), folder)


if __name__ == "__main__":
    follow(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
