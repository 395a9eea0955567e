"""Does what waits in the database: plays matches, tries policies; any number of these work side by side."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loguru import logger
from sqlalchemy.exc import OperationalError

from rewardlab.arena import sandbox
from rewardlab.arena.commissioner import Facts, advance_all
from rewardlab.arena.match.play import Table, play_match, try_policy
from rewardlab.arena.place import Place
from rewardlab.arena.sandbox import Limits
from rewardlab.arena.scratch import Scratch
from rewardlab.arena.store.jobs import Lease

LEASE, IDLE, LOOK = 30.0, 1.0, 10.0  # seconds: a lease without a sign of life, between looks at the queue, at seasons


def worker_name() -> str:
    """Who we are, for the record."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass
class Worker:
    """One process that takes jobs one after another."""

    place: Place
    lease_seconds: float = LEASE
    idle_seconds: float = IDLE
    limits: Limits = field(default_factory=Limits)
    name: str = field(default_factory=worker_name)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._idle: dict[str, Facts] = {}
        self._look = 0.0
        self._scratch = Scratch()
        self._table = Table(
            lambda sha256: self.place.shelf.get(f"bundles/{sha256}.zip"),
            self._scratch.path / "bundles",
            self.limits,
            takes_code=not sandbox.problems(),
        )
        self._table.unpacked.mkdir(mode=0o711)

    def stop(self) -> None:
        """End after the job at hand."""
        self._stop.set()

    def run(self, until_idle: bool = False) -> int:
        """Work until stopped, or until nothing is left; how many jobs were done."""
        done = 0
        try:
            while not self._stop.is_set():
                worked = self.step()
                done += worked
                if not worked:
                    if until_idle:
                        break
                    self._stop.wait(self.idle_seconds)
        finally:
            self.clean()
        return done

    def clean(self) -> None:
        """Remove what was unpacked."""
        self._scratch.remove()

    def step(self) -> bool:
        """Do one job, or write down what seasons owe; False if there was nothing to do."""
        try:
            if time.monotonic() > self._look:  # also where trials wait in great number: matches have their turn
                self._look = time.monotonic() + LOOK
                advance_all(self.place.database, self._idle)
            lease = self.place.jobs.lease(self.name, self.lease_seconds)
            if lease is None:
                return bool(advance_all(self.place.database, self._idle))
        except OperationalError as error:  # the database is away or busy: it may come back
            logger.warning("the database does not answer: {}", str(error.orig).strip())
            return False
        with self._kept(lease) as lost:
            try:
                self._do(lease, lost)
            except Exception as error:
                logger.warning("{} {}: {}", lease.kind, lease.subject, error)
                self._failed(lease, error)
        return True

    def _failed(self, lease: Lease, error: Exception) -> None:
        """Write down why; where that cannot be, the lease runs out and says it."""
        try:
            self.place.jobs.fail(lease, f"{self.name}: {''.join(traceback.format_exception(error))[-4000:]}")
        except OperationalError as away:
            logger.warning("the database does not answer: {}", str(away.orig).strip())

    def _do(self, lease: Lease, lost: Callable[[], bool]) -> None:
        if lease.kind == "validation":
            version, _ = self.place.policies.version(lease.subject)
            kind, reason = try_policy(version.sha256, self._table)
            self.place.seasons.record_validation(lease, kind, reason)
            logger.info("validated {}:v{}: {}", version.name, version.version, reason or "accepted")
            return
        with tempfile.TemporaryDirectory(dir=self._scratch.path) as folder:
            outcome = play_match(self.place.seasons.match(lease.subject)["job"], self._table, Path(folder))
            if lost():
                return
            if outcome.replay is not None:
                self.place.shelf.put(f"replays/{lease.subject}.json.z", Path(folder) / outcome.replay)
        if self.place.seasons.record(lease, outcome):
            scores = ", ".join(f"{score:.2f}" for score in outcome.scores)
            logger.info("match {} in {:.1f} s: {}", lease.subject, outcome.seconds, scores)

    @contextmanager
    def _kept(self, lease: Lease) -> Iterator[Callable[[], bool]]:
        """Say every so often that we are alive; the other side of it is that a dead worker's jobs go to others."""
        over, lost = threading.Event(), threading.Event()

        def beat() -> None:
            while not over.wait(self.lease_seconds / 3):
                try:
                    if not self.place.jobs.keep(lease, self.lease_seconds):
                        lost.set()
                        return
                except OperationalError:
                    continue

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield lost.is_set
        finally:
            over.set()
            thread.join()


def say_what_is_refused() -> None:
    """On a machine that cannot hold strangers' code, say so at the start."""
    if found := sandbox.problems():
        print(f"Bundles with code are refused here: {'; '.join(found)}.", file=sys.stderr, flush=True)
