"""A control group for one sandbox: real memory and processes of all that runs in it, bounded together."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
# version 2 has one tree, version 1 one for memory and one for processes
FILES_V2 = {"memory": "memory.max", "processes": "pids.max", "swap": "memory.swap.max"}
FILES_V1 = {"memory": "memory.limit_in_bytes", "processes": "pids.max", "swap": "memory.memsw.limit_in_bytes"}
V1_TREES = {"memory": "memory", "processes": "pids", "swap": "memory"}


@dataclass
class Group:
    """The folders of a group, one per tree."""

    folders: tuple[Path, ...]

    @classmethod
    def make(cls, memory: int, processes: int) -> Group | None:
        """A new group with these bounds; None where none can be made, as for most users who are not root."""
        bounds = {"memory": memory, "processes": processes}
        parents = _parents()
        if parents is None:
            return None
        name = f"rewardlab-{uuid.uuid4().hex[:12]}"
        folders = {tree: parent / name for tree, parent in parents.items()}
        group = cls(tuple(dict.fromkeys(folders.values())))
        try:
            for folder in group.folders:
                folder.mkdir()
            files = FILES_V2 if "all" in folders else FILES_V1
            for what, bound in bounds.items():
                (folders.get("all") or folders[V1_TREES[what]]).joinpath(files[what]).write_text(str(bound))
            with contextlib.suppress(OSError):  # a kernel without accounting of swap has no such file
                swap = "0" if "all" in folders else str(memory)
                (folders.get("all") or folders["memory"]).joinpath(files["swap"]).write_text(swap)
        except OSError:
            group.close()
            return None
        return group

    def joined(self, words: Sequence[str]) -> list[str]:
        """A command that puts itself into the group first."""
        enter = "; ".join(f"echo $$ > {shlex.quote(str(folder / 'cgroup.procs'))}" for folder in self.folders)
        return ["/bin/sh", "-ec", f'{enter}; exec "$@"', "sh", *words]

    def out_of_memory(self) -> bool:
        """Whether the kernel has ended something in here for its memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    lines = (folder / name).read_text().splitlines()
                    if any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in lines):
                        return True
        return False

    def close(self) -> None:
        """Remove the folders; what still runs inside is ended first."""
        for folder in self.folders:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    for line in (folder / "cgroup.procs").read_text().split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(line), 9)
                with contextlib.suppress(FileNotFoundError):
                    try:
                        folder.rmdir()
                    except OSError:
                        time.sleep(0.02)
                        continue
                break


@cache
def _parents() -> dict[str, Path] | None:
    """Where groups can be made, by tree; tried once."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = {line.split(":", 2)[1]: line.split(":", 2)[2].lstrip("/") for line in lines}
    candidates: list[dict[str, Path]] = [{"all": ROOT / own.get("", "")}]
    if "memory" in own and "pids" in own:
        candidates.append({tree: ROOT / tree / own[tree] for tree in ("memory", "pids")})
    for parents in candidates:
        if all(_usable(parent, tree) for tree, parent in parents.items()):
            for parent in parents.values():
                sweep(parent)
            return parents
    return None


def sweep(parent: Path, seconds: float = 3600.0) -> None:
    """Remove old groups with nobody in them: whoever made them was killed before it could."""
    for left in parent.glob("rewardlab-*"):
        with contextlib.suppress(OSError):  # somebody is in it
            if left.stat().st_mtime < time.time() - seconds:
                left.rmdir()


def _usable(parent: Path, tree: str) -> bool:
    """Whether a group with bounds can be made below a folder."""
    trial = parent / f"rewardlab-{uuid.uuid4().hex[:12]}"
    wanted = {"all": ("memory.max", "pids.max"), "memory": ("memory.limit_in_bytes",), "pids": ("pids.max",)}[tree]
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return all(os.access(trial / name, os.W_OK) for name in wanted)
    finally:
        trial.rmdir()
