"""Files written whole or not at all, and the one error of everything that reads or writes a run."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class RecordError(Exception):
    """A run that cannot be written or read, said in one sentence that names the file and what to do."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def record_error(path: Path, error: OSError, doing: str = "write") -> RecordError:
    """The sentence for an operating-system error."""
    if error.errno in _FULL:
        return RecordError(
            f"The disk is full: {path} was not written, and what was there before is untouched; free space and resume."
        )
    if error.errno in _FORBIDDEN:
        return RecordError(f"No permission to {doing} {path}: make the folder {path.parent} accessible to this user.")
    if error.errno == errno.ENOENT and doing == "read":
        return RecordError(f"There is no file {path}.")
    return RecordError(f"Could not {doing} {path}: {error.strerror or error}.")


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name only once every byte of it is on the disk; on any failure the old file stays."""
    temporary = _temporary(path)
    try:
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise record_error(path, error) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; some network file systems refuse it, and the file itself is already safe."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_writer(path) as file:
        file.write(data)


def write_text_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 file whole or not at all."""
    write_bytes_atomic(path, text.encode())


def read_text(path: Path) -> str:
    """A UTF-8 file, or one sentence why not."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise record_error(path, error, "read") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is damaged: it is not UTF-8 text; restore it or run again.") from error


def sweep_temporaries(folder: Path) -> None:
    """Remove what a killed writer left behind; only the holder of the run's lock may do so, and it leaves the graphs
    alone: they are drawn by a process that needs no lock."""
    for leftover in folder.rglob(".*.tmp"):
        if leftover.parent.name != "graph":
            leftover.unlink(missing_ok=True)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Strict JSON, atomically: numpy becomes plain numbers and lists, NaN and infinities become null."""
    write_text_atomic(path, json.dumps(plain(content), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise RecordError(f"{path} is damaged: it is not JSON ({error}); restore it or run again.") from error


def plain(value: Any) -> Any:
    """The same content in the types that JSON and YAML know."""
    if hasattr(value, "tolist"):  # numpy and jax arrays and scalars
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
