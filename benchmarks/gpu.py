"""PPO CartPole on one accelerator: thousands of environments in each of four sessions, all one program.

    python benchmarks/gpu.py                                         # on a machine with a GPU
    python benchmarks/gpu.py --num-envs 64 --seconds 2               # a quick look anywhere

Rollouts of 128 vector steps, 4 epochs of 4 minibatches, nets of 64×64: the whole of training, tables' columns included.
"""

import argparse
import json
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rewardlab.experiment import device
from rewardlab.experiment.trial import Trial
from rewardlab.spec import Spec, from_dict

EPOCHS, MINIBATCHES = 4, 4


def spec_of(num_envs: int, horizon: int, sessions: int) -> Spec:
    """PPO CartPole with this many environments per session."""
    frames = num_envs * horizon
    algorithm = {"name": "PPO", "time_horizon": horizon, "minibatch_size": frames // MINIBATCHES}
    algorithm |= {"training_epoch": EPOCHS, "entropy_coef_spec": {"name": "no_decay", "start_val": 0.01}}
    net = {"hid_layers": [64, 64], "hid_layers_activation": "tanh", "clip_grad_val": 0.5, "init_fn": "orthogonal_"}
    net |= {"actor_init_std": 0.01, "critic_init_std": 1.0, "optim_spec": {"name": "Adam", "lr": 1e-3}}
    env = {"name": "CartPole-v1", "num_envs": num_envs, "max_frame": frames * 1_000_000}
    meta = {"max_session": sessions, "log_frequency": frames, "eval_frequency": frames}
    return from_dict({"agent": {"algorithm": algorithm, "net": net}, "env": env, "meta": meta}, "ppo_cartpole")


def measure(num_envs: int, horizon: int, sessions: int, seconds: float) -> dict[str, Any]:
    """Frames per second of all sessions together, after compilation."""
    begun = time.perf_counter()
    trial = Trial.create(spec_of(num_envs, horizon, sessions))
    march = trial.march()
    for _ in range(3):
        chunk = next(march)  # compiles, then grows to half a second
    warmup = time.perf_counter() - begun
    begun, before = time.perf_counter(), trial.segment
    while time.perf_counter() - begun < seconds:
        chunk = next(march)
    taken = time.perf_counter() - begun
    frames = (trial.segment - before) * trial.loop.plan.frames * sessions
    row = {"num_envs": num_envs, "horizon": horizon, "sessions": sessions, "frames_per_second": frames / taken}
    last = float(np.nanmean(np.asarray(chunk.seen.total_reward)[:, -1, -1]))
    return row | {"frames": frames, "seconds": taken, "warmup_seconds": warmup, "return_last": last}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[4096, 16384], help="per session")
    parser.add_argument("--horizon", type=int, default=128)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each is timed")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "gpu.json")
    options = parser.parse_args()
    device.prepare()
    kind = jax.devices()[0].device_kind
    print(f"{kind}\n{'environments × sessions':>26}{'frames/s':>16}{'warm-up s':>12}{'last return':>14}")
    rows = []
    for num_envs in options.num_envs:
        rows.append(measure(num_envs, options.horizon, options.sessions, options.seconds))
        label, row = f"{num_envs} × {options.sessions}", rows[-1]
        print(f"{label:>26}{row['frames_per_second']:>16,.0f}{row['warmup_seconds']:>12.1f}{row['return_last']:>14.1f}")
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "equinox", "optax")}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    record = {"device": kind, "versions": versions, "epochs": EPOCHS, "minibatches": MINIBATCHES, "rows": rows}
    options.output.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
