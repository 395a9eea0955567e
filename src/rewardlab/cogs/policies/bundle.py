"""Bundles: a folder or zip with `policy_spec.json`, the weights it names and the code it needs."""

from __future__ import annotations

import atexit
import json
import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import PolicySpec

SPEC_FILE = "policy_spec.json"
KEYS = ("class_path", "data_path", "init_kwargs", "setup_script")
MOST_BYTES = 2 << 30  # unpacked: a zip that grows beyond is refused


@dataclass(frozen=True)
class Bundle:
    """A policy with its files; `root` is where they lie."""

    name: str
    root: Path
    spec: PolicySpec
    setup_script: str | None = None


def is_bundle(path: Path) -> bool:
    """Whether a folder or zip could be a bundle."""
    return path.suffix == ".zip" if path.is_file() else (path / SPEC_FILE).is_file()


def read_bundle(path: Path) -> Bundle:
    """The bundle in a folder or zip."""
    root = _unpacked(path.resolve(), path.stat().st_mtime_ns) if path.is_file() else path
    named = f"Bundle {path}"
    if not (root / SPEC_FILE).is_file():
        raise CogsError(f"{named} holds no {SPEC_FILE}.")
    fields = _fields(root / SPEC_FILE, named)
    data, script = (_inside(root, fields.get(key), key, named) for key in ("data_path", "setup_script"))
    spec = PolicySpec(fields["class_path"], str(data) if data else None, fields.get("init_kwargs") or {})
    return Bundle(str(path), root, spec, str(script) if script else None)


def write_bundle(folder: Path, spec: PolicySpec, setup_script: str | None = None) -> None:
    """Write the `policy_spec.json` of a folder; `data_path` is relative to it."""
    values = (spec.class_path, spec.data_path, dict(spec.init_kwargs), setup_script)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(zip(KEYS, values, strict=True)), indent=2)
    (folder / SPEC_FILE).write_text(text + "\n", encoding="utf-8")


def _fields(file: Path, named: str) -> dict[str, Any]:
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CogsError(f"{named}: {SPEC_FILE} is not valid JSON ({error}).") from error
    if not isinstance(fields, dict):
        raise CogsError(f"{named}: {SPEC_FILE} must hold an object with {', '.join(KEYS)}.")
    if unknown := sorted(set(fields) - set(KEYS)):
        raise CogsError(f"{named}: {SPEC_FILE} has the unknown key {unknown[0]!r}; there are {', '.join(KEYS)}.")
    if not isinstance(fields.get("class_path"), str) or not fields["class_path"]:
        raise CogsError(f"{named}: {SPEC_FILE} does not say the class_path.")
    if not isinstance(fields.get("init_kwargs") or {}, dict):
        raise CogsError(f"{named}: init_kwargs in {SPEC_FILE} must be an object of arguments.")
    return fields


def _inside(root: Path, relative: Any, key: str, named: str) -> Path | None:
    """The file that a key names: it must lie in the bundle and exist."""
    if relative is None:
        return None
    if not isinstance(relative, str) or not is_safe(relative):
        raise CogsError(f"{named}: {key} {relative!r} points outside the bundle; it must be a path inside it.")
    place = root / relative
    if not place.resolve().is_relative_to(root.resolve()):
        raise CogsError(f"{named}: {key} {relative!r} leads outside the bundle by a link.")
    if not place.exists():
        raise CogsError(f"{named} lacks the file {relative!r} that {SPEC_FILE} names as {key}.")
    return place


def is_safe(name: str) -> bool:
    """Whether a name stays inside the folder it is read in, on every system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    absolute = posix.is_absolute() or windows.is_absolute() or bool(windows.drive) or name.startswith("\\")
    return bool(name) and not absolute and ".." not in posix.parts and ".." not in windows.parts


@cache
def _unpacked(archive: Path, _changed: int) -> Path:
    """The files of a zip in a folder that lives as long as the process."""
    try:
        with zipfile.ZipFile(archive) as packed:
            _refuse_harm(packed, archive)
            folder = Path(tempfile.mkdtemp(prefix="rewardlab-bundle-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            packed.extractall(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise CogsError(f"Bundle {archive} is not a readable zip ({error}).") from error
    return folder


def _refuse_harm(packed: zipfile.ZipFile, archive: Path) -> None:
    for member in packed.infolist():
        if not is_safe(member.filename.rstrip("/")):
            raise CogsError(f"Bundle {archive} holds the path {member.filename!r}, which points outside it.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise CogsError(f"Bundle {archive} holds the link {member.filename!r}; links are refused.")
    if sum(member.file_size for member in packed.infolist()) > MOST_BYTES:
        raise CogsError(f"Bundle {archive} would unpack to more than {MOST_BYTES >> 30} GiB.")
