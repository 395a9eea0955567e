"""Measure random agents: `python -m rewardlab.experiment.baseline ENV… [--episodes 1000] [--seed 0]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rewardlab.experiment.metrics import random_baselines
from rewardlab.files import write_json

TABLE = Path(__file__).with_name("random_baseline.json")


def measure_random_baseline(env_name: str, episodes: int = 1000, seed: int = 0) -> dict[str, float]:
    """The mean and standard deviation of the return of uniformly random actions in a Gymnasium environment."""
    import gymnasium

    env = gymnasium.make(env_name)
    env.action_space.seed(seed)
    returns = []
    for episode in range(episodes):
        env.reset(seed=seed if episode == 0 else None)
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total += float(reward)
            ended = terminated or truncated
        returns.append(total)
    env.close()
    return {"mean": float(np.mean(returns)), "std": float(np.std(returns)), "episodes": episodes, "seed": seed}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the environments named and write them into the table beside this file."""
    parser = argparse.ArgumentParser(prog="python -m rewardlab.experiment.baseline", description=__doc__)
    parser.add_argument("env", nargs="+")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for env_name in options.env:
        measured = measure_random_baseline(env_name, options.episodes, options.seed)
        write_json(TABLE, dict(sorted({**random_baselines(), env_name: measured}.items())))
        print(f"{env_name}: {measured['mean']:.4f} ± {measured['std']:.4f}", file=sys.stderr)


if __name__ == "__main__":
    main()
