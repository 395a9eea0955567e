"""Workers and servers that end in the middle of something, by Ctrl-C or kill -9: nothing is lost, nothing is twice."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.arena.conftest import QUICK, Arena, bundle, fall_silent, person, upload

from rewardlab.arena import sandbox
from rewardlab.arena.boards import Boards
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.store.tables import Job, MatchRow, Player
from rewardlab.arena.worker import Worker

HELD = pytest.mark.skipif(bool(sandbox.problems()), reason="; ".join(sandbox.problems()))
INTERRUPT = 1 << (signal.SIGINT - 1)
SLOW = """
import time
from rewardlab.cogs.policies.api import MultiAgentPolicy
class Slow(MultiAgentPolicy):
    def agent_policy(self, agent_id):
        raise NotImplementedError
    def step_batch(self, raw_observations, raw_actions):
        time.sleep(0.1 if len(raw_observations) == 4 else 0)
"""
Started = Callable[[Place], "subprocess.Popen[bytes]"]


@pytest.fixture
def started() -> Iterator[Started]:
    """Workers as a shell starts them in the background: Ctrl-C is ignored at first."""
    running: list[subprocess.Popen[bytes]] = []

    def start(place: Place) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "rewardlab.cli.app", "arena", "worker", "--root", str(place.root)]
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        running.append(subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL))
        signal.signal(signal.SIGINT, before)
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def listens(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process would notice Ctrl-C."""
    caught = Path(f"/proc/{process.pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) & INTERRUPT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.2])
def test_a_worker_that_is_starting_ends_at_once(
    place: Place, started: Started, seconds: float, number: signal.Signals
) -> None:
    process = started(place)
    until(lambda: listens(process))
    if not seconds:
        assert "jaxlib" not in Path(f"/proc/{process.pid}/maps").read_text()  # before the long imports
    time.sleep(seconds)  # somewhere between its first import and its first look at the queue
    process.send_signal(number)
    assert process.wait(10) in (128 + number, 0)  # 0: it had begun to wait for work


def playing(place: Place, process: subprocess.Popen[bytes]) -> None:
    """Wait until a match is being played that takes a few seconds."""
    place.seasons.add(read_season(QUICK))
    upload(place, person(place, "alice"), bundle({"class_path": "slow.Slow"}, {"slow.py": SLOW}), "slow", "quick")
    until(lambda: process.poll() is None and any(m["status"] == "running" for m in place.seasons.matches()))


@HELD
def test_a_worker_plays_the_match_at_hand_to_its_end(place: Place, started: Started) -> None:
    process = started(place)
    playing(place, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert [m["status"] for m in place.seasons.matches()] == ["completed"]


@HELD
def test_a_worker_that_is_told_twice_leaves_it_to_another(place: Place, started: Started) -> None:
    process = started(place)
    playing(place, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert [m["status"] for m in place.seasons.matches()] == ["running"]  # until its lease has run out


@HELD
def test_a_worker_that_is_killed_in_a_match_loses_nothing(place: Place, started: Started) -> None:
    process = started(place)
    playing(place, process)
    process.kill()
    process.wait()
    assert [m["status"] for m in place.seasons.matches()] == ["running"]  # nobody has noticed yet
    fall_silent(place)
    Worker(place, idle_seconds=0.01).run(until_idle=True)
    assert [m["status"] for m in place.seasons.matches()] == ["completed"]
    with place.database.read() as session:
        assert session.scalars(select(Job.attempts).where(Job.kind == "match")).all() == [2]


def test_a_season_goes_on_whenever_its_server_is_killed(place: Place) -> None:
    """The small sister of benchmarks/arena_season.py: the server alone, then with its worker."""
    place.seasons.add(read_season(QUICK.replace("steps: 10", "steps: 200")))
    alice, dice = person(place, "alice"), random.Random(7)
    for i in range(4):
        upload(place, alice, bundle({"class_path": "role", "init_kwargs": {"miner": i}}), f"crew-{i}", "quick")
    total = 4 + 6 * 2  # each alone, each pair on two seeds

    def done() -> int:
        return sum(m["status"] == "completed" for m in place.seasons.matches(most=500))

    arena = Arena(place.root)
    try:
        for moment, with_worker in ((2, False), (7, True)):
            until(lambda wanted=moment: done() >= wanted)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.2))
            workers = arena.workers()
            assert workers
            arena.kill(signal.SIGKILL)
            for worker in workers if with_worker else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            with contextlib.closing(sqlite3.connect(place.root / "arena.db")) as left:
                assert left.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            if with_worker:
                fall_silent(place)
            arena.start()
        until(lambda: done() == total)
    finally:
        arena.kill(signal.SIGTERM)
    with place.database.read() as session:
        rows = session.scalars(select(MatchRow)).all()
        players = session.scalars(select(Player)).all()
        assert set(session.scalars(select(Job.status))) == {"done"}
    sides = defaultdict(list)
    for player in players:
        sides[player.match_id].append(player.version_id)
    held = place.seasons.get("quick")
    versions = sorted(version.id for version, _, _ in place.seasons.members(held.row.id, "competition"))
    met = Counter((*sorted(sides[row.id]), row.number) for row in rows if row.pool == "competition")
    pairs = itertools.combinations(versions, 2)
    assert met == Counter((*pair, number) for pair in pairs for number in (0, 1))
    scores = defaultdict(list)
    competing = {row.id for row in rows if row.pool == "competition"}
    for player in players:
        if player.match_id in competing:
            scores[player.version_id].append(player.score or 0.0)  # all shares are one half: no weights
    means = {version: sum(each) / len(each) for version, each in scores.items()}
    board = Boards(place.seasons).entries("quick")
    assert [means[entry.policy.id] for entry in board] == pytest.approx(sorted(means.values(), reverse=True))
    assert [entry.score for entry in board] == pytest.approx([means[entry.policy.id] for entry in board])
