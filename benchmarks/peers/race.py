"""Runs one contestant once: as one process, or as several whose clocks start together after their warm-ups."""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

TIME_LIMIT = 1800.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class ContestantError(Exception):
    """A contestant's process ended without its JSON line."""


def run_one_program(command: list[str]) -> dict[str, Any]:
    """All its sessions are in it, and so are all the cores, if it knows how to use them."""
    return combined(_race([command], environment=dict(os.environ)))


def run_processes(commands: list[list[str]]) -> dict[str, Any]:
    """One PyTorch thread each: several fill the cores together, and for one alone, beside other work on the machine,
    two spinning threads were seen to cost a factor of 30."""
    barrier = ["--barrier"] if len(commands) > 1 else []
    together = [[*command, "--threads", "1", *barrier] for command in commands]
    return combined(_race(together, environment=dict(os.environ) | ONE_THREAD))


def combined(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """All frames over the wall time of the slowest; `frames` and `updates` in a line are those of one session."""
    seconds = max(line["seconds"] for line in lines)
    return {
        "fps": sum(line["frames"] * line["sessions"] for line in lines) / seconds,
        "updates_per_second": sum(line["updates"] * line["sessions"] for line in lines) / seconds,
        "seconds": seconds,
        "warmup_seconds": max(line["warmup_seconds"] for line in lines),
        "processes": lines,
    }


def _race(commands: list[list[str]], environment: dict[str, str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryFile("w+") as errors, _started(commands, environment, errors) as processes:
        watchdog = threading.Timer(TIME_LIMIT, lambda: [process.kill() for process in processes])
        watchdog.daemon = True
        watchdog.start()
        try:
            if len(processes) > 1:
                _start_clocks(processes, errors)
            return [_json_line(process, errors) for process in processes]
        finally:
            watchdog.cancel()


@contextmanager
def _started(
    commands: list[list[str]], environment: dict[str, str], errors: IO[str]
) -> Iterator[list[subprocess.Popen[str]]]:
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment)
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _start_clocks(processes: list[subprocess.Popen[str]], errors: IO[str]) -> None:
    for process in processes:
        if process.stdout.readline().strip() != "READY":
            raise _failure(process, errors)
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def _json_line(process: subprocess.Popen[str], errors: IO[str]) -> dict[str, Any]:
    last = ""
    for line in process.stdout:
        last = line if line.strip() else last
    if process.wait() != 0 or not last.startswith("{"):
        raise _failure(process, errors)
    return json.loads(last)


def _failure(process: subprocess.Popen[str], errors: IO[str]) -> ContestantError:
    process.kill()
    process.wait()
    errors.seek(0)
    said = errors.read().strip().splitlines() or ["nothing on stderr"]
    return ContestantError(f"exit status {process.returncode}: {said[-1]}")
