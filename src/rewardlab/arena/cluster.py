"""The same workers on a Ray cluster."""

from __future__ import annotations

from typing import Any

from rewardlab.arena.errors import ArenaError
from rewardlab.arena.place import Place


def work_on_cluster(place: Place, address: str, count: int, lease: float, until_idle: bool) -> int:
    """`count` workers, a core each, until idle or for ever; how many jobs they did. `local` starts a cluster here."""
    try:
        import ray
    except ImportError as error:
        raise ArenaError('Working on a cluster needs Ray: pip install "rewardlab[remote]"') from error
    place.database.migrate()
    ours = not ray.is_initialized()
    if ours:
        ray.init(address, include_dashboard=False, log_to_driver=True)
    try:
        task: Any = ray.remote(num_cpus=1, max_retries=-1)(_work)
        where = (str(place.root.absolute()), place.database_url, place.shelf_url, place.access)
        return sum(ray.get([task.remote(where, lease, until_idle) for _ in range(count)]))
    finally:
        if ours:
            ray.shutdown()


def _work(where: tuple[Any, ...], lease: float, until_idle: bool) -> int:
    from pathlib import Path

    from rewardlab.arena.worker import Worker
    from rewardlab.experiment import device

    device.prepare()
    return Worker(Place(Path(where[0]), *where[1:]), lease_seconds=lease).run(until_idle)
