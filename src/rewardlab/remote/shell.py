"""Jobs in a shell: on this machine, or on another one through ssh. The same commands in both."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from rewardlab.remote.job import Handle, Job, RemoteError, State

PATIENCE = 60.0  # seconds for one command
GRACE = 40  # seconds between asking a job to stop and killing it: a checkpoint takes a while
# the script runs in a session of its own, so that it outlives the connection and can be stopped as a whole
START = """mkdir -p {folder} && cd {folder} && umask 077 && cat > job.sh && rm -f exit && : > log
(setsid sh -c 'trap : TERM; sh job.sh >> log 2>&1; echo $? > exit' > /dev/null 2>&1 < /dev/null & echo $! > pid)
"""
LOOK = """cd {folder} 2>/dev/null || {{ echo lost; exit 0; }}
if [ -f exit ]; then echo exit $(cat exit); elif kill -0 $(cat pid) 2>/dev/null; then echo running; else echo lost; fi
"""
STOP = """cd {folder} && touch stopped && pid=$(cat pid) && kill -s TERM -- -$pid 2>/dev/null
for _ in $(seq {grace}); do kill -s 0 -- -$pid 2>/dev/null || exit 0; sleep 1; done
kill -s KILL -- -$pid 2>/dev/null; exit 0
"""
BUSY = """asked="--query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits"
command -v nvidia-smi > /dev/null && nvidia-smi $asked
cd {folder} && echo cpu $(ps -o pcpu= -g $(cat pid) 2>/dev/null | awk '{{s+=$1}} END {{print s+0}}')
"""


@dataclass(frozen=True)
class ShellRunner:
    """Runs jobs below a folder of a machine; without a host, of this one."""

    folder: str
    host: str | None = None
    port: int | None = None
    identity: str | None = None
    options: tuple[str, ...] = ()

    def expected(self, job: Job) -> Handle:
        """Its folder."""
        return {"folder": f"{self.folder}/{job.name}"}

    def submit(self, job: Job) -> Handle:
        """Start it in a folder of its own."""
        place = f"{self.folder}/{job.name}"
        exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in sorted(job.env.items()))
        self._run(START.format(folder=shlex.quote(place)), exports + job.script())
        return {"folder": place}

    def state(self, handle: Handle) -> State:
        """By the exit code that it leaves, or its process."""
        folder = shlex.quote(str(handle["folder"]))
        word, *code = self._run(LOOK.format(folder=folder)).split()
        if word != "exit":
            return State("running" if word == "running" else "lost")
        number = int(code[0]) if code else 1
        stopped = self._run(f"[ -f {folder}/stopped ] && echo yes || echo no").strip() == "yes"
        return State("done" if number == 0 else "stopped" if stopped else "failed", number)

    def logs(self, handle: Handle) -> str:
        """Its output."""
        return self._run(f"cat {shlex.quote(str(handle['folder']))}/log")

    def stop(self, handle: Handle) -> None:
        """SIGTERM to all of it; SIGKILL if it will not."""
        self._run(STOP.format(folder=shlex.quote(str(handle["folder"])), grace=GRACE), patience=PATIENCE + GRACE)

    def metrics(self, handle: Handle) -> Mapping[str, float]:
        """By ps and nvidia-smi."""
        found: dict[str, float] = {}
        for line in self._run(BUSY.format(folder=shlex.quote(str(handle["folder"])))).splitlines():
            if line.startswith("cpu "):
                found["cpu_percent"] = float(line.split()[1])
            elif "," in line:
                used, memory = (_number(x) for x in line.split(",")[:2])
                if used is not None:
                    found["gpu_percent"] = max(used, found.get("gpu_percent", 0.0))
                found["gpu_memory_mib"] = (memory or 0.0) + found.get("gpu_memory_mib", 0.0)
        return found

    def _run(self, script: str, given: str = "", patience: float = PATIENCE) -> str:
        """A script there; it fails as a sentence of ours."""
        words = ["sh", "-c", script]
        if self.host is not None:
            words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", *self.options]
            words += ["-p", str(self.port)] if self.port else []
            words += ["-i", self.identity] if self.identity else []
            words += [self.host, f"sh -c {shlex.quote(script)}"]
        where = self.host or "this machine"
        begun = time.monotonic()
        try:
            done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=patience, check=False)
        except FileNotFoundError as error:
            raise RemoteError(f"{words[0]} is not installed here") from error
        except subprocess.TimeoutExpired as error:
            raise RemoteError(f"{where} did not answer in {time.monotonic() - begun:.0f} seconds") from error
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise RemoteError(f"{where} refused: {said}")
        return done.stdout


def _number(text: str) -> float | None:
    """A cell of nvidia-smi: what a GPU cannot tell is `[N/A]` or `[Not Supported]`."""
    try:
        return float(text)
    except ValueError:
        return None
