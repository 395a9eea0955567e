"""Every loss's race to a reward on builtin:tiny, several seeds each: steps and seconds to the goal.

    python benchmarks/llm_losses.py                              # ten losses, three seeds: about half an hour of a core
    python benchmarks/llm_losses.py --losses grpo rloo --seeds 42

Each run is `rewardlab llm train --config configs/llm/LOSS.yaml --speedrun … --stop-at-goal` in a process of its own,
pinned to one core. Metrics files go to --folder (those that are there are not run again); the table is made of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

LOSSES = ("grpo", "drgrpo", "gspo", "cispo", "sapo", "dapo", "ppo", "rloo", "maxrl", "reinforce")


def race(loss: str, seed: int, target: float, folder: Path) -> Path:
    file = folder / f"{loss}_{seed}.json"
    if not (file.exists() and json.loads(file.read_text())["finished"]):
        words = ["llm", "train", "--config", f"configs/llm/{loss}.yaml", "-s", f"seed={seed}", "--stop-at-goal"]
        words += ["--speedrun", "--speedrun-target-reward", str(target), "--speedrun-metrics-file", str(file)]
        words += ["--data", str(folder / "runs")]
        done = subprocess.run([sys.executable, "-m", "rewardlab.cli.app", *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{loss}, seed {seed}: {done.stderr[-2000:]}")
    return file


def row(loss: str, runs: list[dict[str, Any]]) -> str:
    reached = [run for run in runs if run["goal_reached_at_step"] is not None]
    steps, seconds = "–", "–"
    if reached:
        steps = f"{statistics.mean(run['goal_reached_at_step'] for run in reached):.0f}"
        seconds = f"{statistics.mean(run['goal_walltime_sec'] for run in reached):.1f}"
    each = ", ".join(one(run) for run in runs)
    return f"| `{loss}` | {len(reached)} of {len(runs)} | {steps} | {seconds} | {each} |"


def one(run: dict[str, Any]) -> str:
    """327 (43), or how near it came."""
    if run["goal_reached_at_step"] is not None:
        return f"{run['goal_reached_at_step']} ({run['goal_walltime_sec']:.0f})"
    return f"– (best {max(x for x in run['reward_100step_history'] if x is not None):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--target", type=float, default=1.40)
    parser.add_argument("--folder", type=Path, default=Path("data/llm_losses"))
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "llm_losses.json")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    options.folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds:
        for loss in options.losses:
            file = race(loss, seed, options.target, options.folder)
            runs.setdefault(loss, []).append(json.loads(file.read_text()))
            last = runs[loss][-1]
            print(loss, seed, last["goal_reached_at_step"], last["goal_walltime_sec"], flush=True)
    head = ("loss", "seeds at the goal", "steps, mean", "seconds, mean", "by seed: steps (seconds)")
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|", *(row(loss, found) for loss, found in runs.items())]
    print("\n".join(lines))
    kept = ("seed", "goal_reached_at_step", "goal_walltime_sec", "cpu_seconds", "final_reward", "config_hash")
    kept += ("code_hash", "start_weights_hash", "data_hash", "provenance")
    record = {loss: [{name: run[name] for name in kept} for run in found] for loss, found in runs.items()}
    options.output.write_text(json.dumps({"target": options.target, "runs": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
