"""RewardLab: agents train, are measured and compete, under one roof.

import rewardlab as rl
run = rl.train("ppo_cartpole", **{"agent.algorithm.gamma": 0.98})
run.score, run.policy.act(obs)
run = rl.load("data/ppo_cartpole_2026_01_31_120000")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardlab.api import Run, load, train

__all__ = ["Run", "load", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rewardlab' has no attribute {name!r}")
    from rewardlab import api  # brings JAX, which `import rewardlab` alone must not

    return getattr(api, name)
