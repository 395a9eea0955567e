"""The work every contestant does: one table, read by the driver, by each peer and by RewardLab's own side.

Standard library only, because it is imported in two different environments.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PpoWork:
    env_id: str = "CartPole-v1"
    num_envs: int = 4
    rollout_steps: int = 128
    epochs: int = 4
    minibatches: int = 4
    widths: tuple[int, int] = (64, 64)
    learning_rate: float = 2.5e-4
    adam_epsilon: float = 1e-5
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5

    @property
    def frames_per_iteration(self) -> int:
        return self.num_envs * self.rollout_steps

    @property
    def minibatch_size(self) -> int:
        return self.frames_per_iteration // self.minibatches

    @property
    def updates_per_iteration(self) -> int:
        return self.epochs * self.minibatches


@dataclass(frozen=True)
class DqnWork:
    env_id: str = "CartPole-v1"
    num_envs: int = 1
    batch_size: int = 64
    buffer_size: int = 100_000
    learning_starts: int = 1000
    train_frequency: int = 256
    gradient_steps: int = 128
    target_update_interval: int = 10
    widths: tuple[int, int] = (256, 256)
    learning_rate: float = 2.3e-3
    gamma: float = 0.99
    exploration_fraction: float = 0.16
    exploration_final: float = 0.04


@dataclass(frozen=True)
class SacWork:
    env_id: str = "Pendulum-v1"
    num_envs: int = 1
    batch_size: int = 256
    buffer_size: int = 100_000
    learning_starts: int = 100
    train_frequency: int = 1
    gradient_steps: int = 1
    widths: tuple[int, int] = (256, 256)
    learning_rate: float = 3e-4
    gamma: float = 0.99
    polyak: float = 0.005


Work = PpoWork | DqnWork | SacWork

TASKS: dict[str, Work] = {
    "ppo_cartpole": PpoWork(),
    "ppo_cartpole_64": PpoWork(num_envs=64),
    "dqn_cartpole": DqnWork(),
    "sac_pendulum": SacWork(),
}

# Frames of one session in a full run; fps does not depend on them, so slow contestants may be measured on fewer.
FULL_FRAMES = {"ppo_cartpole": 200_000, "ppo_cartpole_64": 200_000, "dqn_cartpole": 50_000, "sac_pendulum": 6_000}

# Frames before the clock starts: every kind of step has then happened at least once (and is compiled).
WARMUP_FRAMES = {"ppo_cartpole": 1024, "ppo_cartpole_64": 16_384, "dqn_cartpole": 2048, "sac_pendulum": 512}
