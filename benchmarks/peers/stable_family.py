"""Stable-Baselines3 and sbx share one interface; this builds the same model in either and times its `learn`."""

import time
from types import ModuleType
from typing import Any

import numpy as np
import torch
from contract import Measurement, Request, wait_at_barrier
from settings import TASKS, WARMUP_FRAMES, DqnWork, PpoWork, SacWork
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


def ppo_arguments(work: PpoWork) -> dict[str, Any]:
    return {
        "n_steps": work.rollout_steps,
        "batch_size": work.minibatch_size,
        "n_epochs": work.epochs,
        "gae_lambda": work.gae_lambda,
        "clip_range": work.clip,
        "ent_coef": work.entropy_coef,
        "vf_coef": work.value_coef,
        "max_grad_norm": work.max_grad_norm,
    }


def replay_arguments(work: DqnWork | SacWork) -> dict[str, Any]:
    return {
        "batch_size": work.batch_size,
        "buffer_size": work.buffer_size,
        "learning_starts": work.learning_starts,
        "train_freq": work.train_frequency,
        "gradient_steps": work.gradient_steps,
    }


def dqn_arguments(work: DqnWork) -> dict[str, Any]:
    return replay_arguments(work) | {
        "target_update_interval": work.target_update_interval,
        "exploration_fraction": work.exploration_fraction,
        "exploration_final_eps": work.exploration_final,
    }


def sac_arguments(work: SacWork) -> dict[str, Any]:
    return replay_arguments(work) | {"tau": work.polyak, "ent_coef": "auto"}


def build(library: ModuleType, task: str, seed: int) -> Any:
    """`library` is stable_baselines3 or sbx: the same class names, the same arguments."""
    work = TASKS[task]
    if isinstance(work, PpoWork):
        algorithm, arguments = library.PPO, ppo_arguments(work)
    elif isinstance(work, DqnWork):
        algorithm, arguments = library.DQN, dqn_arguments(work)
    else:
        algorithm, arguments = library.SAC, sac_arguments(work)
    return algorithm(
        "MlpPolicy",
        make_vec_env(work.env_id, n_envs=work.num_envs, seed=seed),
        learning_rate=work.learning_rate,
        gamma=work.gamma,
        policy_kwargs={"net_arch": list(work.widths)},
        seed=seed,
        device="cpu",
        **arguments,
    )


class StartClock(BaseCallback):
    """Starts the clock at the first rollout after the warm-up, so that compilation stays outside."""

    def __init__(self, request: Request, warmup_frames: int) -> None:
        super().__init__()
        self.request = request
        self.warmup_frames = warmup_frames
        self.start_time: float | None = None
        self.start_frames = 0
        self.start_updates = 0

    def _on_rollout_start(self) -> None:
        if self.start_time is None and self.model.num_timesteps >= self.warmup_frames:
            self.start_frames = self.model.num_timesteps
            self.start_updates = self.model._n_updates
            self.warm_time = time.perf_counter()
            wait_at_barrier(self.request)
            self.start_time = time.perf_counter()

    def _on_step(self) -> bool:
        return True


def measure(library: ModuleType, request: Request) -> Measurement:
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    work, warmup = TASKS[request.task], WARMUP_FRAMES[request.task]
    born = time.perf_counter()
    model = build(library, request.task, request.seed)
    clock = StartClock(request, warmup)
    model.learn(warmup + request.frames, callback=clock)
    seconds = time.perf_counter() - clock.start_time
    updates = model._n_updates - clock.start_updates
    if isinstance(work, PpoWork):
        updates *= work.minibatches  # both libraries count epochs there
    returns = [episode["r"] for episode in model.ep_info_buffer]
    return Measurement(
        frames=model.num_timesteps - clock.start_frames,
        seconds=seconds,
        warmup_seconds=clock.warm_time - born,
        updates=updates,
        return_last=float(np.mean(returns)) if returns else None,
    )
