"""Comparisons: what is drawn, in which order and colour; SLM-Lab's folders among ours; robust aggregates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.boards.runs import finished_run
from typer.testing import CliRunner

from rewardlab.cli.app import app
from rewardlab.experiment.record import RecordError
from rewardlab.plots import compare, robust
from rewardlab.plots.compare import COLORS, colors_of, in_order, read_entry


def slm_run(root: Path, name: str = "dqn_cartpole_arc", env: str = "CartPole-v1") -> Path:
    """A folder as SLM-Lab publishes it: a spec in JSON without its name, tables with its columns."""
    folder = root / f"{name}_2026_02_11_144029"
    (folder / "info").mkdir(parents=True)
    spec: dict[str, Any] = {"agent": [{"name": "DQN", "algorithm": {"name": "DQN"}}], "name": name, "meta": {}}
    spec["env"] = [{"name": env, "max_frame": 2e5, "num_envs": 4}]
    (folder / f"{name}_t0_spec.json").write_text(json.dumps(spec))
    head = "epi,t,wall_t,opt_step,frame,fps,total_reward,total_reward_ma,loss,lr,explore_var,entropy_coef,entropy,"
    head += "grad_norm"
    for session in range(2):
        rows = [
            f"{i},{i},{i},{i},{500.0 * i},99.5,{200.0 + session},{200.0 + session},0.1,0.001,,,," for i in range(1, 401)
        ]
        (folder / "info" / f"{name}_t0_s{session}_session_df_train.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder


def test_runs_are_compared_in_the_boards_order_with_fixed_colours(tmp_path: Path) -> None:
    ours, theirs = finished_run(tmp_path, 0, [400.0, 420.0]).path, slm_run(tmp_path)
    files = compare.draw("CartPole-v1", [ours, theirs], tmp_path / "plots" / "CartPole-v1")
    assert [f.suffix for f in files] == [".png", ".json", ".html"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    told = json.loads(files[1].read_text())
    assert told["folders"] == [theirs.name, ours.name]  # DQN stands before PPO
    assert [run["score"] for run in told["runs"]] == [200.5, 410.0]
    assert told["max_frame"] == [200000]
    page = files[2].read_text()
    assert COLORS["PPO"] in page
    assert COLORS["DQN"] in page


def test_two_runs_of_an_algorithm_are_told_apart(tmp_path: Path) -> None:
    entries = in_order([read_entry(finished_run(tmp_path, i, [400.0 + i]).path) for i in range(2)])
    first, second = colors_of(entries)
    assert first == COLORS["PPO"]
    assert second != first


def test_the_mean_and_the_spread_are_those_of_the_sessions(tmp_path: Path) -> None:
    entry = read_entry(finished_run(tmp_path, 0, [400.0, 420.0]).path)
    assert entry.curves.mean[-1] == 410.0
    assert entry.curves.deviation[-1] == pytest.approx(np.sqrt(200.0))  # (10² + 10²) / (2 − 1)


def test_robust_aggregates_stand_between_random_play_and_the_target(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, [400.0, 400.0, 400.0, 211.25])
    files = robust.draw("PPO", [run.path], tmp_path / "plots" / "PPO")
    (row,) = json.loads(files[1].read_text())["iqm"]
    # (400 − 22.5) / (400 − 22.5) = 1; the lowest, (211.25 − 22.5) / 377.5 = 0.5, falls away with the highest
    assert row["iqm"] == pytest.approx(1.0, abs=1e-3)
    assert row["low"] <= row["iqm"] <= row["high"] + 1e-9
    assert files[0].read_bytes().startswith(b"\x89PNG")


def test_algorithms_that_played_different_environments_are_not_aggregated(tmp_path: Path) -> None:
    paths = [finished_run(tmp_path, 0, [400.0]).path, slm_run(tmp_path, "dqn_acrobot_arc", "Acrobot-v1")]
    with pytest.raises(RecordError, match="DQN has no run for CartPole-v1"):
        robust.draw("both", paths, tmp_path / "both")


def test_a_search_is_no_run_to_compare(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, [400.0])
    (run.path / "info" / "ppo_cartpole_experiment_df.csv").write_text("trial\n")
    with pytest.raises(RecordError, match="is a search: compare runs of train"):
        read_entry(run.path)


def test_plot_and_plot_list_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = finished_run(tmp_path / "data", 0, [400.0]).path, slm_run(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["plot", "-t", "Cart Pole", "-f", f"{ours.name},data/{theirs.name}"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "data/plots/Cart_Pole.png"
    listed = json.loads(CliRunner().invoke(app, ["plot-list", "--json"]).stdout)
    assert [(row["algorithm"], row["score"]) for row in listed] == [("DQN", 200.5), ("PPO", 400.0)]
    with pytest.raises(RecordError, match="did you mean ppo_cartpole_2026"):
        CliRunner().invoke(app, ["plot", "-t", "x", "-f", "ppo_cartpole_2026_01_01_00000"], catch_exceptions=False)
