"""A whole season whose server and workers are killed at random moments: nothing lost, nothing twice, and how fast.

python benchmarks/arena_season.py [--database postgresql://…]      SQLite in a temporary folder if none is given
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select, text

from rewardlab.arena.boards import Boards
from rewardlab.arena.match.play import Table, play_match
from rewardlab.arena.place import Place
from rewardlab.arena.season import season_of
from rewardlab.arena.shelf import hash_file
from rewardlab.arena.store.tables import Job, MatchRow, Player
from rewardlab.experiment import device

RESULTS = Path(__file__).parent / "results" / "arena_season.json"
NAME = "thirty"


def policies(count: int) -> list[dict[str, Any]]:
    """Crews that differ in who does what."""
    mixes = [m for m in itertools.product(range(3), repeat=4) if 1 <= sum(m) <= 4]
    random.Random(0).shuffle(mixes)
    roles = ("miner", "scout", "aligner", "scrambler")
    return [{"class_path": "role", "init_kwargs": dict(zip(roles, mix, strict=True))} for mix in mixes[:count]]


def fill(place: Place, count: int, steps: int, replays: bool) -> None:
    """The season, and everybody in it, accepted."""
    pool = {"kind": "pairs", "splits": [[2, 2]], "seeds": 1}
    said = {"name": NAME, "steps": steps, "max_outstanding": 10_000, "replays": "all" if replays else "none"}
    said |= {"entry_pool": "all", "leaderboard_pool": "all", "pools": {"all": pool}}
    place.seasons.add(season_of(said))
    caller = place.accounts.caller(place.accounts.make_token(place.accounts.add_user("bench")))
    assert caller is not None
    for i, spec in enumerate(policies(count)):
        file = place.root / "bundle.zip"
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("policy_spec.json", json.dumps(spec))
        upload, key = place.policies.start_upload(caller)
        sha256, size = hash_file(file), file.stat().st_size
        place.shelf.put(f"bundles/{sha256}.zip", file)
        place.policies.receive(upload, key, size, sha256)
        place.policies.complete(upload, caller, f"crew-{i:02}", NAME)


class Arena:
    """The server with a worker beside it, and workers of their own; everything that they say is kept."""

    def __init__(self, place: Place, workers: int, lease: float) -> None:
        self.place, self.workers, self.lease = place, workers, lease
        self.logs: list[Path] = []
        self.server = self._start("serve", "--port", "0", "--workers", "1")
        self.others = [self._worker() for _ in range(workers - 1)]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", "rewardlab.cli.app", "arena", *words, "--root", str(self.place.root)]
        line += ["--database", self.place.database_url] if self.place.database_url else []
        self.logs.append(self.place.root / f"log-{len(self.logs)}")
        with self.logs[-1].open("wb") as log:
            return subprocess.Popen(line, stderr=log, stdout=subprocess.DEVNULL, start_new_session=True)

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--lease", str(self.lease))

    def kill_worker(self, dice: random.Random) -> None:
        """-9 for a worker of its own; another one takes its place."""
        victim = dice.randrange(len(self.others))
        kill(self.others[victim])
        self.others[victim] = self._worker()

    def kill_server(self, with_worker: bool) -> float:
        """-9 for the server, or for it and its worker; then on with what it left. Seconds until it answers again."""
        children = [c for task in Path(f"/proc/{self.server.pid}/task").iterdir() for c in _children(task)]
        kill(self.server)
        for child in children if with_worker else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        start = time.monotonic()
        self.server = self._start("serve", "--port", "0", "--workers", "1")
        while not (found := re.findall(r"Serving at (\S+)", self.logs[-1].read_text())):
            assert self.server.poll() is None, self.logs[-1].read_text()
            time.sleep(0.05)
        board = httpx.get(f"{found[0]}/api/v1/tournament/seasons/{NAME}/leaderboard").raise_for_status().json()
        assert board
        return time.monotonic() - start

    def recorded(self) -> Counter[str]:
        """How often workers said that they wrote down each match: they say so after it is done."""
        said = "\n".join(log.read_text() for log in self.logs)
        return Counter(re.findall(r"match (\S+) in ", said))

    def close(self) -> None:
        """End everything."""
        self.server.send_signal(signal.SIGTERM)
        for process in self.others:
            kill(process)
        self.server.wait()


def _children(task: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (task / "children").read_text().split()
    return []


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def completed(place: Place) -> int:
    with place.database.read() as session:
        return session.scalar(select(func.count()).select_from(MatchRow).where(MatchRow.status == "completed")) or 0


def play(arena: Arena, matches: int, kills: int, server_kills: int, dice: random.Random) -> dict[str, Any]:
    """All matches, while workers and servers are killed in the middle of them."""
    place, start, first = arena.place, None, None
    moments = sorted((dice.uniform(0.1, 0.8) * matches, i >= kills) for i in range(kills + server_kills))
    killed: dict[str, list[int]] = {"worker": [], "server": [], "server and worker": []}
    seconds: list[float] = []
    try:
        while (done := completed(place)) < matches:
            now = time.monotonic()
            if done and start is None:
                start, first = now, done
            if moments and done >= moments[0][0]:
                _, server = moments.pop(0)
                time.sleep(dice.uniform(0, 0.3))  # anywhere within a match
                both = server and len(killed["server"]) > len(killed["server and worker"])
                killed["server and worker" if both else "server" if server else "worker"].append(completed(place))
                if server:
                    seconds.append(arena.kill_server(both))
                else:
                    arena.kill_worker(dice)
            time.sleep(0.05)
        assert start is not None
        assert first is not None
        minutes = (time.monotonic() - start) / 60
    finally:
        arena.close()
    rate = (matches - first) / minutes
    row: dict[str, Any] = {"minutes": minutes, "matches_per_minute": rate, "killed_after_matches": killed}
    row["per_core"] = rate / min(arena.workers, device.available_cores())
    row["seconds_until_the_server_answers_again"] = max(seconds, default=0.0)
    twice = [match for match, count in arena.recorded().items() if count > 1]
    assert not twice, f"{len(twice)} matches were written down twice"
    return {**row, "written_down_twice": 0}


def check(place: Place, count: int, sample: int) -> dict[str, Any]:
    """What is in the database against what must be, by other means than the arena's own."""
    with place.database.read() as session:
        matches = session.scalars(select(MatchRow)).all()
        players = session.scalars(select(Player)).all()
        jobs = session.scalars(select(Job).where(Job.kind == "match")).all()
        healthy = session.scalar(text("PRAGMA integrity_check")) if place.database.is_sqlite else "ok"
    sides = defaultdict(list)
    for player in sorted(players, key=lambda p: (p.match_id, p.seat)):
        sides[player.match_id].append(player)
    pairs = Counter(tuple(sorted(p.version_id for p in sides[m.id])) for m in matches)
    versions = sorted({p.version_id for p in players})
    assert len(versions) == count, len(versions)
    missing = [pair for pair in itertools.combinations(versions, 2) if pairs[pair] != 1]
    assert not missing, f"{len(missing)} pairs did not play exactly once"
    assert all(match.status == "completed" for match in matches)
    assert all(job.status == "done" for job in jobs)
    assert healthy == "ok", healthy
    total: dict[str, list[float]] = defaultdict(list)
    for player in players:
        assert player.score is not None
        total[player.version_id].append(player.score)  # all shares are one half, so the mean needs no weights
    mine = sorted(total, key=lambda v: (-sum(total[v]) / len(total[v]), v))
    theirs = [entry.policy.id for entry in Boards(place.seasons).entries(NAME)]
    scores = {v: sum(total[v]) / len(total[v]) for v in mine}
    assert all(abs(scores[a] - scores[b]) < 1e-9 for a, b in zip(mine, theirs, strict=True)), "another order"
    with tempfile.TemporaryDirectory() as folder:
        table = Table(lambda sha256: place.shelf.get(f"bundles/{sha256}.zip"), Path(folder) / "bundles")
        for match in random.Random(1).sample(list(matches), sample):
            again = play_match({**match.spec, "replay": False}, table).scores
            assert list(again) == [p.score for p in sides[match.id]], "a match came out otherwise when played again"
    attempts = Counter(job.attempts for job in jobs)
    return {
        "matches": len(matches),
        "pairs_played_once": len(pairs),
        "leaderboard_order_equal": True,
        "integrity": healthy,
        "attempts": {str(n): c for n, c in sorted(attempts.items())},
        "replayed_equal": sample,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database")
    parser.add_argument("--policies", type=int, default=30)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=2, help="of workers")
    parser.add_argument("--server-kills", type=int, default=3, help="the second of each two takes its worker along")
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--replays", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device.prepare()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "arena", options.database)
        place.set_up()
        fill(place, options.policies, options.steps, options.replays)
        matches = options.policies * (options.policies - 1) // 2
        dice = random.Random(options.seed)
        arena = Arena(place, options.workers, options.lease)
        row = play(arena, matches, options.kills, options.server_kills, dice)
        row |= check(place, options.policies, 10)
        row |= {"policies": options.policies, "steps": options.steps, "workers": options.workers}
        row |= {"replays": options.replays, "cpu": platform.processor() or platform.machine()}
        place.database.close()
    name = "sqlite" if options.database is None else "postgresql"
    name += "-replays" if options.replays else ""
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    held[name] = row
    RESULTS.write_text(json.dumps(held, indent=2, sort_keys=True) + "\n")
    print(f"{'':28}{name}")
    for key, value in row.items():
        print(f"{key:28}{value:.4g}" if isinstance(value, float) else f"{key:28}{value}")


if __name__ == "__main__":
    main()
