"""Runs as the recorder leaves them, made up."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.experiment import metrics
from rewardlab.experiment.record import RunFolder, SessionTable, write_json
from rewardlab.spec import dump, load

CLEAN = {"seed": 0, "git": {"sha": "0123456789abcdef", "dirty": False}}


def finished_run(
    root: Path,
    second: int,
    returns: list[float],
    run: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> RunFolder:
    """A run of ppo_cartpole; session i's return is `returns[i]` throughout."""
    spec = load("ppo_cartpole", settings=[f"{key}={value}" for key, value in (settings or {}).items()])
    now = datetime.datetime(2026, 1, 1, 0, 0, second)
    folder = RunFolder.create("ppo_cartpole", root, now)
    folder.write_specs(dump(spec), CLEAN if run is None else run)
    frames = np.arange(spec.meta.log_frequency, spec.env.max_frame + 1, spec.meta.log_frequency)
    sessions = []
    for session, value in enumerate(returns):
        table = SessionTable()
        reward = np.full(len(frames), value, np.float32)
        columns: dict[str, Any] = {
            "frame": frames,
            "opt_step": frames // 8,
            "total_reward": reward,
            "total_reward_ma": reward,
        }
        table.extend(columns)
        table.write(folder.session_df_path(session, "train"))
        sessions.append(metrics.session_metrics(table.columns, metrics.random_baseline("CartPole-v1")))
    folder.append_timing({"frame": 100, "frames": 800, "seconds": 2.0, "compiled": True})
    folder.append_timing({"frame": 200, "frames": 800, "seconds": 0.5, "compiled": False})
    rest = spec.env.max_frame * spec.meta.max_session - 1600  # at the speed of the chunk before
    folder.append_timing({"frame": spec.env.max_frame, "frames": rest, "seconds": rest / 1600, "compiled": False})
    write_json(folder.trial_metrics_path, metrics.trial_metrics(sessions))
    folder.graph_path("trial_graph_mean_returns_vs_frames.png").write_bytes(b"png")
    return folder
