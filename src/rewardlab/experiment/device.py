"""What a trial runs on: the compilation cache, and the devices that its sessions are spread over."""

from __future__ import annotations

from pathlib import Path

import jax
from jax.sharding import Mesh

from rewardlab.envs.vector import available_cores as available_cores
from rewardlab.spec import SpecError

DEFAULT_CACHE = Path("~/.cache/rewardlab/xla")


def prepare(cache: Path | None = None) -> None:
    """Call once, before anything touches JAX: compiled programs are kept, and a CPU counts as one device per core.

    One program of small matrices keeps one core busy, however many there are; two programs keep two.
    """
    jax.config.update("jax_compilation_cache_dir", str((cache or DEFAULT_CACHE).expanduser()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    try:
        jax.config.update("jax_num_cpu_devices", available_cores())
    except RuntimeError:
        return  # JAX is running already, in a person's own program: then with the devices it has


def data_mesh(num_envs: int) -> Mesh:
    """All devices, each with an equal share of the environments."""
    devices = jax.devices()
    if num_envs % len(devices):
        raise SpecError(
            f"meta.distributed spreads env.num_envs, {num_envs}, over {len(devices)} devices: take a multiple of them"
        )
    return jax.make_mesh((len(devices),), ("data",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))


def session_mesh(sessions: int) -> Mesh:
    """As many devices of each process as divide its share of the sessions evenly."""
    processes = jax.process_count()
    if sessions % processes:
        raise SpecError(
            f"{processes} processes share the sessions of a trial, and meta.max_session is {sessions}: "
            "take a multiple of them"
        )
    own = [[d for d in jax.devices() if d.process_index == p] for p in range(processes)]
    count = max(n for n in range(1, min(map(len, own)) + 1) if sessions // processes % n == 0)
    devices = [device for each in own for device in each[:count]]
    kinds = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((len(devices),), ("sessions",), devices=devices, axis_types=kinds)
