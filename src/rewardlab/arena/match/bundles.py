"""Bundles of strangers: unpacked within limits and looked at without running anything in them."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from rewardlab.arena.errors import ArenaError
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import MultiAgentPolicy
from rewardlab.cogs.policies.bundle import SPEC_FILE, Bundle, is_safe, read_bundle
from rewardlab.cogs.policies.make import find_class, policy_names

MOST_BYTES, MOST_FILES, CHUNK = 256 << 20, 2000, 1 << 20
MOST_SPEC, MOST_NAME = 1 << 20, 255  # bytes
ENTRY = b"PK\x01\x02"  # with this a file begins in a zip's table of contents
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others may ask for gigabytes to unpack a byte
WEIGHTS, CODE = "weights", "code"


@dataclass(frozen=True)
class Looked:
    """A bundle on disk, and whether playing it runs anything of its author's."""

    bundle: Bundle
    kind: str


def unpack(archive: Path, folder: Path) -> Path:
    """The files of a zip in `folder`, whole or not at all; what does not belong into a bundle is refused."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
    parts.chmod(0o755)  # a sandbox reads it as somebody else
    try:
        if archive.read_bytes().count(ENTRY) > 10 * MOST_FILES:  # before a list of millions is made of them
            raise ArenaError(f"The bundle holds very many files; {MOST_FILES} are allowed.")
        with zipfile.ZipFile(archive) as packed:
            _extract(packed, parts)
        parts.replace(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise ArenaError(f"The bundle is not a readable zip ({error}).") from error
    except OSError:
        if not folder.is_dir():  # another worker was faster
            raise
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return folder


def _extract(packed: zipfile.ZipFile, folder: Path) -> None:
    members = packed.infolist()
    if len(members) > MOST_FILES:
        raise ArenaError(f"The bundle holds {len(members)} files; {MOST_FILES} are allowed.")
    room = MOST_BYTES
    places: dict[Path, bool] = {}  # whether it is a folder
    for member in members:
        _check(member, places)
        target = folder / member.filename
        if member.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        room = _copy(packed, member, target, room)


def _check(member: zipfile.ZipInfo, places: dict[Path, bool]) -> None:
    """A member that is a plain file or folder inside, under a name that no other has."""
    name = member.filename
    if not is_safe(name.rstrip("/")):
        raise ArenaError(f"The bundle holds the path {name[:80]!r}, which points outside it.")
    if not name.isprintable() or len(name.encode()) > MOST_NAME:
        raise ArenaError(f"The bundle holds the path {name[:80]!r}: {MOST_NAME} bytes that can be printed are allowed.")
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArenaError(f"The bundle holds {name!r}, which is a link or a device; plain files only.")
    if member.compress_type not in PACKED:
        raise ArenaError(f"The bundle holds {name!r} packed by a method other than deflate.")
    place = Path(name)
    above = [folder for folder in place.parents if folder != Path()]
    again = place in places and not (member.is_dir() and places[place])
    again = again or (place == Path() and not member.is_dir())
    if again or not all(places.setdefault(folder, True) for folder in above):
        raise ArenaError(f"The bundle holds the path {name!r} twice.")
    places[place] = member.is_dir()


def _copy(packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, room: int) -> int:
    """Write one file; its bytes are counted as they come, whatever the zip says their number is."""
    with packed.open(member) as source, target.open("wb") as sink:
        while chunk := source.read(CHUNK):
            room -= len(chunk)
            if room < 0:
                raise ArenaError(f"The bundle unpacks to more than {MOST_BYTES >> 20} MiB.")
            sink.write(chunk)
    target.chmod(0o644)
    return room


def look(folder: Path) -> Looked:
    """What a bundle is: weights for one of our own classes, or somebody's code."""
    if (file := folder / SPEC_FILE).is_file() and file.stat().st_size > MOST_SPEC:
        raise ArenaError(f"The {SPEC_FILE} of the bundle is larger than {MOST_SPEC >> 20} MiB.")
    try:
        bundle = read_bundle(folder)
    except CogsError as error:
        raise ArenaError(str(error).replace(str(folder), "of this upload")) from error
    if own_class(bundle.spec.class_path) is None:
        return Looked(bundle, CODE)
    data = bundle.spec.data_path
    if data is not None and Path(data).suffix != ".safetensors":
        name = bundle.spec.class_path
        raise ArenaError(f"The policy {name} takes its weights as .safetensors, not as {Path(data).name!r}.")
    if bundle.setup_script is not None:
        raise ArenaError(f"The policy {bundle.spec.class_path} is one of ours and needs no setup_script.")
    return Looked(bundle, WEIGHTS)


def own_class(class_path: str) -> type[MultiAgentPolicy] | None:
    """One of the policies that come with the arena, by its short name; a class by its path is somebody's code."""
    if "." in class_path or class_path not in policy_names():
        return None
    return find_class(class_path)
