"""A process that a stranger's code may have: bubblewrap around it, no network, nothing of ours in sight, hard limits.

As root the process gets a uid of its own, by `setpriv` inside; else it keeps ours, in a user namespace that it cannot
leave. Memory and processes are bounded by a cgroup where one can be made, and by rlimits everywhere.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rewardlab
from rewardlab.arena import seccomp
from rewardlab.arena.cgroups import Group

FIRST_UID = 1 << 30  # far from everybody's
MOST_LOG = 64 << 10
PLACE = "/bundle"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives")
SETTINGS = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
SETTINGS |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PYTHON = (sys.executable, "-I", "-B")
TRIED = "import rewardlab.cogs.policies.make, rewardlab.arena.match.runner"  # all that has to be in sight
_numbers = itertools.count()


@dataclass(frozen=True)
class Limits:
    """What a sandbox may use."""

    memory: int = 2 << 30  # of addresses, per process; a cgroup holds all of them together to as much real memory
    cpu_seconds: int = 600
    file_bytes: int = 16 << 20
    open_files: int = 64
    processes: int = 32  # threads count
    scratch: int = 64 << 20  # what fits into its /tmp, which is memory


class SandboxError(Exception):
    """The process in the sandbox has ended, or does not answer."""


def printable(said: bytes | bytearray) -> str:
    """What a stranger's code says, without what would drive a terminal or what no database takes."""
    text = bytes(said).decode(errors="replace")
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)


def problems() -> list[str]:
    """Why strangers' code cannot be held here; an empty list if it can."""
    return list(_problems())


@cache
def _problems() -> tuple[str, ...]:
    if sys.platform != "linux":
        return ("strangers' code is held by bubblewrap, which needs Linux",)
    found = [f"{name} is not installed ({package})" for name, package in _needed() if shutil.which(name) is None]
    if found:
        return tuple(found)
    for what, words in (
        ("bubblewrap cannot make a sandbox", ["/usr/bin/id", "-u"]),
        ("Python cannot play in a sandbox", [*PYTHON, "-c", TRIED]),
    ):
        with held(Path(__file__).parent, words) as (inside, files):
            tried = subprocess.run(inside, capture_output=True, text=True, check=False, pass_fds=files)
        if tried.returncode:
            return (f"{what}: {(tried.stderr.strip() or 'no reason given').splitlines()[-1]}",)
        if tried.stdout.strip() == "0":
            return ("the sandbox would run as root",)
    return ()


def _needed() -> list[tuple[str, str]]:
    return [("bwrap", "bubblewrap")] + ([("setpriv", "util-linux")] if os.geteuid() == 0 else [])


@contextlib.contextmanager
def held(bundle: Path, words: Sequence[str], scratch: int = Limits.scratch) -> Iterator[tuple[list[str], list[int]]]:
    """(the command that runs words in a sandbox, files that it needs open): our paths stand in no command line."""
    with contextlib.ExitStack() as files:
        options = _options(bundle, scratch)
        rules = files.enter_context(_in_memory(seccomp.program() or b""))
        if seccomp.program() is not None:
            options += ["--seccomp", str(rules)]
        told = files.enter_context(_in_memory(b"".join(option.encode() + b"\0" for option in options)))
        yield ["bwrap", "--args", str(told), "--", *_dropped(), *words], [told, rules]


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    """An open file that has no name."""
    descriptor = os.memfd_create("sandbox")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _options(bundle: Path, scratch: int) -> list[str]:
    """What bubblewrap unshares and shows."""
    options = ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    options += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    ours = dict.fromkeys((sys.base_prefix, sys.prefix, str(Path(rewardlab.__file__).parent)))
    in_memory = ["--perms", "1777", "--size", str(scratch), "--tmpfs"]
    options += [*in_memory, "/tmp"]  # before our own trees: they may lie there
    for folder in _above([*SYSTEM, *ours]):
        options += ["--perms", "0755", "--dir", folder]  # else they would be root's alone
    for place in SYSTEM:
        options += _seen(place)
    for tree in ours:
        options += ["--ro-bind", tree, tree]
    options += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", *in_memory, "/dev/shm"]
    options += ["--ro-bind", str(bundle.resolve()), PLACE, "--remount-ro", "/", "--chdir", "/tmp"]
    for name, value in SETTINGS.items():
        options += ["--setenv", name, value]
    options += ["--cap-drop", "ALL"]
    if os.geteuid() != 0:
        return [*options, "--unshare-user", "--disable-userns"]
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):  # for `setpriv`, which gives them up
        options += ["--cap-add", capability]
    return options


def uids() -> range:
    """The uids that sandboxes of this process get, as root: nobody else's."""
    first = FIRST_UID + (os.getpid() % (1 << 22)) * 64
    return range(first, first + 64)


def _dropped() -> list[str]:
    """As root: the words that leave root for good, for a uid whose processes are counted alone."""
    if os.geteuid() != 0:
        return []
    uid = str(uids()[next(_numbers) % len(uids())])
    words = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
    return [*words, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]


def _above(places: Sequence[str]) -> list[str]:
    """The folders that lead to some places, the outermost first."""
    found = {str(folder) for place in places for folder in Path(place).parents if str(folder) not in ("/", *SYSTEM)}
    return sorted(folder for folder in found if not folder.startswith("/usr/"))


def _seen(place: str) -> list[str]:
    """A part of the system, read-only; a link stays one."""
    path = Path(place)
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), place]
    return ["--ro-bind", place, place] if path.exists() else []


class Sandbox:
    """A running process with pipes to it. What it says on standard error is its log, as far as that fits."""

    def __init__(self, bundle: Path, words: Sequence[str], limits: Limits) -> None:
        self.limits = limits
        self._group = Group.make(limits.memory, limits.processes)
        with held(bundle, words, limits.scratch) as (inside, files):
            self.process = subprocess.Popen(
                inside if self._group is None else self._group.joined(inside),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=files,
                bufsize=0,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
            )
        self._log = bytearray()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        while chunk := stream.read(1 << 16):
            if (room := MOST_LOG - len(self._log)) > 0:
                self._log += chunk[:room]

    @property
    def log(self) -> str:
        """What it printed."""
        return printable(self._log)

    def write(self, data: bytes, seconds: float) -> None:
        """Give it bytes, as fast as it takes them."""
        assert self.process.stdin is not None
        descriptor, deadline, view = self.process.stdin.fileno(), time.monotonic() + seconds, memoryview(data)
        os.set_blocking(descriptor, False)
        while view:
            if not select.select([], [descriptor], [], max(deadline - time.monotonic(), 0))[1]:
                raise SandboxError(f"it took nothing in for {seconds:g} seconds")
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise SandboxError(self._ended()) from error

    def read(self, count: int, seconds: float) -> bytes:
        """Exactly so many bytes of what it answers."""
        assert self.process.stdout is not None
        descriptor, deadline, found = self.process.stdout.fileno(), time.monotonic() + seconds, bytearray()
        while len(found) < count:
            if not select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise SandboxError(f"it gave no answer in {seconds:g} seconds")
            part = os.read(descriptor, count - len(found))
            if not part:
                raise SandboxError(self._ended())
            found += part
        return bytes(found)

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        code = self.process.returncode
        if excess := self.excess():
            return excess
        signals = {128 + number: number for number in (signal.SIGKILL, signal.SIGXCPU, signal.SIGSEGV)}
        if code in signals or (code is not None and code < 0):
            number = signals.get(code, -code)
            return f"its process was ended by {signal.Signals(number).name}"
        return f"its process has ended with status {code}"

    def excess(self) -> str:
        """Whether any of its processes was stopped for the memory that all of them use together."""
        if self._group is None or not self._group.out_of_memory():
            return ""
        return f"it used more than {self.limits.memory >> 20} MiB of memory and was stopped"

    def close(self) -> None:
        """End it and everything that it started: with its first process goes its whole world."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(2)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._group is not None:
            self._group.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
