"""PPO for discrete actions as one short eager PyTorch program around a synchronous Gymnasium vector environment.

Written from the paper (Schulman et al. 2017) in the one-file style that CleanRL made popular; no metrics are computed
inside the loop, so it does slightly less than such programs usually do.
"""

import time
from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from contract import Measurement, Request, parse_request, report, wait_at_barrier
from settings import TASKS, WARMUP_FRAMES, PpoWork
from torch import Tensor, nn
from torch.distributions import Categorical


def dense(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_mlp(inputs: int, widths: tuple[int, int], outputs: int, last_gain: float) -> nn.Sequential:
    first, second = widths
    gain = float(np.sqrt(2))
    hidden = (dense(inputs, first, gain), nn.Tanh(), dense(first, second, gain), nn.Tanh())
    return nn.Sequential(*hidden, dense(second, outputs, last_gain))


@dataclass
class Rollout:
    """Leading axes: time, environment."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    rewards: Tensor
    dones: Tensor
    values: Tensor

    @classmethod
    def empty(cls, work: PpoWork, observation_size: int) -> "Rollout":
        steps, envs = work.rollout_steps, work.num_envs
        scalar = [torch.zeros(steps, envs) for _ in range(5)]
        scalar[0] = torch.zeros(steps, envs, dtype=torch.long)
        return cls(torch.zeros(steps, envs, observation_size), *scalar)


class Program:
    def __init__(self, work: PpoWork, seed: int) -> None:
        torch.manual_seed(seed)
        self.work = work
        make = [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(work.env_id))] * work.num_envs
        same_step = gymnasium.vector.AutoresetMode.SAME_STEP
        self.envs = gymnasium.vector.SyncVectorEnv(make, autoreset_mode=same_step)
        size = self.envs.single_observation_space.shape[0]
        self.actor = tanh_mlp(size, work.widths, int(self.envs.single_action_space.n), last_gain=0.01)
        self.critic = tanh_mlp(size, work.widths, 1, last_gain=1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=work.learning_rate, eps=work.adam_epsilon)
        self.rollout = Rollout.empty(work, size)
        self.observation = torch.as_tensor(self.envs.reset(seed=seed)[0])
        self.returns: list[float] = []

    @torch.no_grad()
    def collect(self) -> None:
        rollout = self.rollout
        for step in range(self.work.rollout_steps):
            policy = Categorical(logits=self.actor(self.observation))
            action = policy.sample()
            rollout.observations[step] = self.observation
            rollout.actions[step] = action
            rollout.log_probs[step] = policy.log_prob(action)
            rollout.values[step] = self.critic(self.observation).squeeze(-1)
            observation, reward, terminated, truncated, info = self.envs.step(action.numpy())
            rollout.rewards[step] = torch.as_tensor(reward, dtype=torch.float32)
            rollout.dones[step] = torch.as_tensor(np.logical_or(terminated, truncated), dtype=torch.float32)
            self.observation = torch.as_tensor(observation)
            if "final_info" in info:
                ended = info["final_info"]["_episode"]
                self.returns.extend(info["final_info"]["episode"]["r"][ended].tolist())

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """GAE(lambda); an episode's end of either kind cuts the sum, as in the one-file programs."""
        work, rollout = self.work, self.rollout
        advantages = torch.zeros_like(rollout.rewards)
        running = torch.zeros(work.num_envs)
        next_value = self.critic(self.observation).squeeze(-1)
        for step in reversed(range(work.rollout_steps)):
            alive = 1.0 - rollout.dones[step]
            delta = rollout.rewards[step] + work.gamma * next_value * alive - rollout.values[step]
            running = delta + work.gamma * work.gae_lambda * alive * running
            advantages[step] = running
            next_value = rollout.values[step]
        return advantages

    def loss(self, rows: Tensor, batch: dict[str, Tensor]) -> Tensor:
        work = self.work
        observations = batch["observations"][rows]
        policy = Categorical(logits=self.actor(observations))
        advantages = batch["advantages"][rows]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (policy.log_prob(batch["actions"][rows]) - batch["log_probs"][rows]).exp()
        clipped = ratio.clamp(1 - work.clip, 1 + work.clip)
        policy_loss = -torch.min(ratio * advantages, clipped * advantages).mean()
        value_loss = 0.5 * (self.critic(observations).squeeze(-1) - batch["targets"][rows]).square().mean()
        return policy_loss + work.value_coef * value_loss - work.entropy_coef * policy.entropy().mean()

    def iterate(self) -> None:
        self.collect()
        advantages = self.advantages()
        batch = {
            "observations": self.rollout.observations.flatten(0, 1),
            "actions": self.rollout.actions.flatten(),
            "log_probs": self.rollout.log_probs.flatten(),
            "advantages": advantages.flatten(),
            "targets": (advantages + self.rollout.values).flatten(),
        }
        for _ in range(self.work.epochs):
            for rows in torch.randperm(self.work.frames_per_iteration).split(self.work.minibatch_size):
                self.optimizer.zero_grad()
                self.loss(rows, batch).backward()
                nn.utils.clip_grad_norm_(self.parameters, self.work.max_grad_norm)
                self.optimizer.step()


def measure(request: Request) -> Measurement:
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    work = TASKS[request.task]
    born = time.perf_counter()
    program = Program(work, request.seed)
    for _ in range(WARMUP_FRAMES[request.task] // work.frames_per_iteration):
        program.iterate()
    warm = time.perf_counter()
    wait_at_barrier(request)
    start = time.perf_counter()
    iterations = -(-request.frames // work.frames_per_iteration)
    for _ in range(iterations):
        program.iterate()
    return Measurement(
        frames=iterations * work.frames_per_iteration,
        seconds=time.perf_counter() - start,
        warmup_seconds=warm - born,
        updates=iterations * work.updates_per_iteration,
        return_last=float(np.mean(program.returns[-100:])),
    )


def main() -> None:
    request = parse_request("cleanrl", [task for task, work in TASKS.items() if isinstance(work, PpoWork)])
    versions = {"torch": torch.__version__, "gymnasium": gymnasium.__version__}
    report(request, measure(request), device="cpu", versions=versions)


if __name__ == "__main__":
    main()
