"""What learning leaves of a simulator's speed: each family's raw steps/s, and the frames/s of a whole PPO training of
its shipped spec on the same cores, one after the other in one run.

python benchmarks/envs.py
python benchmarks/envs.py --tasks HalfCheetah-v5 ALE/Pong-v5 --seconds 3      (a quick look)
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jax

from rewardlab.envs.look import steps_per_second
from rewardlab.envs.make import backend_of
from rewardlab.experiment import device
from rewardlab.experiment.trial import Trial
from rewardlab.spec import load

# the shipped spec of each task; on a CPU those in which the physics cost little of what a network of pixels costs, and
# Playground's, for which a GPU is meant, are there to be looked at
SPECS = {
    "LunarLander-v3": "ppo_lunar",
    "BipedalWalker-v3": "ppo_bipedal",
    "HalfCheetah-v5": "ppo_mujoco",
    "Hopper-v5": "ppo_hopper",
    "Walker2d-v5": "ppo_mujoco",
    "Ant-v5": "ppo_ant",
    "Humanoid-v5": "ppo_mujoco",
    "ALE/Pong-v5": "ppo_atari",
    "playground/CartpoleBalance": "ppo_playground",
    "playground/CheetahRun": "ppo_playground",
}


def measure(task: str, name: str, settings: list[str], seconds: float) -> dict[str, Any]:
    """The simulator alone before and after a training that is timed from its second look at the clock on."""
    spec = load(name, settings=[f"env.name={task}", "env.max_frame=1000000000", *settings])
    copies = dataclasses.replace(spec.env, num_envs=spec.env.num_envs * spec.meta.max_session)
    raw = [steps_per_second(copies, seconds / 2)]
    trial = Trial.create(spec)
    march = trial.march()
    next(march)
    next(march)
    begun, before = time.perf_counter(), trial.frame
    while time.perf_counter() - begun < seconds:
        next(march)
    frames = (trial.frame - before) * spec.meta.max_session / (time.perf_counter() - begun)
    trial.loop.close()
    raw.append(steps_per_second(copies, seconds / 2))
    mean = sum(raw) / 2
    row = {"task": task, "spec": name, "backend": backend_of(spec.env), "copies": copies.num_envs}
    return row | {"raw": raw, "frames_per_second": frames, "share": frames / mean}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SPECS), choices=SPECS, metavar="TASK")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each is timed")
    parser.add_argument("-s", dest="settings", action="append", default=[], help="a setting of all specs")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "envs.json")
    options = parser.parse_args()
    device.prepare()
    rows = []
    print(f"{'task':<28}{'stepped by':<12}{'copies':>7}{'simulator':>12}{'PPO':>12}{'share':>8}")
    for task in options.tasks:
        rows.append(measure(task, SPECS[task], options.settings, options.seconds))
        row = rows[-1]
        shown = f"{sum(row['raw']) / 2:>12,.0f}{row['frames_per_second']:>12,.0f}{row['share']:>8.0%}"
        print(f"{task:<28}{row['backend']:<12}{row['copies']:>7}{shown}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    where = {"cores": device.available_cores(), "device": jax.local_devices()[0].device_kind}
    options.output.write_text(json.dumps(where | {"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
