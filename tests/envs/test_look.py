"""`rewardlab env`: what is listed, what is said of one, and the faults that are found."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

from rewardlab.cli.app import app
from rewardlab.envs.look import UnsoundError, checked, listed, told
from rewardlab.spec import EnvSpec


@pytest.fixture(autouse=True)
def _counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    importlib.import_module("counting")


class Faulty(gym.Env[Any, Any]):
    """Wrong in one way."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault: str = "") -> None:
        self.fault, self.own = fault, np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        first = self.own.uniform(-1, 1, 2) if self.fault == "first" else self.np_random.uniform(-1, 1, 2)
        return first.astype(np.float32), {}

    def step(self, action: Any) -> Any:
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        obs = {"nan": obs * np.nan, "bounds": obs + 3}.get(self.fault, obs)
        reward = self.own.uniform() if self.fault == "reward" else (np.inf if self.fault == "inf" else 1.0)
        return obs, reward, self.np_random.uniform() < 0.1, False, {}


gym.register("Faulty-v0", Faulty)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("first", "two different first observations"),
        ("reward", "two different reward in step 1"),
        ("nan", "observes nan in step 1"),
        ("bounds", "outside its declared bounds"),
        ("inf", "gives the reward inf in step 1"),
    ],
)
def test_a_fault_is_one_sentence(fault: str, sentence: str) -> None:
    with pytest.raises(UnsoundError, match=sentence):
        list(checked(EnvSpec("Faulty-v0", kwargs={"fault": fault})))


def test_a_sound_one_is_said_to_be() -> None:
    lines = list(checked(EnvSpec("Faulty-v0")))
    assert "bit for bit" in lines[1]
    assert lines[2].endswith("episodes ended")
    assert "observation  2 numbers in [-1, 1]" in run("check", "Faulty-v0", "-s", "max_t=9").output


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["env", *words])


def test_the_list_holds_every_family_and_what_steps_it() -> None:
    found = dict(listed())
    assert found["CartPole-v1"] == "jax"
    for name, backend in (("Hopper-v5", "envpool"), ("ALE/Pong-v5", "ale"), ("playground/CheetahRun", "jax")):
        if name in found:  # what is installed
            assert found[name] == backend
    shown = json.loads(run("list", "cartpole-v", "--json").stdout)
    assert {"name": "CartPole-v1", "backend": "jax"} in shown
    assert all("cartpole-v" in entry["name"].lower() for entry in shown)


def test_what_is_told() -> None:
    assert told(EnvSpec("CartPole-v1")) == {
        "name": "CartPole-v1",
        "backend": "jax",
        "observation": "4 numbers",
        "action": "2 choices",
        "limit": 500,
        "resumes": "exactly",
    }
    assert run("check", "CartPole-v1").output.endswith("CartPole-v1: sound\n")


def test_the_bench_measures_all_that_can_step_it() -> None:
    result = run("bench", "CartPole-v1", "--envs", "8", "--seconds", "0.1", "--json")
    measured = {m["backend"]: m["steps_per_second"] for m in json.loads(result.stdout)["measured"]}
    assert {"jax", "gymnasium"} <= set(measured)
    assert min(measured.values()) > 1000
    result = run("bench", "CartPole-v1", "-s", "backend=gymnasium", "--seconds", "0.1", "--json")
    assert [m["backend"] for m in json.loads(result.stdout)["measured"]] == ["gymnasium"]
