import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardlab.experiment import metrics

NAN = float("nan")
# One session, R_rand = 10: R = 20, 30, 25 → s = 10, 20, 15; Σ s = 45
SESSION: dict[str, Any] = {"total_reward": [20.0, 30.0, 25.0], "frame": [100, 200, 300], "opt_step": [0, 10, 20]}


def test_session_scalars_by_hand() -> None:
    scalar = metrics.session_metrics(SESSION, 10.0)["scalar"]
    assert scalar["total_reward_ma"] == pytest.approx(25.0)  # (20 + 30 + 25) / 3
    assert scalar["strength"] == pytest.approx(15.0)  # 45 / 3
    assert scalar["max_strength"] == 20.0
    assert scalar["final_strength"] == 15.0
    # 10/100 + 20/200 + 15/300 = 0.25; 0.25 / 45
    assert scalar["sample_efficiency"] == pytest.approx(0.25 / 45)
    # 10/0 is dropped; 20/10 + 15/20 = 2.75; 2.75 / 45 (the sum below keeps all rows, as SLM-Lab's does)
    assert scalar["training_efficiency"] == pytest.approx(2.75 / 45)
    # the one drop is 15 − 20 = −5; Σ_{i<N} s = 10 + 20 = 30; 1 − 5/30
    assert scalar["stability"] == pytest.approx(1 - 5 / 30)


def test_local_series_by_hand() -> None:
    local = metrics.session_metrics(SESSION, 10.0)["local"]
    assert local["strengths"].tolist() == [10.0, 20.0, 15.0]
    # running: 0.1/10, 0.2/30, 0.25/45
    assert local["sample_efficiencies"] == pytest.approx([0.01, 0.2 / 30, 0.25 / 45])
    # 1 − 0/10, 1 − 5/20
    assert local["stabilities"] == pytest.approx([1.0, 0.75])


def test_rows_before_the_first_episode_ended_do_not_count() -> None:
    late = {"total_reward": [NAN, *SESSION["total_reward"]], "frame": [50, 100, 200, 300], "opt_step": [0, 0, 10, 20]}
    plain, padded = (metrics.session_metrics(s, 10.0)["scalar"] for s in (SESSION, late))
    assert padded == pytest.approx(plain)


def test_the_score_is_the_mean_of_the_last_hundred_checkpoints() -> None:
    returns = np.arange(150.0)  # the last hundred: 50 … 149, whose mean is 99.5
    columns = {"total_reward": returns, "frame": np.arange(150), "opt_step": np.arange(150)}
    assert metrics.session_metrics(columns, 0.0)["scalar"]["total_reward_ma"] == pytest.approx(99.5)


def test_consistency_by_hand() -> None:
    # two sessions: means 15, 20; std with ddof 1 of (10, 20) = 7.0711, of (20, 20) = 0; 1 − 2 · 7.0711 / 35
    value, local = metrics.consistency([np.array([10.0, 20.0]), np.array([20.0, 20.0, 99.0])])
    assert value == pytest.approx(1 - 2 * math.sqrt(50) / 35)
    assert local == pytest.approx([1 - 2 * math.sqrt(50) / 15, 1.0])


def test_one_session_has_no_consistency_to_claim() -> None:
    assert math.isnan(metrics.consistency([np.array([1.0, 2.0])])[0])


def test_trial_is_the_mean_over_sessions() -> None:
    better = {**SESSION, "total_reward": [30.0, 40.0, 35.0]}  # s = 20, 30, 25: strength 25
    trial = metrics.trial_metrics([metrics.session_metrics(s, 10.0) for s in (SESSION, better)], fps=75_123.4)
    scalar = trial["scalar"]
    assert scalar["strength"] == pytest.approx((15 + 25) / 2)
    assert scalar["total_reward_ma"] == pytest.approx((25 + 35) / 2)
    assert scalar["frame"] == 300
    # every std is √50, every mean 5 more than the first session's s: Σ mean = 15 + 25 + 20 = 60
    assert scalar["consistency"] == pytest.approx(1 - 2 * 3 * math.sqrt(50) / 60)
    assert len(trial["local"]["strengths"]) == 2


def test_trial_line_reads_as_the_seeds_print_it() -> None:
    scalars = {
        "frame": 200_000,
        "total_reward_ma": 498.9412,
        "strength": 401.23456,
        "max_strength": 478.0,
        "final_strength": 470.123,
        "sample_efficiency": 1.23456e-05,
        "training_efficiency": None,
        "stability": 0.98765,
        "consistency": NAN,
        "fps": 75_123.4,
    }
    assert metrics.trial_line({"scalar": scalars, "local": {}}) == (
        "trial_metrics: frame:2.00e+05 | total_reward_ma:498.94 | strength:401.2 | max_strength:478 | "
        "final_strength:470.1 | sample_efficiency:1.235e-05 | training_efficiency:nan | stability:0.9877 | "
        "consistency:nan | fps:75123"
    )


def test_trial_line_of_a_computed_trial_has_every_name_in_order() -> None:
    line = metrics.trial_line(metrics.trial_metrics([metrics.session_metrics(SESSION, None)] * 2, 10.0))
    names = re.findall(r"(\w+):[^ ]", line)
    assert names == ["frame", *metrics.SESSION_SCALARS, "consistency", "fps"]


@given(st.lists(st.one_of(st.just(NAN), st.floats(-1e4, 1e4)), max_size=250), st.integers(1, 120))
def test_moving_average_is_the_mean_of_the_window(values: list[float], window: int) -> None:
    averages = metrics.moving_average(values, window)
    assert len(averages) == len(values)
    for row, average in enumerate(averages):
        known = [v for v in values[max(0, row + 1 - window) : row + 1] if not math.isnan(v)]
        assert math.isnan(average) if not known else average == pytest.approx(sum(known) / len(known), abs=1e-6)


def test_nothing_recorded_gives_nan_and_no_warning() -> None:
    empty: dict[str, list[float]] = {"total_reward": [], "frame": [], "opt_step": []}
    trial = metrics.trial_metrics([metrics.session_metrics(empty, None)] * 2)
    assert math.isnan(trial["scalar"]["strength"])
    assert trial["scalar"]["frame"] == 0
    assert "nan" in metrics.trial_line(trial)
    metrics.session_metrics({"total_reward": [NAN], "frame": [0], "opt_step": [0]}, 0.0)


def test_unknown_environment_counts_from_zero_and_says_so() -> None:
    assert metrics.random_baseline("Nowhere-v0") is None
    measured = metrics.session_metrics(SESSION, metrics.random_baseline("Nowhere-v0"))
    assert measured["scalar"]["strength"] == pytest.approx(25.0)
    assert "not measured" in measured["random_baseline"]["note"]


@pytest.mark.parametrize(
    ("env_name", "low", "high"),
    [  # a random CartPole falls after some 22 steps; Acrobot's and MountainCar's limits are 500 and 200 steps of −1
        ("CartPole-v1", 20, 25),
        ("Acrobot-v1", -500, -490),
        ("Pendulum-v1", -1300, -1100),
        ("MountainCar-v0", -200, -199),
        ("MountainCarContinuous-v0", -40, -25),
    ],
)
def test_measured_baselines_are_plausible(env_name: str, low: float, high: float) -> None:
    entry = metrics.random_baselines()[env_name]
    assert entry["episodes"] >= 1000
    assert low <= entry["mean"] <= high


def test_the_baseline_command_measures(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    from rewardlab.experiment import baseline

    table = Path(str(tmp_path)) / "random_baseline.json"
    monkeypatch.setattr(baseline, "TABLE", table)
    baseline.main(["CartPole-v1", "--episodes", "5"])
    written = json.loads(table.read_text())["CartPole-v1"]
    assert written == baseline.measure_random_baseline("CartPole-v1", 5, 0)
    assert written["episodes"] == 5
