"""`rewardlab run --coordinator …`: one training in several processes, of which process 0 keeps the record."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rewardlab.spec import Spec, SpecError, dump, from_dict

if TYPE_CHECKING:
    from rewardlab.experiment.record import RunFolder


@dataclass(frozen=True)
class Place:
    """Where this process stands among the others; what is None is found out by JAX."""

    coordinator: str | None
    processes: int | None
    process: int | None

    @classmethod
    def of(cls, coordinator: str | None, processes: int | None, process: int | None) -> Self | None:
        """As the options say; None where none was given, which is one process."""
        if coordinator is None:
            if processes is not None or process is not None:
                raise SpecError("--processes and --process need --coordinator HOST:PORT, where process 0 listens")
            return None
        if coordinator == "auto":
            return cls(None, processes, process)
        host, _, port = coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise SpecError(f"--coordinator is {coordinator!r}, expected HOST:PORT, or auto")
        if processes is None or process is None or not 0 <= process < processes:
            raise SpecError("--coordinator HOST:PORT needs --processes N and --process I, with I from 0 to N - 1")
        return cls(coordinator, processes, process)


GONE = "another of the processes is gone, so this one stops: train@latest goes on from the last checkpoint"


@contextmanager
def joined(place: Place | None, what: Sequence[str]) -> Iterator[bool]:
    """As one of several processes, if there is a place: whether this one leads. The others follow here."""
    if place is None:
        yield True
        return
    from rewardlab.cli.run import cache_folder, split
    from rewardlab.experiment import device, hosts

    kind = split(what)[1].partition("@")[0]
    if kind != "train":
        raise SpecError(f"--coordinator belongs to the mode train: {kind} is one process")
    device.prepare(cache_folder())
    over: list[int] = []  # the exit status, once nothing is left to do with the others
    quiet = "--debug" not in sys.argv
    if quiet:
        keep_native_logs_away()
        told_in_a_sentence(over)
    hosts.join(place.coordinator, place.processes, place.process)
    try:
        with hosts.together():
            leading = hosts.leads()
            if not leading:
                follow()
            yield leading
            over.append(0)  # from here on a process that is gone has gone home
            hosts.anyone(False)
    except hosts.HostsError:
        if not quiet:
            raise
        leave(over)
    except SystemExit as stop:
        over.append(int(stop.code or 0))
        raise
    except Exception:
        over.append(1)  # what went wrong here is told here
        raise


def leave(over: list[int]) -> None:
    """At once: the way out that JAX has waits for the process that is gone."""
    if not over:
        print(f"rewardlab: {GONE}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(over[0] if over else 1)


def keep_native_logs_away() -> None:
    """What is not written by Python, such as the chatter of the processes' network, goes nowhere."""
    sys.stdout.flush()
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", buffering=1) for number in (1, 2))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)


def told_in_a_sentence(over: list[int]) -> None:
    """A process that cannot reach process 0 any more is ended by JAX with abort(), from a thread of its own, where no
    handler of Python's is asked."""
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: leave(over))
    told_in_a_sentence.kept = handler  # type: ignore[attr-defined]  # for as long as the process lives
    ctypes.CDLL(None).signal(signal.SIGABRT, handler)


def announce(spec: Spec, folder: RunFolder | None = None) -> None:
    """Tell the other processes what is trained, and how far it is; before anything is compiled for all of them."""
    from rewardlab.experiment import hosts

    if not hosts.alone():
        hosts.tell(json.dumps({"name": spec.name, "spec": dump(spec), "resume": folder is not None}).encode())
        if folder is not None:
            hosts.tell_file(folder.checkpoint_path)


def follow() -> None:
    """What a process other than 0 does: the same training, and no record of it."""
    from rewardlab.cli.run import Interrupted, stoppable
    from rewardlab.experiment import hosts
    from rewardlab.experiment.record import RunFolder
    from rewardlab.experiment.trial import Trial, run_trial

    told = json.loads(hosts.tell())
    spec = from_dict(told["spec"], told["name"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder.create(spec.name, Path(temporary))
        if told["resume"]:
            hosts.tell_file(folder.checkpoint_path)
        trial = Trial.restore(spec, folder)
        with stoppable() as asked:
            if run_trial(trial, folder, lambda *_: not asked) is None:
                raise Interrupted(128 + (asked or [signal.SIGTERM])[0])
