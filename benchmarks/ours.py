"""RewardLab's own side of `benchmarks/classic.py`: the loop of `rewardlab run`, without the run folder."""

import time
from collections import deque
from importlib import metadata
from typing import Any

import numpy as np

from peers.contract import Measurement, Request, parse_request, report, wait_at_barrier
from peers.settings import TASKS, DqnWork, PpoWork, SacWork, Work
from rewardlab.experiment import device
from rewardlab.experiment.trial import Trial
from rewardlab.spec import Spec, from_dict


def spec_of(request: Request) -> Spec:
    """The task in our words."""
    work = TASKS[request.task]
    agent, iteration = agent_of(work, request.frames)
    env = {"name": work.env_id, "num_envs": work.num_envs, "max_frame": request.frames}
    meta = {"max_session": request.sessions, "seed": request.seed, "log_frequency": max(500, iteration)}
    return from_dict({"agent": agent, "env": env, "meta": meta}, request.task)


def agent_of(work: Work, frames: int) -> tuple[dict[str, Any], int]:
    """The agent section, and the frames of one iteration."""
    net: dict[str, Any] = {"hid_layers": list(work.widths), "optim_spec": {"name": "Adam", "lr": work.learning_rate}}
    match work:
        case PpoWork():
            net |= {"hid_layers_activation": "tanh", "init_fn": "orthogonal_", "actor_init_std": 0.01}
            net |= {"critic_init_std": 1.0, "clip_grad_val": work.max_grad_norm}
            net["optim_spec"]["eps"] = work.adam_epsilon
            algorithm = {
                "name": "PPO",
                "gamma": work.gamma,
                "lam": work.gae_lambda,
                "clip_eps_spec": {"start_val": work.clip},
                "entropy_coef_spec": {"start_val": work.entropy_coef},
                "val_loss_coef": work.value_coef / 2,  # theirs halves the squared error
                "time_horizon": work.rollout_steps,
                "minibatch_size": work.minibatch_size,
                "training_epoch": work.epochs,
            }
            return {"algorithm": algorithm, "net": net}, work.frames_per_iteration
        case DqnWork():
            net |= {"update_frequency": work.target_update_interval, "loss_spec": {"name": "SmoothL1Loss"}}
            explore = {"name": "linear_decay", "start_val": 1.0, "end_val": work.exploration_final}
            algorithm = {
                "name": "DQN",
                "explore_var_spec": explore | {"end_step": work.exploration_fraction * frames},
                "training_iter": work.gradient_steps,
            }
        case SacWork():
            net |= {"update_type": "polyak", "polyak_coef": work.polyak}
            algorithm = {"name": "SAC", "training_iter": work.gradient_steps}
    algorithm |= {
        "gamma": work.gamma,
        "training_frequency": work.train_frequency,
        "training_start_step": work.learning_starts,
    }
    memory = {"name": "Replay", "batch_size": work.batch_size, "max_size": work.buffer_size}
    return {"algorithm": algorithm, "memory": memory, "net": net}, work.train_frequency * work.num_envs


def main() -> None:
    request = parse_request("rewardlab", tuple(TASKS), can_hold_sessions=True)
    device.prepare()
    begun = time.perf_counter()
    trial = Trial.create(spec_of(request))
    march = trial.march()
    first = next(march)  # compiles
    warmup = time.perf_counter() - begun
    wait_at_barrier(request)
    begun = time.perf_counter()
    last = deque(march, maxlen=1)[0]
    seconds = time.perf_counter() - begun
    frames = (trial.loop.plan.segments - first.segments) * trial.loop.plan.frames
    returns = np.asarray(last.seen.total_reward)[:, -1, -1]
    updates = int(np.asarray(last.seen.metrics["opt_step"])[0, -1])
    measured = Measurement(frames, seconds, warmup, updates, float(np.nanmean(returns)))
    versions = {name: metadata.version(name) for name in ("rewardlab", "jax", "jaxlib", "equinox", "optax")}
    report(request, measured, "cpu", versions)


if __name__ == "__main__":
    main()
