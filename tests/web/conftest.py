"""An arena that is served on a port, for a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from tests.arena.conftest import FREE, QUICK, bundle, person, upload

from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.worker import Worker
from rewardlab.web.app import whole_app

LONG = "the-longest-name-that-a-policy-can-have-and-it-must-not-break-it"  # 64 letters


class Served:
    """An app on a port of this machine."""

    def __init__(self, place: Place, data: Path) -> None:
        self.place = place
        config = uvicorn.Config(whole_app(place, data, FREE), "127.0.0.1", 0, log_config=None, lifespan="off")
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()
        while not self.server.started:
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join()


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An arena with a season that has been played."""
    place = Place(tmp_path_factory.mktemp("web") / "arena")
    place.set_up()
    place.seasons.add(read_season(QUICK))
    alice = person(place, "alice")
    for name, spec in (("crew", {"class_path": "role"}), (LONG, {"class_path": "noop"})):
        upload(place, alice, bundle(spec), name, "quick")
    Worker(place, idle_seconds=0.01).run(until_idle=True)
    yield place
    place.database.close()


@pytest.fixture(scope="session")
def site(played: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(played, tmp_path_factory.mktemp("data"))
    yield served
    served.close()
