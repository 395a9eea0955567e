"""A run that is killed, interrupted or starved, and what is left of it."""

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.commands import command, environment, run

from rewardlab.experiment.record import RecordError, RunFolder, SessionTable, first_difference

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(shop: Path) -> Path:
    """The uninterrupted run that all others must equal."""
    result = run(shop, "run", "small.yaml", "small", "--data", "whole")
    assert result.returncode == 0, result.stderr
    (path,) = (shop / "whole").iterdir()
    return path


def wait_for_checkpoint(process: "subprocess.Popen[bytes]", root: Path, patience: float = 120.0) -> None:
    """Until the run has learned something that a kill could lose."""
    until = time.monotonic() + patience
    while time.monotonic() < until and process.poll() is None:
        if any(path.stat().st_size > 60 for path in root.glob("*/log/timing.jsonl")):
            return
        time.sleep(0.02)


@pytest.mark.parametrize("spec_settings", [[], ["-s", "env.backend=gymnasium", "-s", "env.max_frame=3000"]])
def test_killed_at_random_moments_and_resumed_equals_the_uninterrupted_run(
    shop: Path, whole: Path, spec_settings: list[str]
) -> None:
    name = "killed_host" if spec_settings else "killed"
    reference = whole
    if spec_settings:
        assert run(shop, "run", "small.yaml", "small", "--data", "whole_host", *spec_settings).returncode == 0
        (reference,) = (shop / "whole_host").iterdir()
    dice = random.Random(name)
    first = command("run", "small.yaml", "small", "--data", name, *spec_settings)
    again = command("run", "small", "train@latest", "--data", name)
    kills = 0
    for attempt in range(40):
        options = {"cwd": shop, "env": environment(shop), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(first if attempt == 0 else again, **options)  # type: ignore[call-overload]
        if kills < 4:
            wait_for_checkpoint(process, shop / name)
            time.sleep(dice.uniform(0.0, 0.4))
            process.send_signal(signal.SIGKILL)
        if process.wait(280) == 0:
            break
        kills += 1
    assert process.returncode == 0
    (path,) = (shop / name).iterdir()
    assert kills >= 1
    assert first_difference(reference, path) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_and_says_how_to_go_on(shop: Path, whole: Path, number: signal.Signals) -> None:
    root = f"interrupted_{number.name}"
    words = command("run", "small.yaml", "small", "--data", root, "-s", "env.max_frame=400000")
    process = subprocess.Popen(words, cwd=shop, env=environment(shop), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_checkpoint(process, shop / root)
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    (path,) = (shop / root).iterdir()
    assert f"rewardlab run small train@{root}/{path.name}".encode() in out
    folder = RunFolder.open(path)
    assert folder.checkpoint_path.exists()
    assert not list(path.rglob("*.tmp*"))


def test_verify_says_identical_and_finds_a_changed_number(shop: Path, whole: Path) -> None:
    assert run(shop, "verify", str(whole)).stdout.strip() == "identical"
    changed = shop / "changed" / whole.name
    shutil.copytree(whole, changed)
    table = RunFolder.open(changed).session_df_path(1, "train")
    lines = table.read_text().splitlines()
    cells = lines[-1].split(",")
    cells[4] = str(float(cells[4]) + 100)
    table.write_text("\n".join([*lines[:-1], ",".join(cells)]) + "\n")
    result = run(shop, "verify", str(changed))
    assert result.returncode == 1
    assert result.stdout.startswith("different")
    assert "session_df_train.csv" in result.stdout


def test_a_damaged_checkpoint_is_one_sentence(shop: Path, whole: Path) -> None:
    damaged = shop / "damaged" / whole.name
    shutil.copytree(whole, damaged)
    checkpoint = RunFolder.open(damaged).checkpoint_path
    data = bytearray(checkpoint.read_bytes())
    data[len(data) // 2] ^= 1
    checkpoint.write_bytes(data)
    result = run(shop, "run", "small", f"train@{damaged}")
    assert result.returncode == 1
    (sentence,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert checkpoint.name in sentence
    assert "damaged" in sentence


def test_leaving_the_replay_out_says_that_the_resume_is_not_exact(shop: Path) -> None:
    settings = ("-s", "meta.save_replay=false", "-s", "env.max_frame=400000")
    words = command("run", "small.yaml", "small", "--data", "light", *settings)
    process = subprocess.Popen(words, cwd=shop, env=environment(shop), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_checkpoint(process, shop / "light")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    (path,) = (shop / "light").iterdir()
    result = run(shop, "run", "small", f"train@{path}")
    assert result.returncode == 0, result.stderr
    assert "this resume is not exact: the replay memory was not saved" in result.stdout
    # the memory filled once more, in which time nothing was learned; then learning went on
    table = SessionTable.read(path / "info" / "small_t0_s0_session_df_train.csv")
    assert table.columns["frame"][-1] == 400000
    assert np.isfinite(table.columns["loss"][-1])


def test_two_processes_cannot_write_one_folder(shop: Path, whole: Path) -> None:
    folder = RunFolder.open(whole)
    with folder.lock():
        result = run(shop, "run", "small", f"train@{whole}")
    assert result.returncode == 1
    assert "being written by another process" in result.stderr
    with pytest.raises(RecordError, match="no run"):
        RunFolder.latest("nothing", shop)


def test_the_rows_are_what_a_person_expects(whole: Path) -> None:
    columns = np.genfromtxt(whole / "info" / "small_t0_s0_session_df_train.csv", delimiter=",", names=True)
    assert columns["frame"].tolist() == list(range(200, 20001, 200))
    assert (np.diff(columns["epi"]) >= 0).all()
    assert columns["t"].tolist() == (columns["frame"] / 4).tolist()
