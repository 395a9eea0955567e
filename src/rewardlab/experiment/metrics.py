"""How good a run was: the metrics of SLM-Lab v5, by its names and formulas (its pandas means and sums skip NaN rows).

With R_i the mean episode return at checkpoint i, and R_rand that of a random agent:

    local strength    s_i = R_i − R_rand
    strength          mean_i s_i;  max_strength, final_strength: the largest and the last
    efficiency(t)     Σ_i (s_i / t_i) / Σ_i s_i   with t = frame (sample) or t = opt_step (training)
    stability         1 − | Σ_{i<N} min(s_{i+1} − s_i, 0) / Σ_{i<N} s_i |
    consistency       1 − 2 Σ_i std_j(s_ij) / Σ_i mean_j(s_ij)   over the sessions j, std with ddof = 1
    total_reward_ma   mean of the last min(100, N) R_i: the score
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

WINDOW = 100  # checkpoints in a moving average

Series = NDArray[np.float64]
Scalars = dict[str, float]
Metrics = dict[str, Any]  # {"scalar": Scalars, "local": {name: Series}, "random_baseline": {"mean", "note"}}

SESSION_SCALARS = (
    "total_reward_ma",
    "strength",
    "max_strength",
    "final_strength",
    "sample_efficiency",
    "training_efficiency",
    "stability",
)


def random_baselines() -> dict[str, dict[str, float]]:
    """The measured returns of random agents (`python -m rewardlab.experiment.baseline` measures more)."""
    table: dict[str, dict[str, float]] = json.loads(
        resources.files("rewardlab.experiment").joinpath("random_baseline.json").read_text(encoding="utf-8")
    )
    return table


def random_baseline(env_name: str) -> float | None:
    """The mean return of a random agent in an environment, or None where nobody measured it."""
    entry = random_baselines().get(env_name)
    return None if entry is None else entry["mean"]


def moving_average(values: ArrayLike, window: int = WINDOW) -> Series:
    """At each row the mean of the last `window` rows, NaN rows left out; NaN before the first number."""
    series = np.asarray(values, np.float64)
    known = ~np.isnan(series)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, series, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    start = np.maximum(np.arange(1, len(series) + 1) - window, 0)
    end = np.arange(1, len(series) + 1)
    return _ratio(sums[end] - sums[start], counts[end] - counts[start])


def efficiency(strengths: Series, times: ArrayLike) -> tuple[float, Series]:
    """How early the strength came: Σ(s/t) / Σs, and its running value; at t = 0 there is no s/t to count."""
    ratios = _ratio(strengths, np.asarray(times, np.float64))
    total = _ratio(np.nansum(ratios), np.nansum(strengths))
    return float(total), _ratio(np.nancumsum(ratios), np.nancumsum(strengths))


def stability(strengths: Series) -> tuple[float, Series]:
    """How little was lost again: 1 − |Σ min(s' − s, 0) / Σ s|, and its terms."""
    drops = np.minimum(np.diff(strengths), 0.0)
    before = strengths[:-1]
    total = 1.0 - np.abs(_ratio(np.nansum(drops), np.nansum(before)))
    return float(total), 1.0 - np.abs(_ratio(drops, before))


def consistency(strengths: Sequence[Series]) -> tuple[float, Series]:
    """How alike the sessions are: 1 − 2 Σ std / Σ mean, and its terms; one session cannot tell (NaN)."""
    shortest = min((len(series) for series in strengths), default=0)
    table = np.array([series[:shortest] for series in strengths], np.float64).reshape(len(strengths), shortest)
    known = (~np.isnan(table)).sum(axis=0)
    mean = _ratio(np.nansum(table, axis=0), known)
    variance = _ratio(np.nansum((table - mean) ** 2, axis=0), known - 1)
    deviation = np.sqrt(variance)
    local = 1.0 - 2.0 * _ratio(deviation, mean)
    if np.isnan(deviation).all():
        return float("nan"), local
    return float(1.0 - 2.0 * _ratio(np.nansum(deviation), np.nansum(mean))), local


def session_metrics(columns: Mapping[str, ArrayLike], baseline: float | None) -> Metrics:
    """The metrics of one session from its columns total_reward, frame and opt_step."""
    returns = np.asarray(columns["total_reward"], np.float64)
    strengths = returns - (baseline or 0.0)
    sample, sample_series = efficiency(strengths, columns["frame"])
    training, training_series = efficiency(strengths, columns["opt_step"])
    stable, stable_series = stability(strengths)
    known = strengths[~np.isnan(strengths)]
    scalar = {
        "total_reward_ma": _mean(returns[-WINDOW:]),
        "strength": _mean(strengths),
        "max_strength": float(known.max()) if known.size else float("nan"),
        "final_strength": float(strengths[-1]) if strengths.size else float("nan"),
        "sample_efficiency": sample,
        "training_efficiency": training,
        "stability": stable,
    }
    local = {
        "mean_returns": returns,
        "strengths": strengths,
        "sample_efficiencies": sample_series,
        "training_efficiencies": training_series,
        "stabilities": stable_series,
        "frames": np.asarray(columns["frame"]),
        "opt_steps": np.asarray(columns["opt_step"]),
    }
    note = "measured" if baseline is not None else "not measured: strengths are returns over 0"
    return {"scalar": scalar, "local": local, "random_baseline": {"mean": baseline or 0.0, "note": note}}


def trial_metrics(sessions: Sequence[Metrics], fps: float = float("nan")) -> Metrics:
    """The metrics of a trial: the means over its sessions, their consistency, the frames of one session, the speed."""
    scalars: list[Scalars] = [session["scalar"] for session in sessions]
    consistent, consistencies = consistency([session["local"]["strengths"] for session in sessions])
    frames = sessions[0]["local"]["frames"] if sessions else []
    scalar = {
        "frame": int(frames[-1]) if len(frames) else 0,
        **{name: _mean(np.array([session[name] for session in scalars])) for name in SESSION_SCALARS},
        "consistency": consistent,
        "fps": float(fps),
    }
    names = sessions[0]["local"] if sessions else {}
    local: dict[str, Any] = {name: [session["local"][name] for session in sessions] for name in names}
    local["consistencies"] = consistencies
    baseline = sessions[0]["random_baseline"] if sessions else {"mean": 0.0, "note": "no sessions"}
    return {"scalar": scalar, "local": local, "random_baseline": baseline}


def trial_line(metrics: Mapping[str, Any]) -> str:
    """The line that the seeds' workflow greps for the score; takes a trial's metrics or their scalars."""
    scalars = metrics.get("scalar", metrics)
    return "trial_metrics: " + " | ".join(f"{name}:{_format(name, value)}" for name, value in scalars.items())


def _format(name: str, value: float | None) -> str:
    if value is None or np.isnan(value):  # None: NaN after a round trip through JSON
        return "nan"
    if name == "frame":
        return f"{value:.2e}"
    if name == "total_reward_ma":
        return f"{value:.2f}"
    if name == "fps" and value >= 100:
        return f"{value:.0f}"
    return f"{value:g}" if float(value).is_integer() else f"{value:.4g}"


def _ratio(numerator: ArrayLike, denominator: ArrayLike) -> Series:
    """a / b, NaN where b is 0: a quotient that does not exist is neither 0 nor infinite."""
    top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    blank = np.full(np.broadcast(top, bottom).shape, np.nan)
    return np.asarray(np.divide(top, bottom, out=blank, where=bottom != 0))


def _mean(values: Series) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
