"""The work loop, for real: a missing row is run, pulled from the hub, audited; what became of it is written down."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.e2e.commands import run

from rewardlab.boards import work

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with an empty board."""
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "benchmarks" / "runs").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_the_plan_names_what_would_be_run(checkout: Path) -> None:
    rows = json.loads(run(checkout, "bench", "run", "sarsa", "--plan", "--json").stdout)
    assert rows == [{"env": "CartPole-v1", "algorithm": "SARSA", "next": "sarsa_cartpole train"}]
    shown = run(checkout, "bench", "run", "HalfCheetah", "--plan").stdout
    assert "HalfCheetah-v5" in shown


def test_a_missing_row_is_run_and_harvested(checkout: Path) -> None:
    searched = {"key": "sarsa_cartpole/CartPole-v1/search", "spec": "sarsa_cartpole", "env": "CartPole-v1"}
    searched |= {"mode": "search", "since": "2026-01-01", "outcome": "searched"}  # for real it would take too long here
    ledger = {"active": [], "completed": [searched]}
    work.write_ledger(checkout / "benchmarks" / "runs", ledger)
    result = run(checkout, "bench", "run", "sarsa")
    assert result.returncode == 0, result.stderr
    assert "sarsa_cartpole on CartPole-v1: train, submitted to local" in result.stderr
    done = work.read_ledger(checkout / "benchmarks" / "runs")
    assert done["active"] == []
    row = done["completed"][-1]
    assert (row["spec"], row["env"], row["mode"]) == ("sarsa_cartpole", "CartPole-v1", "train")
    (pulled,) = (checkout / "data").glob("sarsa_cartpole_20*")
    if row["outcome"].startswith("refused"):  # a checkout with changes: the audit is right to refuse
        assert "git: the code differed from its commit" in row["outcome"]
        assert not list((checkout / "benchmarks" / "runs").iterdir())
    else:
        assert row["outcome"].startswith("✅")
        assert (checkout / "benchmarks" / "runs" / pulled.name).is_dir()
        assert pulled.name in (checkout / "docs" / "BENCHMARKS.md").read_text()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    assert log.startswith("docs: CartPole-v1 benchmark, sarsa_cartpole ")
    assert "nothing is left to try" in result.stderr
    again = run(checkout, "bench", "run", "sarsa")  # started again, it has nothing to do
    assert again.returncode == 0
    assert "submitted" not in again.stderr
