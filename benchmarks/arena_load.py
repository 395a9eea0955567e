"""Load on the arena's API beside its database: leaderboard reads, uploads into quarantine, and past the limit.

python benchmarks/arena_load.py [--seconds 10] [--database postgresql://…]

Everything runs on this machine: the server in a process of its own, the callers here. No request may fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rewardlab.arena.match.play import Table, try_policy
from rewardlab.arena.place import Place
from rewardlab.arena.season import season_of
from rewardlab.arena.store.policies import Quotas
from rewardlab.arena.store.tables import MatchRow, Membership, Player, Version
from rewardlab.experiment import device

RESULTS = Path(__file__).parent / "results" / "arena_load.json"
BUNDLE = 100_000
PATH = "/api/v1/tournament/seasons/load/leaderboard"


def fill(place: Place, policies: int = 30) -> str:
    """A season with a leaderboard as long as a real one's, without playing it; the uploader's token."""
    said = {"name": "load", "entry_pool": "all", "leaderboard_pool": "all", "pools": {"all": {"kind": "pairs"}}}
    place.seasons.add(season_of(said))
    user = place.accounts.add_user("bench")
    season = place.seasons.get("load").row.id
    with place.database.write() as session:
        versions = [
            Version(user_id=user.id, name=f"crew-{i:02}", version=1, sha256="0" * 64, size=1, status="accepted")
            for i in range(policies)
        ]
        session.add_all(versions)
        session.flush()
        session.add_all(Membership(season_id=season, pool="all", version_id=v.id) for v in versions)
        for i, one in enumerate(versions):
            for other in versions[:i]:
                match = MatchRow(season_id=season, pool="all", key=f"{one.id}{other.id}"[:70], number=0, spec={})
                match.status, match.finished = "completed", time.time()
                session.add(match)
                session.flush()
                for seat, version in enumerate((one, other)):
                    session.add(Player(match_id=match.id, seat=seat, version_id=version.id, cogs=2, score=float(i)))
    return place.accounts.make_token(user)


class Caller:
    """One kept-open connection that speaks just enough HTTP; the callers must not be the bottleneck."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, method: str, path: str, headers: str = "", body: bytes = b"") -> tuple[int, bytes]:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        return int(answer[9:12]), await self.reader.readexactly(length)


async def storm(port: int, callers: int, seconds: float, act: Callable[[Caller], Awaitable[int]]) -> dict[str, Any]:
    """So many callers, one request after another each; statuses and times."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds

    async def call() -> None:
        caller = Caller(port)
        await caller.open()
        while (start := time.perf_counter()) < end:
            statuses[await act(caller)] += 1
            times.append(time.perf_counter() - start)
        caller.writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(callers)))
    took = time.perf_counter() - begin
    times.sort()
    return {
        "per_second": len(times) / took,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[int(len(times) * 0.99)],
        "statuses": {str(k): v for k, v in sorted(statuses.items())},
    }


async def read(caller: Caller) -> int:
    return (await caller.ask("GET", PATH))[0]


def uploader(token: str) -> Callable[[Caller], Awaitable[int]]:
    """A whole upload: an address, 100 KB, a version in quarantine. The first status that is no success, else 200."""
    headers = f"X-Auth-Token: {token}\r\nContent-Type: application/json\r\n"
    api = "/api/v1/stats/policies/submit"

    async def upload(caller: Caller) -> int:
        status, body = await caller.ask("POST", f"{api}/presigned-url", headers, b"{}")
        if status != 200:
            return status
        started = json.loads(body)
        path = started["upload_url"].partition(str(caller.port))[2]
        status, _ = await caller.ask("PUT", path, body=os.urandom(BUNDLE))
        if status != 204:
            return status
        done = json.dumps({"upload_id": started["upload_id"], "name": "load"}).encode()
        return (await caller.ask("POST", f"{api}/complete", headers, done))[0]

    return upload


def serve(place: Place, rate: float) -> tuple[subprocess.Popen[bytes], int]:
    """A server in its own process, without workers."""
    code = (
        "import sys; from pathlib import Path; from rewardlab.arena.place import Place; "
        "from rewardlab.arena.store.policies import Quotas; from rewardlab.arena.limits import Rates; "
        "from rewardlab.arena.server import Settings; from rewardlab.web.app import whole_app; "
        "from rewardlab.cli.arena_run import _bound, _serve; "
        "root, url, rate = Path(sys.argv[1]), sys.argv[2] or None, float(sys.argv[3]); "
        "most = Quotas(per_day=10**9, versions=10**9, bytes_all=1 << 60); "
        "rates = Rates(rate, 2 * rate, rate, 2 * rate, in_work=512); "
        "_serve(whole_app(Place(root, url, quotas=most), root, Settings(rates)), _bound('127.0.0.1', 0))"
    )
    words = [sys.executable, "-c", code, str(place.root), place.database_url or "", str(rate)]
    log = place.root / "server.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(words, stderr=stderr)
    while "Serving at" not in (said := log.read_text()):
        assert process.poll() is None, said
        time.sleep(0.05)
    return process, int(said.partition("127.0.0.1:")[2].split()[0])


def measure(place: Place, token: str, seconds: float) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    process, port = serve(place, 1e9)
    try:
        asyncio.run(storm(port, 4, 1.0, read))  # warm
        rows["leaderboard reads"] = asyncio.run(storm(port, 32, seconds, read))
        rows["uploads of 100 KB"] = asyncio.run(storm(port, 16, seconds, uploader(token)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    process, port = serve(place, 200.0)
    try:
        rows["reads past a limit of 200/s"] = asyncio.run(storm(port, 32, seconds / 2, read))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return rows


def validations(seconds: float) -> float:
    """Weights-only bundles tried per second on one core."""
    import zipfile

    import numpy as np

    from rewardlab.cogs.missions import make_mission
    from rewardlab.cogs.policies.api import PolicyEnvInterface
    from rewardlab.cogs.policies.mlp import MlpPolicy

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        policy = MlpPolicy(PolicyEnvInterface.from_rules(make_mission("cogsguard_arena.basic", cogs=4).rules))
        table = Table(lambda name: root / f"{name}.zip", root / "unpacked")

        def make(i: int) -> str:
            policy.weights["output.bias"] = np.full_like(policy.weights["output.bias"], i * 1e-3)
            policy.save_policy_data(str(root / "w.safetensors"))
            with zipfile.ZipFile(root / f"{i}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
                packed.writestr("policy_spec.json", '{"class_path": "mlp", "data_path": "w.safetensors"}')
                packed.write(root / "w.safetensors", "w.safetensors")
            return str(i)

        names = [make(i) for i in range(400)]
        assert try_policy(names.pop(), table) == ("weights", "")  # compiles
        start = time.perf_counter()
        done = 0
        while time.perf_counter() - start < seconds and names:
            assert try_policy(names.pop(), table) == ("weights", "")
            done += 1
        return done / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--database")
    options = parser.parse_args()
    device.prepare()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "arena", options.database, quotas=Quotas())
        place.set_up()
        rows = measure(place, fill(place), options.seconds)
        place.database.close()
    rows["validations of weights"] = {"per_second": validations(options.seconds / 2)}
    name = "sqlite" if options.database is None else "postgresql"
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    held[name] = {"rows": rows, "cores": device.available_cores(), "cpu": platform.processor() or platform.machine()}
    RESULTS.write_text(json.dumps(held, indent=2, sort_keys=True) + "\n")
    print(f"{name:32}{'per second':>12}{'p50 ms':>10}{'p99 ms':>10}  statuses")
    for label, row in rows.items():
        times = "".join(f"{row[key]:10.2f}" if key in row else f"{'':10}" for key in ("p50_ms", "p99_ms"))
        print(f"{label:32}{row['per_second']:12.1f}{times}  {row.get('statuses', '')}")


if __name__ == "__main__":
    main()
