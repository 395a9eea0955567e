import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.experiment.record import RecordError, RunFolder, SessionTable
from rewardlab.plots import curves

NOW = datetime(2026, 1, 2, 3, 4, 5)


def _run(root: Path, sessions: int = 2, rows: int = 30, **more: list[float]) -> RunFolder:
    run = RunFolder.create("ppo_cartpole", root, NOW)
    run.write_specs({"env": {"name": "CartPole-v1"}}, {"seed": 0})
    for session in range(sessions):
        table = SessionTable()
        returns = np.linspace(20, 100, rows) + session
        if rows:
            returns[0] = np.nan
        frames = 500 * np.arange(1, rows + 1)
        columns: dict[str, Any] = {"frame": frames, "opt_step": frames // 5, "total_reward": returns}
        table.extend({**columns, "loss": np.cos(np.arange(rows)), "lr": np.full(rows, 1e-3), **more})
        table.write(run.session_df_path(session, "train"))
    return run


def test_a_trial_is_drawn_under_the_seeds_names_and_opens_offline(tmp_path: Path) -> None:
    run = _run(tmp_path)
    drawn = curves.draw_trial(run.path)
    assert sorted(path.name for path in drawn) == [
        "ppo_cartpole_t0_session_graphs.png",
        "ppo_cartpole_t0_trial_graph_mean_returns_ma_vs_frames.html",
        "ppo_cartpole_t0_trial_graph_mean_returns_ma_vs_frames.png",
        "ppo_cartpole_t0_trial_graph_mean_returns_vs_frames.html",
        "ppo_cartpole_t0_trial_graph_mean_returns_vs_frames.png",
    ]
    for path in drawn:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            sources = re.findall(r'<script[^>]*src="([^"]*)"', path.read_text())
            assert sources == ["plotly.min.js"]
            assert (path.parent / "plotly.min.js").stat().st_size > 1_000_000


def test_the_graphs_tell_the_score_and_no_place(tmp_path: Path) -> None:
    run = _run(tmp_path)
    html = next(
        path for path in curves.draw_trial(run) if path.name.endswith("mean_returns_vs_frames.html")
    ).read_text()
    # 20 + 80/29 · i for i = 1 … 29 has the mean 20 + 80 · 15/29 = 61.3793; the second session is one more
    assert "score 61.88" in html
    assert "CartPole-v1" in html
    assert str(tmp_path) not in html


def test_mean_and_band_by_hand(tmp_path: Path) -> None:
    run = _run(tmp_path, sessions=1, rows=3)
    columns = {0: {"frame": np.array([1, 2, 3]), "total_reward": np.array([np.nan, 2.0, 4.0])}}
    columns[1] = {"frame": np.array([1, 2]), "total_reward": np.array([np.nan, 6.0])}
    gathered = curves._gather(run, columns, smooth=False)
    np.testing.assert_array_equal(gathered.mean, [np.nan, 4.0])  # (2 + 6) / 2, up to the shorter session
    np.testing.assert_allclose(gathered.deviation, [0.0, np.sqrt(8.0)])  # ((2−4)² + (6−4)²) / (2 − 1)


def test_only_columns_that_change_get_a_panel(tmp_path: Path) -> None:
    rows = 30
    run = _run(tmp_path, kl=[0.01 * i for i in range(rows)], broken=[float("nan")] * rows)
    sessions = {0: SessionTable.read(run.session_df_path(0, "train")).columns}
    assert curves._panel_names(sessions) == ["loss", "kl"]


@pytest.mark.parametrize(("sessions", "rows"), [(1, 1), (1, 5), (3, 1), (9, 3), (1, 120)])
def test_small_and_wide_trials_are_drawn_without_a_warning(tmp_path: Path, sessions: int, rows: int) -> None:
    assert curves.draw_trial(_run(tmp_path, sessions, rows).path)


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nothing to draw"):
        curves.draw_trial(_run(tmp_path, sessions=0).path)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (500, "500"), (50_000, "50k"), (1_500_000, "1.5M"), (2e9, "2B"), (-1200, "-1.2k")]
)
def test_axis_numbers_are_compact(value: float, text: str) -> None:
    assert curves.compact(value) == text


def test_it_is_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rewardlab.plots.curves", str(tmp_path / "nowhere")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert result.returncode == 1
    assert result.stderr.strip() == f"There is no run folder {tmp_path / 'nowhere'}."
