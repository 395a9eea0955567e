"""What makes a folder whole: every file of it with its size and SHA-256, in one file that travels last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "manifest.json"
FORMAT = "rewardlab-hub-1"
SKIPPED = ("plotly.min.js", "lock", NAME)  # a library of 4 MB, a lock of this machine, the manifest itself
BLOCK = 1 << 20


class HubError(RuntimeError):
    """A transfer that cannot be done, said in one sentence."""


@dataclass(frozen=True)
class Entry:
    """A file as it should be; one that was published without a manifest may have no SHA-256."""

    size: int
    sha256: str | None


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def scan(folder: Path) -> dict[str, Entry]:
    """The files of a run folder that are worth sharing."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    shared = [p for p in paths if p.name not in SKIPPED and not p.name.endswith(".tmp") and "ray" not in p.parts[:-1]]
    return {p.relative_to(folder).as_posix(): Entry(p.stat().st_size, digest(p)) for p in shared}


def encode(entries: Mapping[str, Entry]) -> bytes:
    """The manifest as the bytes of a file; the same for the same files."""
    files = {name: {"size": e.size, "sha256": e.sha256} for name, e in sorted(entries.items())}
    return (json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n").encode()


def decode(data: bytes, where: str) -> dict[str, Entry]:
    """The entries of a manifest; names that would leave the folder are refused."""
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise ValueError(content["format"])
        entries = {str(n): Entry(int(e["size"]), str(e["sha256"])) for n, e in content["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HubError(f"{where} is damaged: it is no manifest of a run; push the run again") from error
    for name in entries:
        check_name(name, where)
    return entries


def check_name(name: str, where: str) -> None:
    """A file stays below the folder that it belongs to."""
    if name.startswith("/") or "\\" in name or ".." in Path(name).parts or not name:
        raise HubError(f"{where} names the file {name!r}, which would lie outside the folder: it is refused")


def fault(path: Path, entry: Entry) -> str | None:
    """What is wrong with a file, if anything."""
    if not path.exists():
        return "it is missing"
    size = path.stat().st_size
    if size != entry.size:
        return f"it has {size} bytes of {entry.size}"
    if entry.sha256 is not None and digest(path) != entry.sha256:
        return "its bytes do not match its SHA-256"
    return None
