"""Spaces of parts: Dict and Tuple as one row, several choices at once, what only a critic may see."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rewardlab as rl
from rewardlab.envs.base import Box, MultiDiscrete
from rewardlab.envs.host import HostEnv
from rewardlab.experiment.trial import Trial
from rewardlab.spec import SpecError, from_dict


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    importlib.import_module("parts")


def test_parts_stand_side_by_side_and_what_is_privileged_last() -> None:
    env = HostEnv("parts:Parts-v0", 2, 0)
    assert env.observation == Box((3 + 2 + 3 + 2 + 2,), hidden=2)
    assert env.observation.open == Box((10,))
    assert env.action == MultiDiscrete((3, 2))
    for row in env.reset():
        one, two = int(np.argmax(row[:3])), int(row[3])
        assert row.tolist() == [*np.eye(3)[one], two, 1 - two, *np.eye(3)[one], *np.eye(2)[two], 0.25, -0.5]
    step: Any = env.step(np.array([[0, 0], [2, 1]]))
    assert step.obs.shape == (2, 12)
    env.close()


def spec(name: str = "PPO", **env: Any) -> Any:
    algorithm: dict[str, Any] = {"name": name, "gamma": 0.5}
    if name == "PPO":
        algorithm |= {"time_horizon": 16, "minibatch_size": 64}
    net = {"hid_layers": [32], "optim_spec": {"lr": 0.01}}
    memory = {"name": "Replay" if name in ("DQN", "SAC") else "OnPolicyBatchReplay"}
    agent = {"name": name, "algorithm": algorithm, "net": net, "memory": memory}
    made = {"name": "parts:Parts-v0", "num_envs": 8, "max_frame": 10_000, **env}
    return from_dict({"agent": agent, "env": made, "meta": {"max_session": 1, "log_frequency": 1000}}, "parts")


@pytest.mark.parametrize("binary", [False, True])
def test_several_choices_are_learned_at_once(tmp_path: Path, binary: bool) -> None:
    run = rl.train(spec(binary=binary), data=tmp_path)
    assert run.table()["total_reward"][-1] > 9  # of 10: two choices, five steps
    targets = {"privileged_state": [0, 0], "one": 2, "two": 1}
    row = [0, 0, 1, targets["two"], 0, 0, 0, 1, 0, 1, 0.25, -0.5]
    assert run.policy.act(np.array(row, np.float32)).tolist() == ([1, 1] if binary else [2, 1])


def test_an_actor_does_not_see_what_only_its_critic_may() -> None:
    trial = Trial.create(spec())
    nets = jax.tree.map(lambda x: x[0], trial.runner.agent.nets)
    one = jax.random.normal(jax.random.key(0), (4, 12))
    other = one.at[:, 10:].add(1.0)
    np.testing.assert_array_equal(nets.distribution(one).mode(), nets.distribution(other).mode())
    np.testing.assert_array_equal(nets.actor.net(one), nets.actor.net(other))
    assert not np.allclose(nets.value(one), nets.value(other))
    trial.loop.close()


@pytest.mark.parametrize(
    ("name", "sentence"), [("DQN", "needs discrete actions"), ("SAC", "SAC takes one action at a time")]
)
def test_one_choice_at_a_time_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        Trial.create(spec(name))
