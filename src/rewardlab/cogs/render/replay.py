"""Replays: an episode in a file. The format is described in docs/cogs-views.md."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.grid import Thing
from rewardlab.cogs.render.check import check_frames, check_header
from rewardlab.cogs.render.history import History
from rewardlab.cogs.render.scene import Control, Scene, Setting, Summary
from rewardlab.cogs.rules import ACTIONS, RESOURCES, STORED, VIBES, Limit
from rewardlab.files import RecordError, write_bytes_atomic

FORMAT, VERSION = "rewardlab-cogs-replay", 1
SUFFIX = ".json.z"
MOST_BYTES = 1 << 28  # of text in a file: a longer one is not an episode
WORDS = {"resources": RESOURCES, "actions": ACTIONS, "vibes": VIBES, "stored": STORED}


@dataclass(frozen=True)
class Replay:
    """An episode read from a file."""

    setting: Setting
    history: History
    summary: Summary


def header_of(setting: Setting) -> dict[str, Any]:
    """A setting as JSON, with the words that its numbers stand for."""
    fields = {name: value for name, value in vars(setting).items() if name not in ("things", "limits")}
    return {
        "format": FORMAT,
        "version": VERSION,
        **fields,
        "things": [[thing.kind, thing.row, thing.col] for thing in setting.things],
        "limits": [asdict(limit) for limit in setting.limits],
        **WORDS,
    }


def setting_of(header: Mapping[str, Any]) -> Setting:
    """The setting in a checked header."""
    names = Setting.__dataclass_fields__
    fields = {name: _tuples(value) for name, value in header.items() if name in names}
    things = tuple(Thing(*row) for row in header["things"])
    limits = tuple(Limit(**{name: _tuples(value) for name, value in row.items()}) for row in header["limits"])
    return Setting(**(fields | {"things": things, "limits": limits}))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def encode(history: History, summary: Summary) -> bytes:
    """A replay file's bytes."""
    document = {**header_of(history.setting), "frames": history.frames, "summary": asdict(summary)}
    return zlib.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), 9)


def decode(data: bytes, name: str = "The replay") -> Replay:
    """A replay from a file's bytes; whatever is wrong with them is said in one sentence that begins with `name`."""
    document = _document(data, name)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CogsError(f"{name} is JSON, but not a RewardLab replay (its format is not {FORMAT!r}).")
    version = document.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        hint = "install a newer RewardLab to see it" if newer else "it is unknown here"
        raise CogsError(f"{name} is a replay of version {version!r}, and this RewardLab reads {VERSION}: {hint}.")
    try:
        check_header(document, WORDS)
        history = History(setting_of(document))
        check_frames(document["frames"], history)
        summary = Summary(**{**document["summary"], "rewards": tuple(document["summary"]["rewards"])})
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else str(error)
        raise CogsError(f"{name} is a damaged replay: {reason}.") from error
    return Replay(history.setting, history, summary)


def _document(data: bytes, name: str) -> Any:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise CogsError(f"{name} is not a replay, or a damaged one: {error}.") from error
    if unpacker.unconsumed_tail:
        raise CogsError(f"{name} unpacks to more than {MOST_BYTES >> 20} MB: it is not a replay.")
    if not unpacker.eof:
        raise CogsError(f"{name} is cut short: it ends before its compressed data do.")
    if unpacker.unused_data:
        raise CogsError(f"{name} has {len(unpacker.unused_data)} bytes after its end: it is not a replay of ours.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CogsError(f"{name} is not a replay: what it unpacks to is no JSON.") from error


def read_replay(path: Path) -> Replay:
    """Read a replay file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CogsError(f"Cannot read the replay {path}: {error.strerror or error}.") from error
    return decode(data, str(path))


class ReplayWriter:
    """A view that writes what it is shown to `FOLDER/<uuid>.json.z` when the episode ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: Path | None = None
        self.history: History | None = None

    def begin(self, setting: Setting) -> None:
        """Make the folder at once: a bad one is told before the episode, not after."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CogsError(f"Cannot make the folder {self.folder} for replays: {error.strerror or error}.") from error
        self.history = History(setting)

    def show(self, scene: Scene) -> Control:
        """Keep the scene."""
        assert self.history is not None
        self.history.add(scene)
        return Control()

    def end(self, summary: Summary) -> None:
        """Write the file, whole or not at all."""
        assert self.history is not None
        self.path = self.folder / f"{uuid.uuid4()}{SUFFIX}"
        try:
            write_bytes_atomic(self.path, encode(self.history, summary))
        except RecordError as error:
            raise CogsError(str(error)) from error

    def close(self) -> None:
        """An episode that was broken off is written as far as it went."""
        if self.path is None and self.history is not None and len(self.history) > 1:
            last = self.history.latest
            self.end(Summary(last.step, False, tuple(last.reward(cog) for cog in range(self.history.setting.cogs))))
