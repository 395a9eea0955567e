"""A hub in a folder: a disk, a mount, a share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rewardlab.files import atomic_writer
from rewardlab.hub.manifest import BLOCK, Entry, HubError
from rewardlab.hub.store import Source


class LocalStore:
    """Files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"file://{root}"

    def folders(self) -> list[str]:
        """The names of all run folders."""
        return sorted(
            path.name for path in (self.root / "data").glob("*") if path.is_dir() and not path.name.startswith(".")
        )

    def files(self, prefix: str) -> dict[str, Entry]:
        """The files below a prefix."""
        base = self.root / prefix
        found = [path for path in base.rglob("*") if path.is_file() and not path.name.endswith(".tmp")]
        return {path.relative_to(base).as_posix(): Entry(path.stat().st_size, None) for path in sorted(found)}

    def read(self, key: str) -> bytes | None:
        """A small file."""
        path = self.root / key
        return path.read_bytes() if path.is_file() else None

    def fetch(self, key: str, path: Path, offset: int) -> None:
        """Append the rest of a file."""
        source = self.root / key
        if not source.is_file():
            raise HubError(f"{self.url} holds no {key}")
        with source.open("rb") as read, path.open("ab") as write:
            read.seek(offset)
            while block := read.read(BLOCK):
                write.write(block)

    def put(self, files: Mapping[str, Source], message: str) -> None:
        """Each file whole or not at all, in their order."""
        for key, source in files.items():
            target = self.root / key
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_writer(target) as write:
                if isinstance(source, bytes):
                    write.write(source)
                    continue
                with source.open("rb") as read:
                    while block := read.read(BLOCK):
                        write.write(block)

    def link(self, folder: str) -> str:
        """Its path."""
        return str(self.root / "data" / folder)
