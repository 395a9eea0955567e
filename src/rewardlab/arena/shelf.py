"""Where bundles and replays lie: a folder, or a bucket by its URL. One name, one content, for ever."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Protocol

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.hub.manifest import HubError
from rewardlab.hub.store import Access, Store, open_store


class Shelf(Protocol):
    """A few verbs that a folder and a bucket share."""

    def put(self, name: str, file: Path) -> None:
        """Keep a file under a name."""

    def get(self, name: str) -> Path:
        """The file of a name, on this machine."""


def shelf_at(url: str, cache: Path, access: Access | None = None) -> Shelf:
    """A shelf by its URL: a folder, or a hub as s3://BUCKET/PREFIX."""
    if "://" not in url or url.startswith("file://"):
        return FolderShelf(Path(url.removeprefix("file://")))
    try:
        return HubShelf(open_store(url, access), cache)
    except HubError as error:
        raise ArenaError(f"{error}.") from error


def hash_file(file: Path) -> str:
    """The name that a bundle goes by."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class FolderShelf:
    """Files in a folder; a file takes its name once it is whole."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, file: Path) -> None:
        """Keep a file under a name; it is moved where that can be done."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.replace(target)
        except OSError:  # from another disk
            part = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
            part.write_bytes(file.read_bytes())
            part.replace(target)

    def get(self, name: str) -> Path:
        """The file itself."""
        path = self.root / name
        if not path.is_file():
            raise missing("file", name)
        return path


class HubShelf:
    """Files of a hub, such as a bucket, with copies here of what was asked for."""

    def __init__(self, store: Store, cache: Path) -> None:
        self.store, self.cache = store, FolderShelf(cache)

    def put(self, name: str, file: Path) -> None:
        """Keep a file under a name."""
        try:
            self.store.put({name: file}, name)
        except HubError as error:
            raise ArenaError(f"{error}.", 503) from error
        self.cache.put(name, file)

    def get(self, name: str) -> Path:
        """A copy on this machine."""
        path = self.cache.root / name
        if not path.is_file():
            part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            part.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.store.fetch(name, part, 0)
            except HubError as error:
                part.unlink(missing_ok=True)
                raise ArenaError(str(error), 404) from error
            part.replace(path)
        return path
