"""Gymnasium environments as the lab steps them: true last observations, no reset steps, seeds, snapshots, errors."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rewardlab.envs.base import Box, Discrete
from rewardlab.envs.gym_vector import EnvError
from rewardlab.envs.host import HostEnv
from rewardlab.spec import SpecError

pytestmark = pytest.mark.usefixtures("counting")
COUNTDOWN = "counting:Countdown-v0"


@contextlib.contextmanager
def made(name: str, num_envs: int = 2, seed: int = 0, **kwargs: Any) -> Iterator[HostEnv]:
    """A host environment that is closed afterwards."""
    env = HostEnv(name, num_envs, seed, **kwargs)
    try:
        yield env
    finally:
        env.close()


def walk(env: HostEnv, actions: list[list[int]]) -> list[list[Any]]:
    """Step and list, per field, what the copies gave: obs, reward, terminated, truncated, next_obs."""
    steps = [env.step(np.array(action))[:5] for action in actions]
    return [
        [np.asarray(field).reshape(env.num_envs).tolist() for field in fields] for fields in zip(*steps, strict=True)
    ]


def test_a_termination_shows_the_true_last_observation_and_no_reset_step() -> None:
    with made(COUNTDOWN, length=3) as env:
        assert env.reset().tolist() == [[0.0], [0.0]]
        # Copy 1 is stopped in the second step, by its action; both terminate by themselves at a count of 3.
        obs, reward, terminated, truncated, next_obs = walk(env, [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    assert next_obs == [[1, 1], [2, 2], [3, 1], [1, 2], [2, 3]]
    assert obs == [[1, 1], [2, 0], [0, 1], [1, 2], [2, 0]]
    assert terminated == [[False, False], [False, True], [True, False], [False, False], [False, True]]
    assert truncated == [[False, False]] * 5
    assert reward == [[1, 1]] * 5  # a reset step would be worth 0


def test_a_time_limit_shows_the_true_last_observation_and_no_reset_step() -> None:
    with made(COUNTDOWN, length=100, max_t=2) as env:
        env.reset()
        # Copy 0 is stopped in its first step, so its limit falls one step later.
        obs, reward, terminated, truncated, next_obs = walk(env, [[1, 0], [0, 0], [0, 0], [0, 0]])
    assert next_obs == [[1, 1], [1, 2], [2, 1], [1, 2]]
    assert obs == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert terminated == [[True, False], [False, False], [False, False], [False, False]]
    assert truncated == [[False, False], [False, True], [True, False], [False, True]]
    assert reward == [[1, 1]] * 4


def test_other_processes_give_the_same_steps() -> None:
    actions = [[int(i % 4 == 0), int(i % 5 == 1)] for i in range(20)]
    walks = []
    for vectorization in ("sync", "async"):
        with made(COUNTDOWN, length=100, max_t=3, vectorization=vectorization) as env:
            env.reset()
            walks.append(walk(env, actions))
    assert walks[0] == walks[1]
    assert np.any(walks[0][2])
    assert np.any(walks[0][3])


def test_an_end_on_the_last_allowed_step_is_a_termination_alone() -> None:
    with made(COUNTDOWN, num_envs=1, length=2, max_t=2) as env:
        env.reset()
        _, _, terminated, truncated, _ = walk(env, [[0], [0]])
    assert (terminated, truncated) == ([[False], [True]], [[False], [False]])


@pytest.mark.parametrize(("max_t", "limit"), [(None, 8), (3, 3), (12, 12)])
def test_max_t_overrides_the_registered_limit_both_ways(max_t: int | None, limit: int) -> None:
    with made(COUNTDOWN, num_envs=1, length=100, max_t=max_t) as env:
        env.reset()
        _, _, _, truncated, _ = walk(env, [[0]] * 13)
        assert env.max_episode_steps == limit
    assert truncated.index([True]) == limit - 1


def test_what_was_handed_out_stays_as_it_was() -> None:
    with made(COUNTDOWN, length=3) as env:
        first = env.reset()
        steps = [env.step(np.zeros(2, int)) for _ in range(4)]
    assert first.tolist() == [[0.0], [0.0]]
    assert [np.asarray(step.next_obs)[0, 0] for step in steps] == [1, 2, 3, 1]
    assert all(np.asarray(x).flags.c_contiguous for step in steps for x in step)


def test_seeds_make_runs_alike_and_copies_different() -> None:
    def starts(seed: int, num_envs: int) -> list[Any]:
        with made("CartPole-v1", num_envs, seed) as env:
            return [env.reset(), env.reset()]

    again, more, other = starts(1, 2), starts(1, 3), starts(2, 2)
    np.testing.assert_array_equal(starts(1, 2), again)
    np.testing.assert_array_equal(
        [rows[:2] for rows in more], again
    )  # a copy's seed does not depend on how many there are
    assert not np.allclose(again[0], other[0])
    assert len(np.unique(np.concatenate([*more, *other]), axis=0)) == 6 + 4  # copies differ, and a second reset goes on


@pytest.mark.parametrize(("dtype", "kept"), [("float64", "float32"), ("int64", "float32"), ("uint8", "uint8")])
def test_observations_are_float32_or_bytes(dtype: str, kept: str) -> None:
    with made(COUNTDOWN, dtype=dtype) as env:
        assert env.observation.dtype == kept
        assert env.reset().dtype == kept
        step = env.step(np.zeros(2, int))
        assert [np.asarray(x).dtype for x in step] == [kept, "float32", "bool", "bool", kept, "bool"]


def test_spaces() -> None:
    with made("Pendulum-v1") as env:
        assert (env.observation, env.action) == (Box((3,), (-1.0, -1.0, -8.0), (1.0, 1.0, 8.0)), Box((1,), -2.0, 2.0))
        env.reset()
        with pytest.raises(EnvError, match=r"takes actions of shape \(2, 1\), not \(2,\)"):
            env.step(np.zeros(2))
    with made("FrozenLake-v1") as env:  # discrete observations are one-hot
        assert (env.observation, env.action) == (Box((16,), 0.0, 1.0), Discrete(4))
        assert env.reset().tolist() == [[1.0] + [0.0] * 15] * 2
    with made("Blackjack-v1") as env:  # three discrete ones, side by side
        assert env.observation == Box((32 + 11 + 2,))


def test_discrete_actions_start_at_0_whatever_the_environment_calls_its_first() -> None:
    with made(COUNTDOWN, num_envs=1, start=5) as env:
        assert env.action == Discrete(2)
        env.reset()
        assert walk(env, [[0], [1]])[2] == [[False], [True]]


def test_a_frame_to_look_at() -> None:
    with made(COUNTDOWN, render_mode="rgb_array") as env:
        env.reset()
        env.step(np.zeros(2, int))
        np.testing.assert_array_equal(env.render_frame(), np.ones((4, 6, 3), np.uint8))
    with made(COUNTDOWN) as env, pytest.raises(EnvError, match='render_mode="rgb_array"'):
        env.render_frame()


@pytest.mark.parametrize(
    ("name", "kwargs", "sentence"),
    [
        ("CartPol-v1", {}, "There is no environment 'CartPol-v1'; did you mean 'CartPole-v1'\\?"),
        ("CartPole", {}, "did you mean 'CartPole-v1'"),
        ("Qzjqzjqzjqzjqzjqz-v0", {}, "'module:Env-v0'"),
        ("nowhere:Thing-v0", {}, "No module named 'nowhere'"),
        (
            "CartPole-v1",
            {"suton_reward": 1},
            "does not take the key 'suton_reward'; the nearest key is 'sutton_barto_reward'",
        ),
        ("CartPole-v1", {"vectorization": "fast"}, "it can be 'sync' or 'async'"),
        ("FrozenLake-v1", {"map_name": "7x7"}, r"FrozenLake-v1 cannot be made with \{'map_name': '7x7'\}: KeyError"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(name: str, kwargs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        HostEnv(name, 1, 0, **kwargs)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("LunarLander-v3", "Box2D", "box2d"), ("Hopper-v5", "mujoco", "mujoco"), ("ALE/Pong-v5", "ale_py", "atari")],
)
def test_a_missing_package_names_its_extra(name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [m for m in sys.modules if m.startswith(("gymnasium.envs.box2d", "gymnasium.envs.mujoco"))]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(SpecError, match=rf'pip install "rewardlab\[{extra}\]"'):
        HostEnv(name, 1, 0)


@pytest.mark.parametrize(
    "vectorization",
    ["sync", pytest.param("async", marks=pytest.mark.filterwarnings("ignore:.*Worker|.*Raising|.*Traceback"))],
)
def test_an_environment_that_fails_is_named_with_its_copy(vectorization: str) -> None:
    with made(COUNTDOWN, vectorization=vectorization, length=9, fail_at=2) as env:
        env.reset()
        env.step(np.array([1, 0]))  # copy 0 begins anew, so copy 1 is the first to count to 2
        sentence = r"counting:Countdown-v0 \(copy 1\) failed in step: ZeroDivisionError: the count was too much\."
        with pytest.raises(EnvError, match=sentence) as caught:
            env.step(np.array([0, 0]))
    if vectorization == "sync":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def random_actions(env: HostEnv, n: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    space: Any = env.action
    if isinstance(space, Discrete):
        return list(rng.integers(space.n, size=(n, env.num_envs)))
    return list(rng.uniform(-1, 1, (n, env.num_envs, *space.shape)).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "vectorization"),
    [
        ("CartPole-v1", "sync"),
        ("CartPole-v1", "async"),  # taken in other processes, gone on with in this one
        ("Pendulum-v1", "sync"),
        ("MountainCar-v0", "sync"),
        ("MountainCarContinuous-v0", "sync"),
        ("Acrobot-v1", "sync"),
        ("FrozenLake-v1", "sync"),
    ],
)
def test_a_snapshot_goes_on_to_the_bit_in_a_fresh_object(name: str, vectorization: str, tmp_path: Any) -> None:
    with made(name, seed=1, max_t=30, vectorization=vectorization) as env:
        env.reset()
        for action in random_actions(env, 45, seed=1):
            step = env.step(action)
        taken = env.snapshot()
        assert taken is not None
        np.savez(tmp_path / "state.npz", allow_pickle=False, **taken)
        actions = random_actions(env, 80, seed=2)  # over several ends and resets
        expected = [env.step(action) for action in actions]
    with made(name, seed=99, max_t=30) as fresh:
        with np.load(tmp_path / "state.npz", allow_pickle=False) as stored:
            np.testing.assert_array_equal(fresh.restore(dict(stored)), step.obs)
        found = [fresh.step(action) for action in actions]
    assert any(np.any(step.truncated | step.terminated) for step in expected)
    for one, other in zip(expected, found, strict=True):
        for field in one._fields:
            assert np.asarray(getattr(one, field)).tobytes() == np.asarray(getattr(other, field)).tobytes()


def test_a_state_that_cannot_be_held_exactly_is_not_held_at_all() -> None:
    with made(COUNTDOWN, hidden=True) as env:
        env.reset()
        assert env.snapshot() is None


def test_a_snapshot_of_something_else_is_refused() -> None:
    with made("CartPole-v1") as env, made("CartPole-v1", num_envs=3) as wider:
        env.reset()
        taken = env.snapshot()
        assert taken is not None
        with pytest.raises(EnvError, match=r"saved state of CartPole-v1 has observations \(2, 4\), this one \(3, 4\)"):
            wider.restore(taken)
