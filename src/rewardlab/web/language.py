"""A language model's run as its page shows it: read from its steps, which it writes as they come."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardlab.experiment.record import RunFolder

WINDOW = 100  # steps that the reward of the boards is the mean of
SHOWN = ("seconds", "accuracy", "format", "entropy", "length", "kl", "tokens_per_second")
Steps = tuple[dict[str, Any], ...]


def steps_of(folder: RunFolder) -> Steps | None:
    """The steps of a language model's run; None for any other run."""
    path = folder.path / "info" / f"{folder.stem}_steps.jsonl"
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else None


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> Steps:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            step = json.loads(line)
            found.append({**step, "step": int(step["step"]), "reward": float(step["reward"])})
        except (ValueError, TypeError, KeyError):
            break  # it is being written, or a kill cut it short
    return tuple(found)


def figures(steps: Steps) -> dict[str, float]:
    """The run in numbers: its steps and seconds, the boards' reward, and what the last step was like."""
    if not steps:
        return {}
    last = [step["reward"] for step in steps[-WINDOW:]]
    found = {"steps": steps[-1]["step"], "reward_100step": sum(last) / len(last)}
    return found | {name: steps[-1][name] for name in SHOWN if name in steps[-1]}


def curve(rewards: list[float]) -> list[tuple[float, float]]:
    """After each step the mean of the last 100 rewards."""
    sums = [0.0]
    for reward in rewards:
        sums.append(sums[-1] + reward)
    return [(float(i), (sums[i] - sums[max(0, i - WINDOW)]) / min(i, WINDOW)) for i in range(1, len(sums))]
