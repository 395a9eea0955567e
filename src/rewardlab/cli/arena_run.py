"""What `rewardlab arena serve` and `worker`, and `rewardlab board`, do; imported when called."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardlab.arena.errors import ArenaError
from rewardlab.arena.place import Place
from rewardlab.cli.lab import say

SOON = 1.0  # seconds before a worker that died is started again
PATIENCE = 5  # seconds that requests at hand have when the server is told to stop


def place_of(root: Path, database: str | None = None, files: str | None = None) -> Place:
    """The arena that is meant; credentials of a bucket come from where its clients look for them."""
    from rewardlab.hub.store import Access

    access = Access(endpoint=os.environ.get("AWS_ENDPOINT_URL"))
    return Place(root, database or os.environ.get("REWARDLAB_ARENA_DATABASE"), files, access)


def serve(place: Place, host: str, port: int, workers: int, data: Path, reads: float, writes: float) -> None:
    """Set up what is not there, then serve until told to stop."""
    from rewardlab.arena import sandbox
    from rewardlab.arena.limits import Rates
    from rewardlab.arena.server import Settings
    from rewardlab.web.app import whole_app

    door = _bound(host, port)  # first of all: where another one serves, nothing is touched
    token = place.set_up()
    if token is not None:
        say(f"A new arena in {place.root}. The admin's token, shown this once: {token}")
    if found := sandbox.problems():
        say(f"Bundles with code are refused here: {'; '.join(found)}.")
    rates = Rates(reads=reads, reads_at_once=4 * reads, writes=writes, writes_at_once=10 * writes)
    with _workers(place, workers):
        _serve(whole_app(place, data, Settings(rates)), door)


def board(data: Path, port: int) -> None:
    """The same app over a folder of runs; an arena only where there is one."""
    from rewardlab.web.app import whole_app

    door = _bound("127.0.0.1", port)
    place = Place(data / "arena")
    if place.exists():
        place.database.migrate()
    _serve(whole_app(place, data), door)


class Telling(logging.Handler):
    """What the server has to complain of, for people."""

    def emit(self, record: logging.LogRecord) -> None:
        """On stderr, as it is now."""
        say(record.getMessage())


def _bound(host: str, port: int) -> socket.socket:
    """The address, ours from now on."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=kind, backlog=2048)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ArenaError(f"Port {port} of {host} is in use: choose another one, --port 0 takes any.") from error
        why = getattr(error, "strerror", None) or str(error)
        raise ArenaError(f"Nothing can be served at {host}, port {port}: {why}.") from error


def _serve(app: Any, door: socket.socket) -> None:
    import uvicorn

    from rewardlab.arena.wire import Wire, most_connections

    Wire.most = most_connections()

    class Server(uvicorn.Server):
        """Says where it is once it is there."""

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                host, there = door.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                say(f"Serving at http://{shown}:{there} (Ctrl-C ends)")

    config = uvicorn.Config(
        app,
        log_config=None,  # else it shuts all handlers of the process down, and absl's closes the stream it writes to
        log_level="error",  # what callers send that is no HTTP is no news
        access_log=False,
        http=Wire,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    logging.getLogger("uvicorn.error").handlers = [Telling()]
    server = Server(config)
    with door:
        server.run(sockets=[door])
    if not server.started:
        raise SystemExit(1)


@contextmanager
def _workers(place: Place, count: int) -> Iterator[None]:
    """Worker processes that live as long as the server; one that dies is started again."""
    words = [sys.executable, "-m", "rewardlab.cli.app", "arena", "worker", "--with-parent", "--root", str(place.root)]
    words += ["--database", place.database_url] if place.database_url else []
    words += ["--files", place.shelf_url] if place.shelf_url else []
    over = threading.Event()

    def keep() -> None:
        while not over.is_set():
            # it ends when its standard input does: however this process ends, no worker stays behind
            with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as process:
                while process.poll() is None and not over.wait(0.2):
                    pass
                if process.stdin is not None:
                    process.stdin.close()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
            if not over.is_set():
                say(f"A worker ended with status {process.returncode}; another one starts.")
                over.wait(SOON)

    threads = [threading.Thread(target=keep) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def work(place: Place, lease: float, until_idle: bool, with_parent: bool) -> None:
    """Work until told to stop; the match at hand is played to its end."""
    from rewardlab.arena.worker import Worker, say_what_is_refused
    from rewardlab.cli.cogs_run import prepare
    from rewardlab.cli.stopping import end_in_time

    prepare()
    place.database.migrate()
    worker = Worker(place, lease_seconds=lease)
    end_in_time(worker.stop, worker.clean)
    if with_parent:
        threading.Thread(target=_stop_with_parent, args=(worker,), daemon=True).start()
    else:
        say_what_is_refused()
    done = worker.run(until_idle)
    if not with_parent:
        say(f"{done} jobs done.")


def _stop_with_parent(worker: Any) -> None:
    sys.stdin.buffer.read()  # it ends with the server
    worker.stop()


def work_on_ray(place: Place, address: str, count: int, lease: float, until_idle: bool) -> None:
    """Workers on a Ray cluster; they share the database and the files, so both must be in reach of all."""
    from rewardlab.arena.cluster import work_on_cluster

    done = work_on_cluster(place, address, count, lease, until_idle)
    say(f"{done} jobs done.")
