"""What every contestant agrees on: the arguments it takes, when its clock starts, and the one JSON line it prints.

Standard library only, because it is imported in two different environments.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    peer: str
    task: str
    frames: int
    seed: int
    sessions: int
    threads: int | None
    devices: int
    barrier: bool


@dataclass(frozen=True)
class Measurement:
    frames: int
    seconds: float
    warmup_seconds: float
    updates: int
    return_last: float | None


def parse_request(peer: str, tasks: Sequence[str], can_hold_sessions: bool = False) -> Request:
    parser = argparse.ArgumentParser(description=f"{peer}: train one task, print one JSON line")
    parser.add_argument("--task", required=True, choices=tasks)
    parser.add_argument("--frames", type=int, required=True, help="frames of one session, after the warm-up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sessions", type=int, default=1, help="sessions inside this one process")
    parser.add_argument("--threads", type=int, default=None, help="threads for PyTorch (default: its own choice)")
    parser.add_argument("--devices", type=int, default=1, help="JAX CPU devices over which the sessions are laid")
    parser.add_argument("--barrier", action="store_true", help="after the warm-up print READY and wait for a line")
    request = Request(peer=peer, **vars(parser.parse_args()))
    if (request.sessions, request.devices) != (1, 1) and not can_hold_sessions:
        parser.error(f"{peer} trains one session per process; start several processes instead")
    if request.sessions % request.devices:
        parser.error("--sessions must be a multiple of --devices")
    return request


def wait_at_barrier(request: Request) -> None:
    """Several processes that are timed together start their clocks together, each with its warm-up behind it."""
    if request.barrier:
        print("READY", flush=True)
        sys.stdin.readline()


def report(request: Request, measured: Measurement, device: str, versions: dict[str, str]) -> None:
    line = {
        "peer": request.peer,
        "task": request.task,
        "sessions": request.sessions,
        "seed": request.seed,
        "threads": request.threads,
        "devices": request.devices,
        "frames": measured.frames,
        "seconds": measured.seconds,
        "warmup_seconds": measured.warmup_seconds,
        "fps": measured.frames * request.sessions / measured.seconds,
        "updates": measured.updates,
        "device": device,
        "versions": versions,
        "return_last": measured.return_last,
    }
    print(json.dumps(line), flush=True)
