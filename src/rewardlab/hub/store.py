"""What a hub is to us: a place that keeps named files. One small contract; the URL says who fulfils it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rewardlab.hub.manifest import Entry, HubError

Source = Path | bytes


class Store(Protocol):
    """Files by keys such as `data/FOLDER/info/table.csv`."""

    url: str

    def folders(self) -> list[str]:
        """The names of all run folders."""

    def files(self, prefix: str) -> dict[str, Entry]:
        """The files below a prefix, by the rest of their keys."""

    def read(self, key: str) -> bytes | None:
        """A small file, or None if there is none."""

    def fetch(self, key: str, path: Path, offset: int) -> None:
        """Append what a file holds from an offset on to a local file."""

    def put(self, files: Mapping[str, Source], message: str) -> None:
        """Keep files, in their order; one that is there and the same is not sent again."""

    def link(self, folder: str) -> str:
        """Where a person finds a run folder."""


@dataclass(frozen=True)
class Access:
    """What a hub may ask for; the command line reads it from the environment."""

    token: str | None = None
    endpoint: str | None = None  # of an S3 or a Hugging Face other than the public one


def open_store(url: str, access: Access | None = None) -> Store:
    """The hub of a URL: file://FOLDER, s3://BUCKET/PREFIX, hf://USER/REPO."""
    kind, separator, rest = url.partition("://")
    access = access or Access()
    if not separator or not rest:
        raise HubError(f"{url!r} is no hub: the form is file://FOLDER, s3://BUCKET/PREFIX or hf://USER/REPO")
    if kind == "file":
        from rewardlab.hub.local import LocalStore

        return LocalStore(Path(rest).expanduser())
    if kind == "s3":
        from rewardlab.hub.s3 import S3Store

        return S3Store(rest, access)
    if kind == "hf":
        from rewardlab.hub.huggingface import HuggingFaceStore

        return HuggingFaceStore(rest, access)
    raise HubError(f"{kind}:// is no hub that is known here: there are file://, s3:// and hf://")
