"""What runs inside the sandbox: makes the stranger's policy and answers observations with actions, over two pipes.

The referee outside writes frames to our standard input and reads them from our standard output. Whatever the policy
prints goes to standard error. A frame is four bytes of length and its content; the first tells what to make.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO, Any

HEADER = struct.Struct("<I")
MOST_SAID = 4000


def limit(limits: dict[str, int]) -> None:
    """Bounds that nobody without privileges can raise again; children inherit them."""
    kinds = {
        "memory": resource.RLIMIT_AS,
        "cpu_seconds": resource.RLIMIT_CPU,
        "file_bytes": resource.RLIMIT_FSIZE,
        "open_files": resource.RLIMIT_NOFILE,
        "processes": resource.RLIMIT_NPROC,
    }
    for name, kind in kinds.items():
        resource.setrlimit(kind, (limits[name], limits[name]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_frame(stream: IO[bytes]) -> bytes:
    """The next frame; an EOFError when the referee is gone."""
    head = _exactly(stream, HEADER.size)
    return _exactly(stream, HEADER.unpack(head)[0])


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Say something to the other side."""
    stream.write(HEADER.pack(len(content)) + content)
    stream.flush()


def _exactly(stream: IO[bytes], count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def make(order: dict[str, Any]) -> Any:
    """The policy of the bundle that the order tells of."""
    from rewardlab.cogs.policies.api import ObservationFeatureSpec, ObservationSpace, PolicyEnvInterface
    from rewardlab.cogs.policies.bundle import read_bundle
    from rewardlab.cogs.policies.make import make_policy
    from rewardlab.cogs.policies.spec import PolicyRequest

    told = order["info"]
    info = PolicyEnvInterface(
        obs_features=[ObservationFeatureSpec(**feature) for feature in told["obs_features"]],
        tags=told["tags"],
        action_names=told["action_names"],
        num_agents=told["num_agents"],
        observation_space=ObservationSpace(tuple(told["shape"])),
        obs_width=told["obs_width"],
        obs_height=told["obs_height"],
    )
    bundle = read_bundle(Path(order["bundle"]))
    sys.path.insert(0, str(bundle.root))  # also for what the policy imports later
    if bundle.setup_script is not None:
        _set_up(bundle.setup_script)
    return make_policy(PolicyRequest(bundle.spec.class_path, bundle.spec, bundle=bundle), info, "cpu")


def _set_up(script: str) -> None:
    if script.endswith(".py"):
        runpy.run_path(script, run_name="__main__")
    else:
        subprocess.run(["/bin/sh", script], check=True, stdout=sys.stderr)


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Make the policy, then answer: an empty frame means a new episode, any other holds observations."""
    import numpy as np

    order = json.loads(read_frame(source))
    limit(order["limits"])
    shape = (-1, *order["info"]["shape"])
    try:
        policy = make(order)
    except BaseException as error:  # a stranger's code may raise anything
        write_frame(sink, _told(error))
        return
    write_frame(sink, b"")
    while True:
        seen = read_frame(source)
        try:
            if not seen:
                policy.reset()
                write_frame(sink, b"\0")
                continue
            observations = np.frombuffer(seen, np.uint8).reshape(shape)
            actions = np.zeros(len(observations), np.int32)
            policy.step_batch(observations.copy(), actions)
            write_frame(sink, b"\0" + np.asarray(actions, np.int32).tobytes())
        except BaseException as error:
            write_frame(sink, _told(error))


def _told(error: BaseException) -> bytes:
    traceback.print_exception(error, file=sys.stderr)
    first = (str(error).strip().splitlines() or [""])[0]
    named = first if type(error).__name__ == "CogsError" else f"{type(error).__name__}: {first}".removesuffix(": ")
    return b"\1" + named.encode(errors="replace")[:MOST_SAID]


def main() -> None:
    """Keep the pipes to ourselves, and give the policy a standard output that goes to the log."""
    source, sink = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        serve(source, sink)
    except (EOFError, BrokenPipeError):
        pass
    finally:
        sys.stderr.flush()
        os._exit(0)  # whatever threads and exit handlers the policy left behind


if __name__ == "__main__":
    main()
