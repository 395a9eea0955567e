"""The work loop, for real, in a clean checkout of its own: launched, killed, gone on with, harvested, committed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.boards import around, bench, checkout, commits, program
from tests.e2e.commands import command, run
from tests.remote.test_remote import SSH, sshd

from rewardlab.boards import work
from rewardlab.boards.audit import audit

__all__ = ["sshd"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("board"))


def test_the_plan_names_what_would_be_run(tmp_path: Path) -> None:
    rows = json.loads(run(tmp_path, "bench", "run", "sarsa", "--plan", "--json").stdout)
    assert rows == [{"env": "CartPole-v1", "algorithm": "SARSA", "next": "sarsa_cartpole train"}]
    shown = run(tmp_path, "bench", "run", "HalfCheetah", "--plan").stdout
    assert "HalfCheetah-v5" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--runner", "ssh", "--host", "box", "--hub", "file://hub"], "the hub file://hub is a folder of this machine"),
        (["--runner", "shs"], "the runner 'shs' is unknown; did you mean ssh?"),
        (["CartPol-v1"], "no row of the board fits 'CartPol-v1'; did you mean CartPole-v1?"),
        (["CartPol-v1", "--plan"], "no row of the board fits 'CartPol-v1'; did you mean CartPole-v1?"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, words: list[str], told: str) -> None:
    result = run(tmp_path, "bench", "run", "--no-commit", *words, "--runs", str(tmp_path))
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert told in line


def test_killed_at_the_worst_moments_it_fills_the_board_through_ssh(board: Path, sshd: tuple[int, Path]) -> None:
    port, key = sshd
    where = ["--runner", "ssh", "--host", "root@127.0.0.1", "--port", str(port), "--identity", str(key)]
    where += [f"--ssh-option={word}" for word in SSH]
    words = [*where, "--program", program(board), "--hub", f"file://{board}/hub", "-j", "2"]
    loop = bench(board, *words)
    ledger, until = board / "benchmarks" / "work.json", time.monotonic() + 60
    while time.monotonic() < until and loop.poll() is None:
        active = json.loads(ledger.read_text())["active"] if ledger.exists() else []
        if len(active) == 2 and all("launched" in row for row in active):
            break
        time.sleep(0.05)
    loop.kill()  # the loop, by -9
    said = loop.communicate()[1]
    assert len(active) == 2, said
    place = Path.home() / str(active[0]["handle"]["folder"])
    os.killpg(int((place / "pid").read_text()), signal.SIGKILL)  # and one of its jobs, on its machine
    (place / "exit").unlink(missing_ok=True)
    again = bench(board, *words)
    said = again.communicate(timeout=250)[1]
    assert again.returncode == 0, said
    lines = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("reinforce_acrobot on Acrobot")]
    assert "reinforce_cartpole on CartPole-v1: lost; it goes on from what the hub holds" in said
    assert "submitted" not in " ".join(lines)  # it ran on while nobody looked, and was harvested
    assert "reinforce_acrobot_lam70 on Acrobot-v1: train, submitted to ssh" in said  # the next variant
    assert said.endswith("nothing is left to try; still missing: REINFORCE on Acrobot-v1\n")
    done = work.read_ledger(board / "benchmarks" / "runs")
    told = {row["spec"]: row["outcome"][0] for row in done["completed"]}
    assert told == {"reinforce_cartpole": "✅", "reinforce_acrobot": "❌", "reinforce_acrobot_lam70": "❌"}
    assert done["active"] == []
    kept = sorted(path.name[:-18] for path in (board / "benchmarks" / "runs").iterdir())
    assert kept == ["reinforce_acrobot", "reinforce_acrobot_lam70", "reinforce_cartpole"]
    page = (board / "docs" / "BENCHMARKS.md").read_text()
    assert "| `reinforce_cartpole` |" in page
    assert "| `reinforce_acrobot_lam70` | [" in page  # the newest of the row, not the last by name
    assert (board / "docs" / "plots" / "CartPole-v1.png").stat().st_size > 10_000
    assert commits(board)[:3] == [
        f"docs: {env} benchmark, {spec} {done['completed'][i]['outcome']}"
        for i, (env, spec) in reversed(list(enumerate((row["env"], row["spec"]) for row in done["completed"])))
    ]
    once_more = bench(board, *words)
    assert "submitted" not in once_more.communicate(timeout=60)[1]
    for path in (Path.home() / "rewardlab-jobs").glob("bench-reinforce-*"):
        shutil.rmtree(path)


def test_what_it_added_passes_the_audit_of_its_own_code(board: Path) -> None:
    """The audit there is that of the checkout, whose rows and specs are its own: asked as a command."""
    words, told = command("bench", "audit"), {"capture_output": True, "text": True}
    result = subprocess.run(words, cwd=board, env=around(board), check=False, **told)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout
    (path,) = (board / "benchmarks" / "runs").glob("reinforce_cartpole_20*")
    assert any(problem.rule in ("row", "settings", "spec") for problem in audit(path))  # ours asks for more
