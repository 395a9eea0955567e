"""The board: what counts, what does not, and that the page is what the committed runs give."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.boards import benchmark
from rewardlab.experiment.record import RecordError, RunFolder, SessionTable, write_json
from rewardlab.spec import dump, load

REPOSITORY = Path(__file__).parents[2]


def finished_run(root: Path, second: int, returns: list[float], **settings: Any) -> RunFolder:
    """A run of ppo_cartpole as the recorder leaves it; session i's return is `returns[i]` throughout."""
    spec = load("ppo_cartpole", settings=[f"{key}={value}" for key, value in settings.items()])
    now = datetime.datetime(2026, 1, 1, 0, 0, second)
    folder = RunFolder.create("ppo_cartpole", root, now)
    folder.write_specs(dump(spec), {"seed": 0})
    frames = np.arange(500, spec.env.max_frame + 1, 500)
    for session, value in enumerate(returns):
        table = SessionTable()
        table.extend(
            {"frame": frames, "opt_step": frames // 8, "total_reward": np.full(len(frames), value, np.float32)}
        )
        table.write(folder.session_df_path(session, "train"))
    folder.append_timing({"frame": 100, "frames": 800, "seconds": 2.0, "compiled": True})
    folder.append_timing({"frame": 200, "frames": 800, "seconds": 0.5, "compiled": False})
    write_json(folder.trial_metrics_path, {"scalar": {"total_reward_ma": 1.0}, "local": {"long": [1.0]}})
    folder.graph_path("trial_graph_mean_returns_vs_frames.png").write_bytes(b"png")
    return folder


def test_a_row_is_computed_from_the_tables(tmp_path: Path) -> None:
    finished_run(tmp_path, 0, [400.0, 410.0, 420.0, 430.0])
    (result,) = benchmark.collect(tmp_path)
    assert (result.target.env, result.target.algorithm) == ("CartPole-v1", "PPO")
    assert result.score == pytest.approx(415.0)  # not the 1.0 that the metrics file claims
    assert result.fps == pytest.approx(1600.0)  # 800 frames in 0.5 s; the chunk that compiled is left out
    assert result.status == "✅"
    page = benchmark.render([result], Path("runs"))
    # the deviation of 400, 410, 420, 430 over n − 1 is √(500 / 3) = 12.91
    assert "| PPO | ✅ | 415.00 ± 12.91 | 400 | 498.94 | 1,600 | `ppo_cartpole` |" in page
    assert "| DQN | – | – | 400 |" in page
    assert "max_frame 2e5 | num_envs 4 | max_session 4 | log_frequency 500" in page


@pytest.mark.parametrize(("score", "status"), [(400.0, "✅"), (399.0, "⚠️"), (325.0, "⚠️"), (320.0, "❌"), (10.0, "❌")])
def test_status_is_measured_from_random_play(tmp_path: Path, score: float, status: str) -> None:
    # random play has 22.5: 0.8 of the way to 400 is 22.5 + 0.8 · 377.5 = 324.5
    finished_run(tmp_path, 0, [score] * 4)
    assert benchmark.collect(tmp_path)[0].status == status


def test_the_newest_run_counts_and_not_the_best(tmp_path: Path) -> None:
    finished_run(tmp_path, 1, [500.0] * 4)
    newest = finished_run(tmp_path, 2, [450.0] * 4)
    (result,) = benchmark.collect(tmp_path)
    assert result.folder == newest.path.name
    assert result.score == 450.0


@pytest.mark.parametrize("settings", [{"env.max_frame": 100000}, {"env.num_envs": 8}, {"meta.log_frequency": 1000}])
def test_a_run_that_departs_from_the_settings_does_not_count(tmp_path: Path, settings: dict[str, Any]) -> None:
    finished_run(tmp_path, 0, [500.0] * 4, **settings)
    assert benchmark.collect(tmp_path) == []


def test_a_run_with_a_session_missing_does_not_count(tmp_path: Path) -> None:
    finished_run(tmp_path, 0, [500.0] * 3)
    assert benchmark.collect(tmp_path) == []


def test_what_is_kept_gives_the_same_row(tmp_path: Path) -> None:
    folder = finished_run(tmp_path / "data", 0, [400.0, 410.0, 420.0, 430.0])
    (folder.path / "model" / "weights").write_bytes(b"large")
    kept = benchmark.keep(folder.path, tmp_path / "kept")
    assert benchmark.collect(tmp_path / "kept") == benchmark.collect(tmp_path / "data")
    assert not (kept / "model").exists()


def test_an_unfinished_run_is_not_kept(tmp_path: Path) -> None:
    folder = finished_run(tmp_path, 0, [500.0] * 4)
    folder.trial_metrics_path.unlink()
    with pytest.raises(RecordError, match="not finished: resume it with rewardlab run ppo_cartpole train@"):
        benchmark.keep(folder.path, tmp_path / "kept")


def test_the_page_is_what_the_committed_runs_give() -> None:
    runs = Path("benchmarks/runs")
    results = benchmark.collect(REPOSITORY / runs)
    assert len([r for r in results if r.target.category == "Classic Control"]) == 18
    assert (REPOSITORY / "docs/BENCHMARKS.md").read_text(encoding="utf-8") == benchmark.render(results, runs)
