"""An arena in a folder, people in it, and bundles to upload."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from rewardlab.arena.client import Client
from rewardlab.arena.limits import Rates
from rewardlab.arena.place import Place
from rewardlab.arena.server import Settings
from rewardlab.arena.shelf import hash_file
from rewardlab.arena.store.accounts import Caller
from rewardlab.arena.store.tables import Job, Version
from rewardlab.arena.worker import Worker
from rewardlab.web.app import whole_app

MOST = 1e9
FREE = Settings(Rates(MOST, MOST, MOST, MOST, MOST, MOST))
QUICK = """
name: quick
cogs: 4
steps: 10
max_outstanding: 100
pools:
  qualifying: {kind: self_play, matches: 1, threshold: 0.0, promotes_to: competition}
  competition: {kind: pairs, splits: [[2, 2]], seeds: 2}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "arena")
    made.set_up()
    yield made
    made.database.close()


@pytest.fixture
def caller(place: Place) -> Caller:
    return person(place, "alice")


def person(place: Place, name: str) -> Caller:
    """Somebody with a token."""
    found = place.accounts.caller(place.accounts.make_token(place.accounts.add_user(name)))
    assert found is not None
    return found


def bundle(spec: dict[str, Any], files: dict[str, bytes | str] | None = None) -> bytes:
    """The bytes of a bundle."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("policy_spec.json", json.dumps(spec))
        for name, content in (files or {}).items():
            packed.writestr(name, content)
    return written.getvalue()


def upload(place: Place, caller: Caller, data: bytes, name: str = "some", season: str | None = None) -> Version:
    """A version in quarantine."""
    file = place.root / "sent.zip"
    file.write_bytes(data)
    upload_id, key = place.policies.start_upload(caller)
    sha256 = hash_file(file)
    place.shelf.put(f"bundles/{sha256}.zip", file)
    place.policies.receive(upload_id, key, len(data), sha256)
    return place.policies.complete(upload_id, caller, name, season)


@pytest.fixture
def worker(place: Place) -> Worker:
    return Worker(place, lease_seconds=5, idle_seconds=0.01)


@pytest.fixture
def serve(place: Place) -> Iterator[Callable[..., Client]]:
    """Clients of a server that is asked without a network."""
    from fastapi.testclient import TestClient

    app = whole_app(place, place.root.parent, FREE)
    http = TestClient(app, base_url="http://arena")

    def client(token: str | None = None) -> Client:
        made = Client("http://arena", token)
        own: Any = TestClient(app, base_url="http://arena", headers={"X-Auth-Token": token} if token else {})
        made._http = own
        return made

    yield client
    http.close()


class Arena:
    """`rewardlab arena serve` in a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.token = ""
        self.start()

    def start(self) -> None:
        words = [sys.executable, "-m", "rewardlab.cli.app", "arena", "serve", "--root", str(self.root), "--port", "0"]
        log = self.root.parent / "log"
        with log.open("w") as stderr:
            self.process = subprocess.Popen(words, stderr=stderr, start_new_session=True)
        while "Serving at " not in (said := log.read_text()):
            assert self.process.poll() is None, said
            time.sleep(0.05)
        self.token = found[0] if (found := re.findall(r"rl_\S+", said)) else self.token
        self.url = re.findall(r"Serving at (\S+)", said)[0]

    def workers(self) -> list[int]:
        """The processes of its workers."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]

    def kill(self, number: int) -> int:
        """A signal to the server alone; how it ended."""
        os.kill(self.process.pid, number)
        return self.process.wait(60)


def fall_silent(place: Place) -> None:
    """As if every lease had run out: whoever holds one has not been heard of for too long."""
    with place.database.write() as session:
        session.execute(update(Job).where(Job.status == "leased").values(until=time.time() - 1))


def _postgres_programs() -> Path | None:
    """PostgreSQL's server programs, which stand outside the path on Debian."""
    found = shutil.which("pg_ctl")
    if found is not None:
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL, started for the tests."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's programs (initdb, pg_ctl)")
    folder = Path(tempfile.mkdtemp(prefix="rewardlab-pg-", dir="/tmp"))
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to run as root
        folder.chmod(0o777)
        identity = {"user": 65534, "group": 65534, "extra_groups": []}

    def run(*words: str) -> None:
        subprocess.run([str(programs / words[0]), *words[1:]], check=True, capture_output=True, cwd="/tmp", **identity)

    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "arena", "--auth=trust", "--no-sync", "-E", "UTF8")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    run("pg_ctl", "-D", data, "-l", str(folder / "log"), "-o", options, "-w", "start")
    try:
        yield f"postgresql://arena@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
