"""A search as a person runs it: to its end, interrupted, killed, mistyped."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.commands import command, environment, run

pytestmark = pytest.mark.slow

SPEC = """
tiny:
  agent:
    algorithm: {name: REINFORCE, training_frequency: 16}
    net: {hid_layers: [8]}
  env: {name: CartPole-v1, num_envs: 4, max_frame: 40000}
  meta: {max_session: 1, max_trial: 6, log_frequency: 64, checkpoint_seconds: 0.0,
         search_scheduler: {grace_period: 10000, reduction_factor: 3}}
  search:
    agent.algorithm.gamma__uniform: [0.9, 0.999]
    agent.net.optim_spec.lr__loguniform: [1.0e-4, 1.0e-2]
plain:
  agent: {algorithm: {name: PPO}}
  env: {name: CartPole-v1, num_envs: 4}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    (folder / "specs.yaml").write_text(SPEC)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    result = run(place, "run", "specs.yaml", "tiny", "search", "--data", "whole")
    assert result.returncode == 0, result.stderr
    assert "search by population: 6 trials, 2 ranges" in result.stdout
    assert "frame 10000: 2 of 6 trials go on" in result.stdout
    (path,) = (place / "whole").iterdir()
    assert f"rewardlab run whole/{path.name}/tiny_best_spec.yaml tiny train" in result.stdout
    return path


def test_the_best_spec_trains_as_it_stands(place: Path, whole: Path) -> None:
    words = ["run", f"whole/{whole.name}/tiny_best_spec.yaml", "tiny", "--data", "best", "-s", "env.max_frame=2000"]
    result = run(place, *words)
    assert result.returncode == 0, result.stderr
    assert "Session 3 done" in result.stdout  # four sessions confirm it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_cut_off_goes_on_as_if_it_had_not_been(
    place: Path, whole: Path, number: signal.Signals
) -> None:
    root = f"cut_{number.name}"
    words = command("run", "specs.yaml", "tiny", "search", "--data", root)
    process = subprocess.Popen(words, cwd=place, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 120
    while time.monotonic() < until and not list((place / root).glob("*/model/*search_ckpt*")):
        time.sleep(0.02)
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    (path,) = (place / root).iterdir()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"rewardlab run tiny search@{root}/{path.name}".encode() in out
    assert not (path / "tiny_best_spec.yaml").exists()
    result = run(place, "run", "tiny", "search@latest", "--data", root)
    assert result.returncode == 0, result.stderr
    for name in ("info/tiny_experiment_df.csv", "tiny_best_spec.yaml", "info/tiny_t2_s0_session_df_train.csv"):
        assert (path / name).read_bytes() == (whole / name).read_bytes(), name
    assert "is a search: go on with" in run(place, "run", "tiny", f"train@{root}/{path.name}").stderr
    assert "There is no run of tiny" in run(place, "run", "tiny", "train@latest", "--data", root).stderr
    again = run(place, "run", "tiny", "search@latest", "--data", root)
    assert again.returncode == 1
    assert "is finished: its best spec is" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "specs.yaml", "plain", "search"], "plain says not what to search: give it a search block"),
        (["run", "specs.yaml", "tiny", "search", "--engine", "populaton"], "did you mean population?"),
        (
            ["run", "specs.yaml", "tiny", "search", "--engine", "population", "--address", "x"],
            "belongs to --engine ray",
        ),
        (["run", "specs.yaml", "tiny", "--engine", "ray"], "--engine and --address belong to the mode search"),
        (
            ["run", "specs.yaml", "tiny", "search", "--engine", "population", "-s", "env.backend=gymnasium"],
            "--engine ray",
        ),
        (["run", "tiny", "search@nowhere"], "nowhere"),
        (["run", "specs.yaml", "tiny", "serch"], "did you mean search?"),
    ],
)
def test_a_mistake_is_one_sentence(place: Path, words: list[str], told: str) -> None:
    result = run(place, *words, "--data", "none")
    assert result.returncode == 1
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert told in line
    assert not (place / "none").exists()


def test_what_is_unlikely_to_be_meant_is_noted(place: Path) -> None:
    words = [
        "run",
        "specs.yaml",
        "tiny",
        "search",
        "--data",
        "noted",
        "-s",
        "meta.max_trial=2",
        "-s",
        "env.max_frame=600",
    ]
    result = run(place, *words)
    assert result.returncode == 0, result.stderr
    assert "note: 2 trials for 2 ranges: take 6 to 8" in result.stderr
    assert "note: the grace_period, 10000 frames, is as long as the run" in result.stderr
