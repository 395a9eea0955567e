"""TensorBoard's and W&B's own readers see what the tables hold."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.experiment.loggers import Loggers
from rewardlab.experiment.record import RunFolder, SessionTable
from rewardlab.spec import Spec, SpecError, dump, load


@pytest.fixture
def run(tmp_path: Path) -> tuple[Spec, RunFolder, list[SessionTable]]:
    spec = load("ppo_cartpole")
    folder = RunFolder.create(spec.name, tmp_path)
    folder.write_specs(dump(spec), {})
    tables = [SessionTable(), SessionTable()]
    for session, table in enumerate(tables):
        reward = np.array([np.nan, 10.0 + session, 20.0 + session], np.float32)
        table.extend({"frame": np.array([500, 1000, 1500]), "total_reward": reward})
    return spec, folder, tables


def events(path: Path) -> Iterator[Any]:
    """The records of an event file: length, checksum, message, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = Event()
        event.ParseFromString(data[at + 12 : at + 12 + length])
        yield event
        at += 16 + length


def test_tensorboard_holds_each_row_once(run: tuple[Spec, RunFolder, list[SessionTable]]) -> None:
    spec, folder, tables = run
    loggers = Loggers(["tensorboard"], spec, folder, 0)
    loggers.show(tables)
    loggers.show(tables)  # nothing is new
    loggers.close({"frame": 1500.0, "total_reward_ma": 15.0, "consistency": float("nan")})
    seen: list[tuple[str, int, float]] = []
    for path in sorted((folder.path / "log" / "tensorboard" / "session_1").iterdir()):
        for event in events(path):
            seen += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
    assert seen == [("total_reward", 1000, 11.0), ("total_reward", 1500, 21.0)]  # NaN is no point


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of an offline run: blocks of 32 KiB, each piece with a checksum, a length and its place."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, pieces = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no room for another head in this block
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        pieces += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = Record()
            record.ParseFromString(pieces)
            yield record
            pieces = b""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_wandb_offline_holds_rows_config_and_summary(
    run: tuple[Spec, RunFolder, list[SessionTable]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    spec, folder, tables = run
    loggers = Loggers(["wandb"], spec, folder, 0)
    loggers.show(tables)
    loggers.close({"frame": 1500.0, "total_reward_ma": 15.0})
    (path,) = (folder.path / "log" / "wandb").glob("offline-run-*/*.wandb")
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "history":
            rows.append({(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item})
        if record.WhichOneof("record_type") == "summary":
            summary |= {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.summary.update}
    rewards = [(row["frame"], row["session_1/total_reward"]) for row in rows if "session_1/total_reward" in row]
    assert rewards == [(1000, 11.0), (1500, 21.0)]
    assert summary["total_reward_ma"] == 15.0


def test_a_resumed_run_tells_only_what_is_new(
    run: tuple[Spec, RunFolder, list[SessionTable]], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, folder, tables = run
    told: list[list[int]] = []

    class Notes:
        def __init__(self, spec: Spec, folder: RunFolder) -> None:
            """Nothing to open."""

        def rows(self, session: int, columns: Any) -> None:
            told.append(list(columns["frame"]))

        def close(self, scalars: Any) -> None:
            """Nothing to close."""

    monkeypatch.setitem(__import__("rewardlab.experiment.loggers", fromlist=["LOGGERS"]).LOGGERS, "notes", Notes)
    Loggers(["notes", "notes"], spec, folder, 1000).show(tables)
    assert told == [[1500], [1500]]  # once per session, though it was named twice


def test_an_unknown_logger_names_the_nearest(run: tuple[Spec, RunFolder, list[SessionTable]]) -> None:
    with pytest.raises(SpecError, match="did you mean tensorboard"):
        Loggers(["tensorbord"], run[0], run[1], 0)
