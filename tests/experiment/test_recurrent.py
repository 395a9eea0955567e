"""Policies that remember: they solve what no other can, in both loops, evaluated, saved and played."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import rewardlab as rl
from rewardlab.experiment.record import RunFolder
from rewardlab.experiment.trial import Trial
from rewardlab.spec import SpecError, apply, from_dict

BODIES: dict[str, list[dict[str, Any]]] = {
    "gru": [{"linear": 16}, {"activation": "tanh"}, {"gru": 16}],
    "lstm": [{"lstm": 16}],
    "none": [{"linear": 32}, {"activation": "tanh"}, {"linear": 32}, {"activation": "tanh"}],
}


@pytest.fixture(autouse=True)
def _recalling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "envs")
    importlib.import_module("recalling")


def spec(name: str, body: str, shared: bool = True, **more: Any) -> Any:
    algorithm: dict[str, Any] = {"name": name, "gamma": 0.9, "entropy_coef_spec": {"start_val": 0.01}}
    if name == "PPO":
        algorithm |= {"time_horizon": 15, "minibatch_size": 60, "training_epoch": 4}
    else:
        algorithm |= {"training_frequency": 15}
    net = {"layers": BODIES[body], "shared": shared, "optim_spec": {"lr": 0.01}, "clip_grad_val": 1.0}
    env = {"name": "recalling:Recall", "num_envs": 16, "max_frame": 24_000}
    meta = {"max_session": 2, "log_frequency": 1200, "eval_frequency": 12_000}
    agent = {"name": name, "algorithm": algorithm, "net": net | more.pop("net", {})}
    return from_dict({"agent": agent, "env": env | more.pop("env", {}), "meta": meta | more}, "recall")


@pytest.mark.parametrize(
    ("algorithm", "body", "shared"),
    [("PPO", "gru", True), ("PPO", "lstm", False), ("A2C", "gru", True), ("REINFORCE", "gru", False)],
)
def test_memory_solves_it(tmp_path: Path, algorithm: str, body: str, shared: bool) -> None:
    run = rl.train(spec(algorithm, body, shared), data=tmp_path)
    assert run.table()["total_reward"][-3:].mean() > 0.9


def test_without_memory_it_is_a_coin(tmp_path: Path) -> None:
    run = rl.train(spec("PPO", "none"), data=tmp_path)
    assert 0.3 < run.table()["total_reward"][-3:].mean() < 0.7


def test_a_policy_remembers_where_it_is_evaluated_and_played(tmp_path: Path) -> None:
    run = rl.train(spec("PPO", "gru", rigorous_eval=32), data=tmp_path)
    assert run.table(mode="eval")["total_reward"][-1] > 0.9
    policy = run.policy
    for sign in (1.0, -1.0, 1.0):
        policy.forget()
        actions = [policy.act([sign if t == 0 else 0.0, float(t == 4)]) for t in range(5)]
        assert int(actions[-1]) == int(sign > 0)


def test_a_resume_goes_on_with_what_was_remembered(tmp_path: Path) -> None:
    made = spec("PPO", "lstm")
    whole, part = Trial.create(made), Trial.create(made)
    for _ in whole.march():
        pass
    for _ in part.march(goal=7):
        pass
    folder = RunFolder.create("recall", tmp_path)
    part.save(folder)
    again = Trial.restore(made, folder)
    for _ in again.march():
        pass
    for one, two in zip(jax.tree.leaves(whole.runner.agent), jax.tree.leaves(again.runner.agent), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"agent.algorithm.minibatch_size": 50}, "a multiple of time_horizon, 15"),
        ({"agent.algorithm": {"name": "DQN"}}, "take PPO, A2C or REINFORCE, not DQN"),
    ],
)
def test_what_cannot_remember_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        Trial.create(apply(spec("PPO", "gru"), change))
