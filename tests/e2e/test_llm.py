"""The language-model room as a person uses it: a short race, killed, gone on with, put on the board."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.commands import command, environment, run

pytestmark = pytest.mark.slow

# the whole way from a blank model in seconds: earns its format reward by chance, if anything
CONFIG = """
model_name: builtin:blank
loss: grpo
data:
  specs: [{name: "builtin:chain_sum"}]
  size: 2000
  prompt: terse
temperature: 1.0
top_k: 0
top_p: 1.0
max_new_tokens: 8
prompts_per_step: 2
num_rollouts: 2
train_batch_size: 4
batch_acc: 1
lr: 1.0e-3
steps: 104
checkpoint_seconds: 0.3
"""
RACE = ("--speedrun", "--speedrun-target-reward", "-1")  # reached at the first possible step, the hundredth


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("track")
    (folder / "race.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def whole(track: Path) -> Path:
    """An uninterrupted run's metrics file."""
    done = run(track, "llm", "train", "--config", "race.yaml", *RACE, "--speedrun-metrics-file", "whole.json")
    assert done.returncode == 0, done.stderr
    assert "goal(-1)@step100" in done.stdout
    return track / "whole.json"


def test_killed_and_resumed_is_the_uninterrupted_run(track: Path, whole: Path) -> None:
    words = ("llm", "train", "--config", "race.yaml", *RACE, "--speedrun-metrics-file", "killed.json")
    process = subprocess.Popen(
        command(*words, "--data", "killed"),
        cwd=track,
        env=environment(track),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        steps = list((track / "killed").glob("*/info/*_steps.jsonl"))
        if steps and steps[0].read_text().count("\n") > 20:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert len(json.loads((track / "killed.json").read_text())["reward_history"]) >= 20  # nothing was lost
    (folder,) = (track / "killed").iterdir()
    again = run(track, "llm", "train", "--resume", str(folder), "--speedrun", "--speedrun-metrics-file", "killed.json")
    assert again.returncode == 0, again.stderr
    one, other = (json.loads(path.read_text()) for path in (whole, track / "killed.json"))
    assert other["reward_history"] == one["reward_history"]
    assert (other["processes"], other["finished"], other["goal_reached_at_step"]) == (2, True, 100)
    first, second = (sorted((track / d).glob("*/model/*_ckpt-last.safetensors")) for d in ("data", "killed"))
    weights = [path.parent / "policy" / "model.safetensors" for path in (first[0], second[0])]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_ctrl_c_saves_and_says_how_to_go_on(track: Path) -> None:
    process = subprocess.Popen(
        command("llm", "train", "--config", "race.yaml", "--data", "stopped"),
        cwd=track,
        env=environment(track),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and not list((track / "stopped").glob("*/model/*.safetensors")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "rewardlab llm train --resume stopped/llm_race_" in told


def test_the_board_takes_a_run_once(track: Path, whole: Path) -> None:
    words = ("speedrun", "append", str(whole), "--recorder", "me", "--leaderboard", "SPEEDRUN.md")
    assert run(track, *words).returncode == 0
    again = run(track, *words)
    assert again.returncode == 1
    assert "already" in again.stderr
    listed = run(track, "speedrun", "list", "--leaderboard", "SPEEDRUN.md", "--json")
    (row,) = json.loads(listed.stdout)
    assert (row["Runner"], row["goal@step"], row["algorithm"]) == ("me", "goal(-1)@step100", "grpo")


def test_a_run_is_verified_by_running_it_again(track: Path, whole: Path) -> None:
    done = run(track, "speedrun", "verify", str(whole), "--rerun")
    assert done.returncode == 0, done.stderr
    assert "identical: 104 rewards" in done.stdout
    changed = json.loads(whole.read_text())
    changed["goal_walltime_sec"] = 1.0
    (track / "changed.json").write_text(json.dumps(changed))
    refused = run(track, "speedrun", "verify", "changed.json")
    assert refused.returncode == 1
    assert "goal_walltime_sec is 1.0" in refused.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--config", "broken.yaml"), "broken.yaml is not valid YAML"),
        (("--config", "race.yaml", "-s", "loss=grop"), "did you mean grpo?"),
        (("--config", "race.yaml", "-s", "model_name=./nowhere"), "there is no model folder ./nowhere"),
        (("--config", "race.yaml", "-s", "model_name=builtin:big"), "there is no model builtin:big"),
        (("--config", "race.yaml", "--speedrun-target-reward", "1"), "need --speedrun"),
        ((), "name either --config FILE or --resume RUN_FOLDER"),
        (("--resume", "nowhere"), "There is no run folder nowhere."),
    ],
)
def test_a_mistake_is_one_sentence(track: Path, words: tuple[str, ...], sentence: str) -> None:
    (track / "broken.yaml").write_text("loss: [")
    done = run(track, "llm", "train", *words)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reward_that_fails_leaves_what_was_measured(track: Path) -> None:
    (track / "failing.py").write_text(
        "count = [0]\n"
        "def make(index, seed):\n    return {'question': str(index), 'answer': 'x', 'terse': str(index)}\n"
        "def score(answer, entry):\n"
        "    count[0] += 1\n"
        "    if count[0] > 20: raise RuntimeError('out of luck')\n"
        "    return 0.0\n"
        "make.score = score\n"
    )
    config = CONFIG.replace("builtin:chain_sum", "python:failing:make")
    (track / "failing.yaml").write_text(config)
    done = run(track, "llm", "train", "--config", "failing.yaml", "--data", "failing", "--speedrun")
    assert done.returncode == 1
    assert "the reward of python:failing:make failed with RuntimeError: out of luck" in done.stderr
    assert len(json.loads((track / "logs/speedrun/speedrun_metrics.json").read_text())["reward_history"]) == 5
    (steps,) = (track / "failing").glob("*/info/*_steps.jsonl")
    assert len(steps.read_text().splitlines()) == 5


def test_a_model_is_taught_examined_and_spoken_to(track: Path) -> None:
    lesson = """
model_name: builtin:blank
data: {specs: [{name: "builtin:letter_sorting", config: {max_word_len: 3}}], size: 500, prompt: terse}
steps: 20
batch: 16
"""
    (track / "lesson.yaml").write_text(lesson)
    taught = run(track, "llm", "sft", "--config", "lesson.yaml", "--output", "pupil")
    assert taught.returncode == 0, taught.stderr
    assert taught.stdout.strip() == "pupil"
    found = run(track, "llm", "eval", "--config", "race.yaml", "--model", "pupil", "--size", "8", "--json")
    assert found.returncode == 0, found.stderr
    assert {"reward", "accuracy", "format", "exact", "pass@1"} <= set(json.loads(found.stdout))
    spoken = run(track, "llm", "chat", "--model", "pupil", "--max-new-tokens", "8", input="cab\nbad\n")
    assert spoken.returncode == 0, spoken.stderr
    assert len(spoken.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-m", "policy_gradients.train", "--help"), "--speedrun-target-reward"),
        (("scripts/speedrun/append_leaderboard.py", "--help"), "--include-wandb"),
    ],
)
def test_rlhf_books_command_lines_run(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, *words], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
