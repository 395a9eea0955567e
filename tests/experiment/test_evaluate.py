"""Evaluation counts whole episodes of a greedy policy; every number here can be counted on the fingers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.base import Algorithm
from rewardlab.envs.make import make, spaces
from rewardlab.experiment.evaluate import Evaluator, Played, play_episodes
from rewardlab.experiment.session import Session
from rewardlab.maths.normalize import RunningStats
from rewardlab.spec import AgentSpec, EnvSpec, MetaSpec, Spec, SpecError

BOTH = pytest.mark.parametrize("name", ["counting:Countdown", "counting:Countdown-v0"])


@pytest.fixture(autouse=True)
def _counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "envs")
    importlib.import_module("counting")


class Stopper(Algorithm):
    """Its policy is a number: it stops where it sees as much. The i-th environment goes i steps further."""

    on_policy = True

    @property
    def horizon(self) -> int:
        return 1

    def play(self, policy: Any, obs: Any, key: Any) -> Any:
        return (obs[:, 0] >= policy + jnp.arange(obs.shape[0])).astype(jnp.int32)


class Chance(Stopper):
    """Left or right by a coin."""

    def play(self, policy: Any, obs: Any, key: Any) -> Any:
        return jax.random.bernoulli(key, 0.5, obs.shape[:1]).astype(jnp.int32)


def evaluator(name: str, count: int = 3, algorithm: Any = Stopper, **env: Any) -> Evaluator:
    agent, meta = AgentSpec("Stopper", {}), MetaSpec(max_session=2, rigorous_eval=count)
    spec = Spec("count", agent, EnvSpec(name, **env), meta)
    observation, action = spaces(make(spec.env, 1, 0))
    made = algorithm(observation=observation, action=action, num_envs=1)
    return Evaluator(spec, made, Session(spec, made).lens)


@BOTH
def test_returns_are_those_of_the_first_episodes(name: str) -> None:
    made = evaluator(name)
    # session 0 stops at count 1, 2, 3: after 2, 3, 4 steps; session 1 never does, and 5 is the end
    assert made.returns((jnp.array([1.0, 9.0]), None), 0).tolist() == [[2, 3, 4], [5, 5, 5]]
    # the same programs with other policies
    assert made.returns((jnp.array([4.0, 0.0]), None), 0).tolist() == [[5, 5, 5], [1, 2, 3]]
    programs: Any = made._act, made._play
    assert sorted(program._cache_size() for program in programs) == [0, 1]
    made.close()


@BOTH
def test_a_time_limit_ends_an_episode(name: str) -> None:
    made = evaluator(name, max_t=3)
    assert made.returns((jnp.array([1.0, 9.0]), None), 0).tolist() == [[2, 3, 3], [3, 3, 3]]
    made.close()


@BOTH
def test_the_policy_sees_through_its_own_statistics_and_rewards_stay_true(name: str) -> None:
    made = evaluator(name, normalize_obs=True, normalize_reward=True, clip_reward=0.1)
    # with mean 2 and deviation 1, a policy that stops where it sees 1 stops at a count of 3: after 4 steps
    stats = RunningStats(jnp.full(2, 9.0), jnp.full((2, 1), 2.0), jnp.ones((2, 1)))
    for _ in range(2):  # the second time too: nothing was learned in between
        assert made.returns((jnp.array([1.0, 0.0]) - 1e-6, stats), 0).tolist() == [[4, 5, 5], [3, 4, 5]]
    made.close()


@pytest.mark.parametrize("backend", ["jax", "gymnasium"])
def test_the_same_frame_gives_the_same_returns(backend: str) -> None:
    made = evaluator("CartPole-v1", 8, Chance, backend=backend)
    policies = jnp.zeros(2), None
    first, second, again = (made.returns(policies, frame) for frame in (0, 500, 0))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()
    assert (first[0] != first[1]).any()  # sessions differ too
    assert first.shape == (2, 8)
    assert first.dtype == np.float32
    assert first.min() >= 8
    assert first.max() < 200
    made.close()


def watch(name: str, act: Any, episodes: int, render: bool = False, **env: Any) -> list[Played]:
    spec = Spec("watched", AgentSpec("Stopper", {}), EnvSpec(name, num_envs=4, **env))
    return list(play_episodes(spec, act, episodes, 0, render))


@BOTH
def test_episodes_are_played_step_by_step(name: str) -> None:
    steps = watch(name, lambda obs: np.int32(obs[0] >= 2), 2)
    assert [step.obs.tolist() for step in steps] == [[0], [1], [2]] * 2
    assert [int(step.action) for step in steps] == [0, 0, 1] * 2
    assert [step.reward for step in steps] == [1.0] * 6
    assert [step.done for step in steps] == [False, False, True] * 2
    assert {step.frame for step in steps} == {None}


def test_frames_show_where_the_action_was_chosen() -> None:
    steps = watch("counting:Countdown-v0", lambda _: np.int32(0), 1, render=True, max_t=3)
    assert [step.frame[0, 0, 0] for step in steps if step.frame is not None] == [0, 1, 2]
    assert steps[-1].done


def test_classic_environments_are_drawn_by_their_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    steps = watch("Pendulum-v1", lambda _: np.array([0.5], np.float32), 1, render=True, max_t=2)
    assert steps[0].frame is not None
    assert steps[0].frame.shape == (500, 500, 3)
    assert steps[0].action.tolist() == [1.0]  # half of its ±2
    assert [step.done for step in steps] == [False, True]


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(SpecError, match="counting:Countdown lives in JAX and has no Gymnasium original"):
        watch("counting:Countdown", lambda _: np.int32(0), 1, render=True)
