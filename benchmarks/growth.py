"""How cost grows with sessions: the same packaged spec with 1, 4, 16 and 64 of them, each a single program.

python benchmarks/growth.py
python benchmarks/growth.py --specs ppo_cartpole --sessions 1 4 --seconds 2      (a quick look)
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rewardlab.experiment import device
from rewardlab.experiment.trial import Trial
from rewardlab.spec import load


def measure(name: str, sessions: int, seconds: float) -> dict[str, Any]:
    """Seconds that a whole trial takes without compiling, from as many frames as fit into the time."""
    settings = [f"meta.max_session={sessions}", "env.max_frame=100000000"]
    begun = time.perf_counter()
    trial = Trial.create(load(name, settings=settings))
    march = trial.march()
    for _ in range(5):  # compiles, fills replays past their first batches, grows the chunks
        next(march)
    warmup = time.perf_counter() - begun
    begun, before = time.perf_counter(), trial.frame
    while time.perf_counter() - begun < seconds:
        next(march)
    taken = time.perf_counter() - begun
    per_session = (trial.frame - before) / taken
    whole = load(name).env.max_frame / per_session
    row = {"spec": name, "sessions": sessions, "frames_per_second": per_session * sessions, "trial_seconds": whole}
    return row | {"warmup_seconds": warmup}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", nargs="+", default=["ppo_cartpole", "dqn_cartpole", "sac_pendulum"])
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each is timed")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "growth.json")
    options = parser.parse_args()
    device.prepare()
    rows = []
    print(f"{'spec':<16}{'sessions':>9}{'frames/s':>12}{'trial s':>10}{'cost':>8}")
    for name in options.specs:
        for sessions in options.sessions:
            rows.append(measure(name, sessions, options.seconds))
            first = next(row for row in rows if row["spec"] == name)
            rows[-1]["cost"] = rows[-1]["trial_seconds"] / first["trial_seconds"]
            row = rows[-1]
            shown = f"{row['frames_per_second']:>12,.0f}{row['trial_seconds']:>10.1f}{row['cost']:>7.1f}×"
            print(f"{name:<16}{sessions:>9}{shown}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"cores": device.available_cores(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
