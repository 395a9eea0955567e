"""MuJoCo Playground's tasks: its own physics and rewards, our endings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.envs import playground
from rewardlab.envs.base import Box
from rewardlab.envs.make import backend_of, make
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.experiment import dev
from rewardlab.experiment.trial import Trial
from rewardlab.spec import EnvSpec, SpecError, load

pytest.importorskip("mujoco_playground")
KEY = jax.random.key(3)
CARTPOLE = EnvSpec("playground/CartpoleBalance", num_envs=2)


@pytest.fixture(scope="module")
def cartpole() -> Any:
    made = make(dataclasses.replace(CARTPOLE, max_t=6), 1, 0)
    assert isinstance(made, VectorEnv)
    return made


def test_a_step_is_playgrounds_own(cartpole: Any) -> None:
    task = cartpole.env.env
    state = jax.jit(task.reset)(jax.random.key_data(KEY))
    ours = jax.jit(cartpole.env.reset)(KEY)
    step, our_step = jax.jit(task.step), jax.jit(cartpole.env.step)
    np.testing.assert_array_equal(cartpole.env.observe(ours), state.obs)
    for t in range(4):
        action = jnp.sin(jnp.array([1.0 + t]))
        state = step(state, action)
        ours, reward, terminated = our_step(ours, action, KEY)
        np.testing.assert_allclose(cartpole.env.observe(ours), state.obs, atol=1e-6)
        assert float(reward) == pytest.approx(float(state.reward), abs=1e-6)
        assert not terminated
    assert cartpole.observation == Box((5,))
    assert cartpole.action == Box((1,), -1.0, 1.0)


def test_a_time_limit_shows_the_true_final_observation(cartpole: Any) -> None:
    """Brax's wrapper puts the first observation of the next episode there."""
    vector, first = jax.jit(cartpole.reset)(KEY)
    noise, ready = cartpole.noise(KEY, 8), cartpole.ready(KEY)
    assert noise.fresh is None  # a reset is costly: one per environment stands ready for the whole rollout
    step = jax.jit(cartpole.step)
    seen = []
    for t in range(8):
        vector, outcome = step(vector, jnp.ones((2, 1)), jax.tree.map(lambda x, t=t: x[t], noise), ready)
        seen.append(outcome)
    assert [bool(s.truncated.all()) for s in seen] == [t == 5 for t in range(8)]
    assert not any(bool(s.terminated.any()) for s in seen)
    end = seen[5]
    np.testing.assert_array_equal(end.obs, ready.obs)
    moved = np.abs(np.asarray(end.next_obs - seen[4].next_obs)).max()
    assert 0 < moved < 0.5  # one more step of the same motion
    assert np.abs(np.asarray(end.next_obs - end.obs)).max() > 2 * moved  # a cart that was pushed, and one at rest
    assert np.abs(np.asarray(seen[6].next_obs - end.obs)).max() < 0.5
    assert not np.array_equal(first, end.obs)


def test_it_learns_something() -> None:
    settings = ["env.num_envs=4", "agent.algorithm.time_horizon=4", "agent.algorithm.minibatch_size=8"]
    settings += ["meta.max_session=2", "meta.log_frequency=16", "max_frame=64", "agent.algorithm.training_epoch=1"]
    trial = Trial.create(load("ppo_playground", settings=settings))
    before = dev.weights(trial)
    for chunk in trial.march():
        assert np.isfinite(chunk.seen.metrics["loss"]).all()
    moved = [float(np.abs(a - b).max()) for a, b in zip(before, dev.weights(trial), strict=True)]
    assert all(np.isfinite(moved))
    assert sum(m > 0 for m in moved) > len(moved) // 2


@pytest.mark.parametrize(
    ("name", "keys", "sentence"),
    [
        ("CheetaRun", {}, "did you mean CheetahRun"),
        ("CheetahRun", {"ctrl_td": 0.1}, "the nearest key is 'ctrl_dt'"),
        ("Go1JoystickFlatTerrain", {}, "name it in REWARDLAB_MENAGERIE"),
    ],
)
def test_what_cannot_be_made_is_one_sentence(name: str, keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        make(EnvSpec(f"playground/{name}", backend="jax", kwargs=keys), 1, 0)


def test_robots_that_are_not_here_walk_in_envpool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    name = "playground/Go1JoystickFlatTerrain"
    assert backend_of(EnvSpec(name)) == "envpool"
    assert backend_of(EnvSpec("playground/CheetahRun")) == "jax"
    monkeypatch.setattr(playground, "menagerie", tmp_path)  # a copy is named
    assert backend_of(EnvSpec(name)) == "jax"
    monkeypatch.undo()
    made: Any = make(EnvSpec(name, num_envs=2), 1, 0)
    assert made.observation == Box((171,), hidden=123)
    made.close()
