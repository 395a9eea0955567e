"""A Gymnasium environment whose spaces are made of parts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Parts(gym.Env[Any, Any]):
    """Shows two targets in all ways there are; each choice that meets its target earns 1."""

    observation_space = spaces.Dict(
        {
            "privileged_state": spaces.Box(-1, 1, (2,), np.float64),
            "pair": spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiBinary(2))),
            "targets": spaces.MultiDiscrete([3, 2]),
        }
    )

    def __init__(self, binary: bool = False) -> None:
        self.binary = binary
        self.action_space = spaces.MultiBinary(2) if binary else spaces.MultiDiscrete([3, 2], start=[5, 0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.targets, self.t = self.np_random.integers(0, [3, 2]), 0
        return self.show(), {}

    def show(self) -> dict[str, Any]:
        one, two = self.targets
        pair = np.int64(one + 1), np.array([two, 1 - two], np.int8)
        return {"privileged_state": np.array([0.25, -0.5]), "pair": pair, "targets": np.array([one, two])}

    def step(self, action: Any) -> Any:
        wanted = [self.targets[0] > 0, self.targets[1]] if self.binary else [self.targets[0] + 5, self.targets[1]]
        reward = float(action[0] == wanted[0]) + float(action[1] == wanted[1])
        self.targets, self.t = self.np_random.integers(0, [3, 2]), self.t + 1
        return self.show(), reward, self.t == 5, False, {}


gym.register("Parts-v0", Parts)
