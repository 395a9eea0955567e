"""A hub in an S3 bucket, Amazon's or anyone's; credentials where every S3 client looks for them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardlab.hub.manifest import BLOCK, Entry, HubError
from rewardlab.hub.store import Access, Source

WHOLE = 64 << 20  # up to here a file is sent in one piece, and its ETag is its MD5


class S3Store:
    """Objects below a prefix of a bucket."""

    def __init__(self, rest: str, access: Access) -> None:
        try:
            import boto3
            import botocore.config
            import botocore.exceptions
        except ImportError as error:
            raise HubError('s3:// needs: pip install "rewardlab[hub]"') from error
        self.bucket, _, self.prefix = rest.strip("/").partition("/")
        self.url = f"s3://{rest.strip('/')}"
        self.errors = botocore.exceptions
        options = {
            "retries": {"max_attempts": 5, "mode": "standard"},
            "s3": {"addressing_style": "path"} if access.endpoint else {},
            "request_checksum_calculation": "when_required",  # what every S3 understands, not Amazon's alone
            "response_checksum_validation": "when_required",
        }
        self.client: Any = boto3.Session().client(
            "s3", endpoint_url=access.endpoint, config=botocore.config.Config(**options)
        )

    def folders(self) -> list[str]:
        """The names of all run folders."""
        start = self._key("data/")
        found: set[str] = set()
        for page in self._pages(start, Delimiter="/"):
            found |= {p["Prefix"].removeprefix(start).rstrip("/") for p in page.get("CommonPrefixes", [])}
        return sorted(found)

    def files(self, prefix: str) -> dict[str, Entry]:
        """The objects below a prefix."""
        return {name: Entry(size, None) for name, (size, _) in self._objects(prefix).items()}

    def read(self, key: str) -> bytes | None:
        """A small object."""
        with self._told(f"read {key}"):
            try:
                return bytes(self.client.get_object(Bucket=self.bucket, Key=self._key(key))["Body"].read())
            except self.client.exceptions.NoSuchKey:
                return None

    def fetch(self, key: str, path: Path, offset: int) -> None:
        """Append the rest of an object."""
        with self._told(f"read {key}"):
            given = {"Range": f"bytes={offset}-"} if offset else {}
            body = self.client.get_object(Bucket=self.bucket, Key=self._key(key), **given)["Body"]
            with path.open("ab") as write:
                for block in body.iter_chunks(BLOCK):
                    write.write(block)

    def put(self, files: Mapping[str, Source], message: str) -> None:
        """In their order; an object whose ETag says that it is the same is not sent again."""
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(multipart_threshold=WHOLE, max_concurrency=4)
        with self._told("look"):
            there = self._etags(files)
        for key, source in files.items():
            if there.get(key) == _md5(source):
                continue
            with self._told(f"write {key}"):
                if isinstance(source, bytes):
                    self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=source)
                else:
                    self.client.upload_file(str(source), self.bucket, self._key(key), Config=config)

    def _etags(self, keys: Collection[str]) -> dict[str, str]:
        """The ETags of what is there already: one question for a file that comes alone, a list for each folder."""
        if len(keys) == 1:
            (key,) = keys
            try:
                found = self.client.head_object(Bucket=self.bucket, Key=self._key(key))
            except self.errors.ClientError as error:
                if error.response.get("Error", {}).get("Code") in ("404", "NoSuchKey", "NotFound"):
                    return {}
                raise
            return {key: _unquoted(found)}
        prefixes = sorted({"/".join(key.split("/")[:2]) for key in keys})
        return {f"{p}/{name}": etag for p in prefixes for name, (_, etag) in self._objects(p).items()}

    def link(self, folder: str) -> str:
        """Its URL."""
        return f"{self.url}/data/{folder}"

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    def _pages(self, start: str, **given: str) -> Iterator[Any]:
        with self._told("list"):
            yield from self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start, **given)

    def _objects(self, prefix: str) -> dict[str, tuple[int, str]]:
        start = self._key(prefix.rstrip("/") + "/")
        rows = [row for page in self._pages(start) for row in page.get("Contents", [])]
        return {row["Key"].removeprefix(start): (int(row["Size"]), _unquoted(row)) for row in rows}

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """The client's errors as one sentence of ours."""
        try:
            yield
        except self.errors.NoCredentialsError as error:
            raise HubError(
                f"{self.url} asks who you are: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (.env will do)"
            ) from error
        except self.errors.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "?")
            raise HubError(f"{self.url} refuses to {doing}: {code}") from error
        except (self.errors.BotoCoreError, OSError) as error:
            raise HubError(f"{self.url} cannot {doing}: {error}") from error


def _unquoted(row: Mapping[str, Any]) -> str:
    return str(row["ETag"]).strip('"')


def _md5(source: Source) -> str:
    """What the ETag of an object sent in one piece is."""
    found = hashlib.md5(usedforsecurity=False)
    if isinstance(source, bytes):
        found.update(source)
    else:
        with source.open("rb") as file:
            while block := file.read(BLOCK):
                found.update(block)
    return found.hexdigest()
