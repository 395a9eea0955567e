"""The algorithms, one page each. A new one: a file here, a line in ALGOS, a spec."""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points

from rewardlab.algos.a2c import A2C
from rewardlab.algos.base import Algorithm
from rewardlab.algos.crossq import CrossQ
from rewardlab.algos.dqn import DQN, DoubleDQN, DuelingDQN, VanillaDQN
from rewardlab.algos.ppo import PPO
from rewardlab.algos.random import Random
from rewardlab.algos.reinforce import REINFORCE
from rewardlab.algos.sac import SAC
from rewardlab.algos.sarsa import SARSA
from rewardlab.envs.base import Box, Space
from rewardlab.spec import Spec, SpecError

ALGOS: dict[str, type[Algorithm]] = {
    "Random": Random,
    "REINFORCE": REINFORCE,
    "SARSA": SARSA,
    "VanillaDQN": VanillaDQN,
    "DQN": DQN,
    "DoubleDQN": DoubleDQN,
    "DuelingDQN": DuelingDQN,
    "A2C": A2C,
    "PPO": PPO,
    "SAC": SAC,
    "CrossQ": CrossQ,
}


def find(name: str) -> type[Algorithm]:
    """The algorithm of a name: ours, or one that an installed package offers as `rewardlab.algorithms`."""
    if name in ALGOS:
        return ALGOS[name]
    offered = {point.name: point for point in entry_points(group="rewardlab.algorithms")}
    if name in offered:
        algorithm: type[Algorithm] = offered[name].load()
        return algorithm
    known = [*ALGOS, *offered]
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise SpecError(f"agent.algorithm.name {name!r} is unknown; {hint}")


def make(spec: Spec, observation: Box, action: Space) -> Algorithm:
    """The algorithm of a spec in an environment with these spaces."""
    return find(spec.agent.algorithm.get("name", spec.agent.name)).from_spec(spec, observation, action)
