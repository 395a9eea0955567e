"""Pushes runs to the hub while they go, in a process of its own: `python -m rewardlab.cli.follow HUB SECONDS DIR` for
one run, `… ROOT/* KNOWN…` for every run below a folder that is not known yet."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardlab.cli.hub import open_hub
from rewardlab.hub.manifest import HubError, encode, scan
from rewardlab.hub.transfer import push

EVERY = 60.0  # seconds between two looks at what is new


def follow(folders: Callable[[], Iterable[Path]], url: str, every: float) -> None:
    """Push what is new, for ever: whoever started this ends it. A hub that is away for a while is asked again."""
    store, sent = open_hub(url), dict[Path, bytes]()
    while True:
        time.sleep(every)
        for folder in folders():
            if any(folder.glob("model/*.safetensors")):  # before that, there is nothing to go on from
                now = encode(scan(folder))
                if now != sent.get(folder):
                    try:
                        push(store, folder)
                        sent[folder] = now
                    except HubError as error:
                        print(error, file=sys.stderr, flush=True)


def new_runs(root: Path, known: Collection[str]) -> list[Path]:
    """The run folders below a folder that are not known."""
    return [path for path in sorted(root.glob("*")) if path.name not in known and any(path.glob("*_spec.yaml"))]


@contextmanager
def pushed(folder: Path, url: str | None, every: float = EVERY) -> Iterator[None]:
    """A run whose folder goes to the hub as it goes, and once more at its end, however it ends."""
    if url is None:
        yield
        return
    with (folder / "log" / "push.log").open("w") as log:
        follower = _start([url, str(every), str(folder)], log)
    try:
        yield
    finally:
        follower.terminate()
        follower.wait()
        push(open_hub(url), folder)


@contextmanager
def all_pushed(root: Path, url: str, every: float = EVERY) -> Iterator[None]:
    """Every run that is made below a folder meanwhile goes to the hub as it goes, and once more at the end."""
    root.mkdir(parents=True, exist_ok=True)
    known = [path.name for path in root.glob("*")]
    follower = _start([url, str(every), f"{root}/*", *known], subprocess.DEVNULL)
    try:
        yield
    finally:
        follower.terminate()
        follower.wait()
        for folder in new_runs(root, known):
            push(open_hub(url), folder)


def _start(words: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "rewardlab.cli.follow", *words]
    return subprocess.Popen(line, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    hub, seconds, place, *others = sys.argv[1:]
    if place.endswith("/*"):
        follow(lambda: new_runs(Path(place[:-2]), others), hub, float(seconds))
    else:
        follow(lambda: [Path(place)], hub, float(seconds))
