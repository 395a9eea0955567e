"""A whole season with workers that are killed: nothing lost, nothing twice, and how fast it goes.

python benchmarks/arena_season.py [--database postgresql://…]      SQLite in a temporary folder if none is given
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

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


def start_worker(place: Place, lease: float) -> subprocess.Popen[bytes]:
    words = [
        sys.executable,
        "-m",
        "rewardlab.cli.app",
        "arena",
        "worker",
        "--root",
        str(place.root),
        "--lease",
        str(lease),
    ]
    words += ["--database", place.database_url] if place.database_url else []
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def completed(place: Place) -> int:
    with place.database.read() as session:
        return session.scalar(select(func.count()).select_from(MatchRow).where(MatchRow.status == "completed")) or 0


def play(place: Place, matches: int, workers: int, kills: int, lease: float, dice: random.Random) -> dict[str, Any]:
    """All matches, by workers of which some are killed in the middle of one."""
    running = [start_worker(place, lease) for _ in range(workers)]
    start = first = None
    moments = sorted(dice.uniform(0.1, 0.8) * matches for _ in range(kills))
    killed: list[int] = []
    try:
        while (done := completed(place)) < matches:
            now = time.monotonic()
            if done and start is None:
                start, first = now, done
            if moments and done >= moments[0]:
                moments.pop(0)
                time.sleep(dice.uniform(0, 0.15))  # anywhere within a match
                victim = dice.randrange(len(running))
                kill(running[victim])
                killed.append(completed(place))
                running[victim] = start_worker(place, lease)
            time.sleep(0.05)
        assert start is not None
        assert first is not None
        minutes = (time.monotonic() - start) / 60
    finally:
        for process in running:
            kill(process)
    rate = (matches - first) / minutes
    cores = min(workers, device.available_cores())
    return {"minutes": minutes, "matches_per_minute": rate, "per_core": rate / cores, "killed_after_matches": killed}


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
    parser.add_argument("--kills", type=int, default=2)
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
        row = play(place, matches, options.workers, options.kills, options.lease, dice)
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
