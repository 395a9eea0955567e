"""Several processes as one machine, through `jax.distributed`: who writes, what all agree on, how parts become whole.

Every process runs the same Python; each holds a share of the sessions, or of the environments, on a mesh of all their
devices. Process 0 leads: it alone keeps the record, and its clock says how long a chunk is and when to save. With one
process everything here is the value itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

MISSING = 60  # seconds without a sign of life after which a process counts as gone
LARGE = 2**24  # numbers in an array that is exchanged by itself
ARRIVAL = 300  # seconds in which all have to arrive


class HostsError(RuntimeError):
    """Processes that do not work together, in one sentence."""


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Become one of `processes`; what is None is taken from what started them (Slurm, Open MPI, Kubernetes)."""
    jax.config.update("jax_enable_recoverability", True)  # a lost process is an error here, not the end of this one
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=ARRIVAL,
            heartbeat_timeout_seconds=MISSING,
            cluster_detection_method="deactivate" if None not in (coordinator, processes, process) else None,
        )
    except ValueError as error:
        raise HostsError(
            f"nothing says where the processes meet ({error}): --coordinator HOST:PORT --processes N --process I"
        ) from error
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise HostsError(f"process {process} did not reach the others at {coordinator}: {reason}") from error


def count() -> int:
    """How many processes there are."""
    return int(jax.process_count())


def alone() -> bool:
    """Whether there is one process."""
    return count() == 1


def leads() -> bool:
    """Whether this is process 0, which writes."""
    return int(jax.process_index()) == 0


def leaders(value: int) -> int:
    """The value that process 0 has."""
    return value if alone() else int(_all(value)[0])


def anyone(flag: bool) -> bool:
    """Whether any process says so."""
    return flag if alone() else bool(_all(int(flag)).any())


def _all(value: int) -> np.ndarray[Any, Any]:
    """The value of each process."""
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(np.asarray(value, np.int32)))


def tell(data: bytes = b"") -> bytes:
    """What process 0 gives, in every process, byte for byte."""
    if alone():
        return data
    from jax.experimental import multihost_utils

    buffer = np.zeros(leaders(len(data)), np.uint8)
    if leads():
        buffer[:] = np.frombuffer(data, np.uint8)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(buffer)))


def tell_file(path: Path) -> None:
    """A file that process 0 has, at a path of their own in the others; none where it has none."""
    content = tell(bytes([1]) + path.read_bytes() if leads() and path.exists() else b"")
    if content and not leads():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[1:])


def spread(tree: Any, where: Any) -> Any:
    """Arrays that every process holds, each keeping its share of them; `where` is a sharding, or one per leaf."""
    if alone():
        return jax.device_put(tree, where)
    each = jax.tree.map(lambda _: where, tree) if isinstance(where, NamedSharding) else where
    return jax.tree.map(_spread, tree, each)


def _spread(leaf: Any, where: NamedSharding) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        kind = jax.random.key_impl(leaf)
        return jax.random.wrap_key_data(_spread(jax.random.key_data(leaf), where), impl=kind)
    held = np.asarray(leaf)
    return jax.make_array_from_callback(held.shape, where, lambda index: held[index])


def whole(tree: Any) -> Any:
    """Arrays of which each process holds a share, as every process needs them to look at or to write down. Many at a
    time, for each exchange is a program to compile; large ones alone, for each device holds what is exchanged."""
    if alone():
        return tree
    leaves, structure = jax.tree.flatten(tree)
    shared = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array) and not x.is_fully_addressable]
    small = [i for i in shared if leaves[i].size <= LARGE]
    for group in [small, *([i] for i in shared if leaves[i].size > LARGE)] if shared else ():
        everywhere = NamedSharding(leaves[shared[0]].sharding.mesh, PartitionSpec())
        exchanged = jax.jit(_plain, out_shardings=everywhere)([leaves[i] for i in group])
        for i, data in zip(group, exchanged, strict=True):
            leaves[i] = _as_it_was(np.asarray(data.addressable_data(0)), leaves[i])
    return jax.tree.unflatten(structure, leaves)


def _plain(leaves: list[Any]) -> list[Any]:
    """Keys as their words, the rest as it is."""
    return [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in leaves]


def _as_it_was(data: Any, leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    return data


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is run with the others: one of them that is lost is an error of ours."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        lost = any(word in str(error) for word in ("Gloo", "NCCL", "coordination service", "Socket closed"))
        if alone() or not lost:
            raise
        reason = str(error).splitlines()[0]
        raise HostsError(f"another of the {count()} processes is gone, so this one stops: {reason}") from error
