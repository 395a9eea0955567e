"""One search, two engines: 64 PPO-CartPole trials with ASHA as a population and through Ray Tune, command to command.

    python benchmarks/search.py                      # both engines, each with an empty cache of compiled programs
    python benchmarks/search.py --warm               # the population once more, with its programs compiled before
    python benchmarks/search.py --trials 8 --engines population

Prints a table and writes JSON. Each engine is the whole command `rewardlab run ppo_cartpole search`: start, compile,
train, rank, write.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rewardlab.spec import load, to_yaml

SETTINGS: dict[str, Any] = {
    "meta.max_session": 1,
    "meta.search_scheduler": {"grace_period": 10000, "reduction_factor": 3},
    "search": {
        "agent.algorithm.gamma__uniform": [0.9, 0.999],
        "agent.algorithm.lam__uniform": [0.8, 0.99],
        "agent.net.optim_spec.lr__loguniform": [1e-4, 1e-2],
        "agent.algorithm.entropy_coef_spec.start_val__loguniform": [1e-4, 0.1],
    },
}


def run(engine: str, trials: int, folder: Path, label: str) -> dict[str, Any]:
    """One search as a person would start it."""
    spec = folder / "spec.yaml"
    spec.write_text(to_yaml(load("ppo_cartpole", overrides=SETTINGS | {"meta.max_trial": trials})))
    words = [sys.executable, "-m", "rewardlab.cli.app", "run", str(spec), "ppo_cartpole", "search"]
    words += ["--engine", engine, "--data", str(folder / label)]
    around = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder / f"cache_{engine}"), "JAX_PLATFORMS": "cpu"}
    begun = time.perf_counter()
    done = subprocess.run(words, env=around, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode != 0:
        sys.exit(f"{label} failed: {done.stderr[-2000:]}")
    (table,) = (folder / label).glob("*/info/*_experiment_df.csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    frames = sum(int(row["frame"]) for row in rows)
    statuses = {s: sum(row["status"] == s for row in rows) for s in ("finished", "stopped", "crashed")}
    best = float(rows[0]["total_reward_ma"])
    found = {"engine": engine, "label": label, "trials": len(rows), "seconds": round(seconds, 2), "best": best}
    return found | {"frames": frames, **statuses}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--engines", nargs="+", default=["population", "ray"])
    parser.add_argument("--warm", action="store_true", help="the population once more, its programs compiled before")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/search.json"))
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for engine in options.engines:
            rows.append(run(engine, options.trials, folder, engine))
            print(json.dumps(rows[-1]), flush=True)
            if engine == "population" and options.warm:
                rows.append(run(engine, options.trials, folder, "population, compiled before"))
                print(json.dumps(rows[-1]), flush=True)
    by_label = {row["label"]: row["seconds"] for row in rows}
    ratios = {
        f"ray / {label}": round(by_label["ray"] / s, 1)
        for label, s in by_label.items()
        if "ray" in by_label and label != "ray"
    }
    print("\n| engine | trials | wall time, s | best score | frames |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['label']} | {row['trials']} | {row['seconds']} | {row['best']:.2f} | {row['frames']:,} |")
    print(ratios)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    about = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    options.output.write_text(json.dumps({"rows": rows, "ratios": ratios, **about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
