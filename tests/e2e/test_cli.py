"""The front door: what a person types, mistypes and reads."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.commands import environment, run

from rewardlab.cli.slm import translate


def test_help_is_fast_and_brings_no_jax(shop: Path) -> None:
    code = "import sys; sys.argv = ['rewardlab', '--help']\nfrom rewardlab.cli import app\n"
    code += "try: app.main()\nexcept SystemExit: pass\nassert 'jax' not in sys.modules, 'jax was imported'"
    best = 10.0
    for _ in range(3):
        begun = time.perf_counter()
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        best = min(best, time.perf_counter() - begun)
    assert result.returncode == 0, result.stderr
    assert "run" in result.stdout
    assert best < 1.5  # 0.5 s is the goal on a quiet machine; this guards against the import that costs seconds


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "ppo_cartpol"], "ppo_cartpole"),
        (["run", "ppo_cartpole", "trian"], "train"),
        (["run", "nowhere.yaml", "ppo_cartpole"], "nowhere.yaml"),
        (["run", "small.yaml", "smal"], "small"),
        (["run", "ppo_cartpole", "-s", "agent.algorithm.gama=0.9"], "gamma"),
        (["run", "ppo_cartpole", "-s", "env.max_frames=1000"], "env.max_frame"),
        (["run", "ppo_cartpole", "-s", "agent.net.hid_layers=wide"], "agent.net.hid_layers"),
        (["run", "ppo_cartpole", "-s", "env.name=CartPoel-v1"], "CartPole-v1"),
        (["run", "dqn_cartpole", "-s", "env.name=Pendulum-v1"], "discrete"),
        (["run", "ppo_cartpole", "-s", "agent.algorithm.name=PPOO"], "PPO"),
        (["run", "ppo_cartpole", "-s", "agent.algorithm.minibatch_size=100000"], "minibatch_size"),
        (["run", "ppo_cartpole", "train@nowhere"], "nowhere"),
        (["run", "ppo_cartpole", "enjoy@nowhere"], "nowhere"),
        (["verify", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_way_out(shop: Path, words: list[str], told: str) -> None:
    result = run(shop, *words)
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert told in lines[0]
    assert "Traceback" not in result.stderr
    assert not (shop / "data").exists()


def test_debug_shows_the_traceback(shop: Path) -> None:
    assert "Traceback" in run(shop, "run", "ppo_cartpol", "--debug").stderr


def test_spec_commands(shop: Path) -> None:
    shown = run(shop, "spec", "show", "small.yaml", "small", "-s", "agent.algorithm.gamma=0.5")
    assert "gamma: 0.5" in shown.stdout
    assert run(shop, "spec", "check", "small.yaml", "small").stdout.strip() == "small: fine"
    listed = json.loads(run(shop, "spec", "list", "--json").stdout)
    assert {"file": "ppo_classic.yaml", "name": "ppo_cartpole"} in listed


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["slm_lab/spec/benchmark_arc/ppo/ppo_classic_arc.yaml", "ppo_cartpole_arc", "dev"],
        ["run", "slm_lab/spec/benchmark/ppo/ppo_cartpole.json", "ppo_cartpole", "dev"],
        ["--render", "slm_lab/spec/benchmark/ppo/ppo_cartpole.json", "ppo_cartpole", "dev"],
    ],
)
def test_the_seeds_command_lines_run_as_they_stand(tmp_path: Path, shop: Path, words: list[str]) -> None:
    result = run(shop, *words, "--data", str(tmp_path), module="rewardlab.cli.slm")
    assert result.returncode == 0, result.stderr
    (path,) = tmp_path.iterdir()
    assert "SLM-Lab: Running" in result.stdout
    assert path.name in result.stdout
    assert "Session 0 done" in result.stdout
    assert "Trial 0 done" in result.stdout
    assert "trial_metrics: frame:1.00e+04 | total_reward_ma:" in result.stdout
    assert "weight arrays moved" in result.stdout
    assert ("filmed" in result.stdout) == ("--render" in words)


@pytest.mark.slow
def test_python_api(tmp_path: Path, shop: Path) -> None:
    code = f"""
import numpy as np, rewardlab as rl
changes = {{"env.max_frame": 4000, "agent.algorithm.gamma": 0.97}}
run = rl.train("small.yaml", "small", data={str(tmp_path)!r}, **changes)
again = rl.load(run.path)
assert again.score == run.score and again.spec.agent.algorithm["gamma"] == 0.97
assert again.policy.act(np.zeros(4, np.float32)) in (0, 1)
assert len(again.table()["frame"]) == 20
print(again)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=shop, env=environment(shop), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "score=" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["pull", "ppo_hopper"],
        ["push", "data/x"],
        ["plot", "-t", "X", "-f", "a,b"],
        ["run-remote", "--gpu", "F", "S"],
    ],
)
def test_the_seeds_other_commands_are_not_taken_for_specs(words: list[str]) -> None:
    assert translate(words) == words
    assert translate(["F.json", "S", "train"]) == ["run", "F.json", "S", "train"]


def test_a_trial_is_filmed_at_its_end(shop: Path) -> None:
    words = ["small.yaml", "small", "--data", "filmed", "-s", "meta.film=1", "-s", "env.max_frame=2000"]
    result = run(shop, "run", *words, "-s", "env.max_t=40")
    assert result.returncode == 0, result.stderr
    (film,) = (shop / "filmed").glob("*/graph/*enjoy.mp4")
    assert film.stat().st_size > 1000
    assert "episode 1: return" in result.stdout
