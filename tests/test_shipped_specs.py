"""Every ✓ of the seeds' coverage table has a shipped spec that trains; every shipped spec can be made."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from rewardlab.experiment import dev
from rewardlab.experiment.trial import Trial, check
from rewardlab.spec import Spec, load, names

NAMES = sorted({name for _, name in names()})
# one of each algorithm in each family of environments outside Classic Control, which has tests of its own
COVERAGE = [
    *("dqn_lunar", "ddqn_per_lunar", "a2c_lunar", "ppo_lunar", "sac_lunar", "crossq_lunar"),
    *("ppo_mujoco", "sac_halfcheetah", "crossq_halfcheetah"),
    *("a2c_atari", "ppo_atari", "sac_atari", "crossq_atari"),
]
NEEDED = {"ALE/": "ale_py", "Lunar": "Box2D", "Bipedal": "Box2D"}


def small(name: str) -> Spec:
    """A shipped spec with little to remember and little to wait for."""
    spec = load(name)
    settings = {"meta.max_session": 1, "env.num_envs": 2, "agent.memory.max_size": 200, "agent.memory.batch_size": 8}
    if "training_start_step" in spec.agent.algorithm:
        settings |= {"agent.algorithm.training_start_step": 10, "agent.algorithm.training_iter": 2}
    if "minibatch_size" in spec.agent.algorithm:
        settings |= {"agent.algorithm.time_horizon": 8, "agent.algorithm.minibatch_size": 8}
    settings |= {"meta.log_frequency": 32, "env.max_frame": 64}
    missing = next((module for start, module in NEEDED.items() if spec.env.name.startswith(start)), "mujoco")
    host = spec.env.name not in ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")
    if host and importlib.util.find_spec(missing) is None:
        pytest.skip(f"needs {missing}")
    return load(name, settings=[f"{key}={value}" for key, value in settings.items()])


@pytest.mark.parametrize("name", COVERAGE)
def test_it_learns_something(name: str) -> None:
    trial = Trial.create(small(name))
    before = dev.weights(trial)
    for chunk in trial.march():
        assert np.isfinite(chunk.seen.episodes).all()
    after = dev.weights(trial)
    moved = [float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True)]
    assert all(np.isfinite(m) for m in moved)
    assert sum(m > 0 for m in moved) > len(moved) // 2
    trial.loop.close()


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_made(name: str) -> None:
    check(small(name))


def test_the_seeds_names_are_here() -> None:
    wanted = {"ppo_mujoco", "ppo_mujoco_longhorizon", "ppo_ant", "ppo_hopper", "ppo_swimmer", "ppo_pusher"}
    wanted |= {"ppo_inverted_pendulum", "ppo_inverted_double_pendulum", "ppo_atari", "ppo_lunar"}
    assert wanted <= set(NAMES)
    assert load("ppo_mujoco", settings=["env=Walker2d-v5", "max_frame=3e6"]).env.name == "Walker2d-v5"
