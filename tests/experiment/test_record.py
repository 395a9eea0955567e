import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardlab.experiment import record
from rewardlab.experiment.record import RecordError, RunFolder, SessionTable

NOW = datetime(2026, 1, 2, 3, 4, 5)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create("ppo_cartpole", tmp_path / "data", NOW)


# --- the folder ---


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    names = [RunFolder.create("ppo_cartpole", tmp_path, NOW).path.name for _ in range(3)]
    stem = "ppo_cartpole_2026_01_02_030405"
    assert names == [stem, f"{stem}_1", f"{stem}_2"]


def test_paths_follow_the_seeds(run: RunFolder) -> None:
    paths = [
        run.spec_path,
        run.trial_spec_path,
        run.session_df_path(0, "train"),
        run.session_df_path(3, "eval"),
        run.session_metrics_path(1, "eval"),
        run.trial_metrics_path,
        run.checkpoint_path,
        run.best_policy_path(2),
        run.graph_path("trial_graph_mean_returns_vs_frames.png"),
    ]
    assert [str(path.relative_to(run.path)) for path in paths] == [
        "ppo_cartpole_spec.yaml",
        "ppo_cartpole_t0_spec.yaml",
        "info/ppo_cartpole_t0_s0_session_df_train.csv",
        "info/ppo_cartpole_t0_s3_session_df_eval.csv",
        "info/ppo_cartpole_t0_s1_session_metrics_eval.json",
        "info/ppo_cartpole_t0_trial_metrics.json",
        "model/ppo_cartpole_t0_ckpt-last.safetensors",
        "model/ppo_cartpole_t0_s2_ckpt-best_policy.safetensors",
        "graph/ppo_cartpole_t0_trial_graph_mean_returns_vs_frames.png",
    ]


def test_open_takes_the_folder_and_its_spec_files(run: RunFolder) -> None:
    run.write_specs({"env": {"name": "CartPole-v1"}}, {"seed": 3})
    run.with_trial(2).write_specs({"env": {"name": "CartPole-v1"}}, {"seed": 3})
    assert RunFolder.open(run.path) == run
    assert RunFolder.open(str(run.spec_path)) == run
    assert RunFolder.open(run.with_trial(2).trial_spec_path) == run.with_trial(2)


def test_specs_are_saved_by_name_with_provenance_beside(run: RunFolder) -> None:
    spec = {"env": {"name": "CartPole-v1", "max_frame": 200_000}, "agent": {"lr": 3e-4, "hid": (64, np.int64(32))}}
    run.write_specs(spec, record.provenance(seed=7, started=NOW))
    assert run.spec_path.read_text() == (
        "ppo_cartpole:\n  env:\n    name: CartPole-v1\n    max_frame: 200000\n"
        "  agent:\n    lr: 0.0003\n    hid:\n    - 64\n    - 32\n"
    )
    assert run.read_spec()["env"]["max_frame"] == 200_000
    assert run.read_run()["seed"] == 7
    assert {"python", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium"} <= run.read_run()["versions"].keys()


@pytest.mark.parametrize("text", ["ppo_cartpole: [", "other: {}", "", "ppo_cartpole: 3"])
def test_a_damaged_spec_names_its_file(run: RunFolder, text: str) -> None:
    run.trial_spec_path.write_text(text)
    with pytest.raises(RecordError, match=r"t0_spec\.yaml is damaged"):
        run.read_spec()


def test_provenance_names_no_host_and_no_path() -> None:
    import socket

    text = json.dumps(record.provenance(0))
    assert str(Path(__file__).parents[2]) not in text
    assert str(Path.home()) not in text
    assert f'"{socket.gethostname()}"' not in text


@pytest.mark.parametrize("path", ["nowhere", "empty"])
def test_what_is_no_run_folder_is_said(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="run folder"):
        RunFolder.open(tmp_path / path)


def test_latest_is_the_newest_of_this_very_spec(tmp_path: Path) -> None:
    days = [("ppo_cartpole", 1), ("ppo_cartpole", 5), ("ppo_cartpole", 5), ("ppo_cartpole_big", 9), ("ppo_cartpole", 3)]
    runs = [RunFolder.create(name, tmp_path, NOW.replace(day=day)) for name, day in days]
    for made in runs:
        made.write_specs({}, {})
    RunFolder.create("ppo_cartpole", tmp_path, NOW.replace(day=20))  # killed before it wrote its spec
    assert RunFolder.latest("ppo_cartpole", tmp_path) == runs[2]
    with pytest.raises(RecordError, match="no run of dqn_pong"):
        RunFolder.latest("dqn_pong", tmp_path)


@pytest.mark.parametrize("name", ["", "../escape", ".hidden"])
def test_a_spec_name_cannot_lead_out_of_the_data_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordError, match="cannot be named"):
        RunFolder.create(name, tmp_path)


def test_json_is_strict_and_takes_numpy(run: RunFolder) -> None:
    record.write_json(run.trial_metrics_path, {"a": np.float32(0.5), "b": np.array([1, 2]), "c": math.nan})
    assert json.loads(run.trial_metrics_path.read_text(), parse_constant=pytest.fail) == {
        "a": 0.5,
        "b": [1, 2],
        "c": None,
    }


def test_timings_survive_a_line_cut_short(run: RunFolder) -> None:
    run.append_timing({"frame": 1, "fps": np.float32(2.5)})
    with run.timing_path.open("a") as file:
        file.write('{"frame": 2, "f')
    assert run.read_timings() == [{"frame": 1, "fps": 2.5}]


# --- one writer ---


def test_a_second_writer_is_refused_and_a_third_may_follow(run: RunFolder) -> None:
    with run.lock(), pytest.raises(RecordError, match="being written by another process"), run.lock():
        pass
    with run.lock():
        pass


def test_a_lock_dies_with_its_process_and_its_leftovers_are_swept(run: RunFolder) -> None:
    code = (
        "import sys, time; from pathlib import Path; from rewardlab.experiment.record import RunFolder\n"
        "with RunFolder(Path(sys.argv[1]), 'ppo_cartpole').lock(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(RecordError, match="another process"), run.lock():
            pass
        process.kill()
    leftover = run.path / "info" / f".x.csv.{process.pid}.tmp"
    leftover.write_text("half")
    graph = run.path / "graph" / ".x.png.1.tmp"
    graph.write_text("being drawn by a process that holds no lock")
    with run.lock():
        assert not leftover.exists()
        assert graph.exists()


# --- nothing half-written ---


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EDQUOT, "The disk is full"),
        (errno.EACCES, "No permission to write"),
        (errno.EROFS, "No permission to write"),
        (errno.EIO, "Could not write"),
    ],
)
def test_a_failed_write_says_why_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, sentence: str
) -> None:
    path = tmp_path / "table.csv"
    record.write_text_atomic(path, "old")

    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RecordError, match=sentence):
        record.write_text_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_disk_that_the_kernel_says_is_full(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    record.save_tree(path, {"x": np.zeros(3)}, {"frame": 1})
    (tmp_path / f".{path.name}.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(RecordError, match="The disk is full"):
        record.save_tree(path, {"x": np.ones(100_000)}, {"frame": 2})
    assert record.read_meta(path) == {"frame": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RecordError, match="No permission to write"):
        record.write_text_atomic(tmp_path / "x.csv", "x")
    with pytest.raises(RecordError, match="No permission to write"):
        RunFolder.create("ppo_cartpole", tmp_path)


def test_a_run_folder_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(RecordError, match="The disk is full"):
        RunFolder.create("ppo_cartpole", tmp_path)


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(RecordError, match="data"):
        RunFolder.create("ppo_cartpole", tmp_path / "data")


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    code = (
        "import sys; from pathlib import Path; from rewardlab.files import write_text_atomic\n"
        "while True:\n  for letter in 'ab': write_text_atomic(Path(sys.argv[1]), letter * 300_000)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as process:
        deadline = time.monotonic() + 30
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    text = path.read_text()
    assert text in ("a" * 300_000, "b" * 300_000)


# --- tables ---


def test_cells_are_the_shortest_text_of_a_float32(tmp_path: Path) -> None:
    table = SessionTable()
    table.append({"frame": 500, "total_reward": float("nan"), "loss": 0.1, "lr": np.float32(3e-4)})
    table.append({"frame": np.int64(1000), "total_reward": 22.5, "loss": 1, "lr": 1 / 3})
    table.append({"frame": 1500, "total_reward": None, "loss": -1e300, "lr": 0.0})
    table.write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == (
        "frame,total_reward,loss,lr\n500,,0.1,0.0003\n1000,22.5,1.0,0.33333334\n1500,,-inf,0.0\n"
    )


cells = st.floats(width=32) | st.sampled_from([-0.0, 1e-45, 3e38, 16777217.0])
tables = st.integers(0, 8).flatmap(
    lambda rows: st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\0", exclude_categories=["Cs"]), min_size=1),
        st.lists(st.integers(-(2**62), 2**62), min_size=rows, max_size=rows)
        | st.lists(cells, min_size=rows, max_size=rows),
        min_size=1,
        max_size=4,
    )
)


@given(tables, st.integers(0, 8))
@settings(max_examples=80, deadline=None)
def test_a_table_read_and_continued_is_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, list[Any]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("t")
    whole = SessionTable()
    whole.extend(columns)
    whole.write(folder / "whole.csv")
    again = SessionTable.read(folder / "whole.csv")
    for name, values in whole.columns.items():
        np.testing.assert_array_equal(again.columns[name], values)
        assert len(whole) == 0 or again.columns[name].dtype == values.dtype
    again.keep(cut)
    again.write(folder / "part.csv")
    resumed = SessionTable.read(folder / "part.csv")
    resumed.extend({name: values[cut:] for name, values in columns.items()})
    resumed.write(folder / "resumed.csv")
    if whole.columns and len(whole):
        assert (folder / "resumed.csv").read_bytes() == (folder / "whole.csv").read_bytes()


def test_a_row_with_other_columns_or_a_fraction_among_whole_numbers_is_refused() -> None:
    table = SessionTable()
    table.append({"frame": 1, "loss": 0.5})
    with pytest.raises(RecordError, match="entropy"):
        table.append({"frame": 2, "loss": 0.5, "entropy": 1.0})
    with pytest.raises(RecordError, match="frame holds whole numbers"):
        table.append({"frame": 2.5, "loss": 0.5})
    with pytest.raises(RecordError, match="loss holds numbers"):
        table.append({"frame": 2, "loss": "high"})
    assert len(table) == 1
    assert len(table.columns["frame"]) == 1


@pytest.mark.parametrize("text", ["", "frame,loss\n1\n", "frame,loss\n1,x\n", "frame\n\udcff\n"])
def test_a_damaged_table_names_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RecordError, match=r"x\.csv is damaged"):
        SessionTable.read(tmp_path / "x.csv")
    with pytest.raises(RecordError, match="no file"):
        SessionTable.read(tmp_path / "y.csv")


# --- the same or not ---


def _finished(root: Path, loss: float = 0.5, weight: float = 1.0) -> Path:
    run = RunFolder.create("ppo_cartpole", root, NOW)
    table = SessionTable()
    table.extend({"frame": [500, 1000], "loss": [0.25, loss]})
    table.write(run.session_df_path(0, "train"))
    record.save_tree(run.checkpoint_path, {"w": np.array([[1.0, 2.0], [3.0, weight]], np.float32)})
    return run.path


def test_equal_runs_have_no_difference(tmp_path: Path) -> None:
    a, b = _finished(tmp_path / "a", loss=math.nan), _finished(tmp_path / "b", loss=math.nan)
    assert record.first_difference(a, b) is None


def test_the_first_difference_is_named_and_the_largest_counted(tmp_path: Path) -> None:
    a, b = _finished(tmp_path / "a"), _finished(tmp_path / "b", loss=0.75, weight=1.0001)
    found = record.first_difference(a, b)
    assert found is not None
    assert found.file == "info/ppo_cartpole_t0_s0_session_df_train.csv"
    assert (found.place, found.a, found.b) == ("row 2, column loss", "0.5", "0.75")
    assert found.largest_absolute == pytest.approx(0.25)
    assert found.largest_relative == pytest.approx(1 / 3)  # 0.25 / 0.75
    assert not found.within(0.1)
    assert found.within(0.3)


def test_a_weight_is_named_by_its_index(tmp_path: Path) -> None:
    found = record.first_difference(_finished(tmp_path / "a"), _finished(tmp_path / "b", weight=1.5))
    assert found is not None
    assert (found.file, found.place) == ("model/ppo_cartpole_t0_ckpt-last.safetensors", "w[1, 1]")
    assert str(found).endswith("w[1, 1]: 1.0 against 1.5")
    assert found.largest_relative == pytest.approx(0.5 / 1.5)


def test_bits_count_even_where_numbers_are_equal(tmp_path: Path) -> None:
    found = record.first_difference(_finished(tmp_path / "a", weight=0.0), _finished(tmp_path / "b", weight=-0.0))
    assert found is not None
    assert found.largest_absolute == 0.0
    assert found.within(0.0)


def test_what_is_missing_is_within_no_tolerance(tmp_path: Path) -> None:
    a, b = _finished(tmp_path / "a"), _finished(tmp_path / "b")
    next(b.glob("model/*")).unlink()
    found = record.first_difference(a, b)
    assert found is not None
    assert (found.place, found.a, found.b) == ("the file", "present", "missing")
    assert not found.within(1e9)


def test_a_number_against_nan_is_within_no_tolerance(tmp_path: Path) -> None:
    found = record.first_difference(_finished(tmp_path / "a"), _finished(tmp_path / "b", loss=math.nan))
    assert found is not None
    assert not found.within(1e9)
