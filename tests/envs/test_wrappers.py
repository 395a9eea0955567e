"""Batches of JAX environments, returns, and normalisation, on the environment that counts its own steps."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.envs.base import TimeStep
from rewardlab.envs.wrappers import LensSettings, Tracker, VectorEnv

KEY = jax.random.key(0)


def run(env: VectorEnv, actions: Any) -> list[TimeStep]:
    """What the environments give for these actions [T, N]."""
    vector, obs = env.reset(KEY)
    np.testing.assert_array_equal(obs, np.zeros((env.num_envs, 1)))
    noise = env.noise(KEY, len(actions))
    seen = []
    for t, action in enumerate(actions):
        vector, step = env.step(vector, jnp.asarray(action), jax.tree.map(lambda x, t=t: x[t], noise))
        seen.append(step)
    return seen


def column(steps: list[TimeStep], field: str, env: int) -> list[Any]:
    return [np.asarray(getattr(step, field))[env].ravel()[0].item() for step in steps]


def test_an_end_is_terminated_and_the_next_episode_begins_at_once(counting: ModuleType) -> None:
    env = VectorEnv(counting.Countdown(length=3), 2, 100)
    # the first counts to three; the second stops at its second step
    steps = run(env, [[0, 0], [0, 1], [0, 0], [0, 0]])
    assert column(steps, "terminated", 0) == [False, False, True, False]
    assert column(steps, "next_obs", 0) == [1, 2, 3, 1]  # where the action led: the true last observation
    assert column(steps, "obs", 0) == [1, 2, 0, 1]  # where the next action is chosen: a fresh episode
    assert column(steps, "terminated", 1) == [False, True, False, False]
    assert column(steps, "next_obs", 1) == [1, 2, 1, 2]
    assert column(steps, "obs", 1) == [1, 0, 1, 2]
    assert column(steps, "truncated", 0) == column(steps, "truncated", 1) == [False] * 4
    assert column(steps, "reward", 0) == [1.0] * 4


def test_a_time_limit_truncates_and_each_environment_counts_for_itself(counting: ModuleType) -> None:
    env = VectorEnv(counting.Countdown(length=50), 2, 3)
    steps = run(env, [[0, 1], [0, 0], [0, 0], [0, 0]])  # the second stops at once, so its limit comes a step later
    assert column(steps, "truncated", 0) == [False, False, True, False]
    assert column(steps, "truncated", 1) == [False, False, False, True]
    assert column(steps, "terminated", 0) == [False] * 4
    assert column(steps, "terminated", 1) == [True, False, False, False]
    assert column(steps, "next_obs", 0) == [1, 2, 3, 1]
    assert column(steps, "obs", 0) == [1, 2, 0, 1]


def test_an_end_at_the_time_limit_is_an_end(counting: ModuleType) -> None:
    steps = run(VectorEnv(counting.Countdown(length=3), 1, 3), [[0]] * 3)
    assert column(steps, "terminated", 0) == [False, False, True]
    assert column(steps, "truncated", 0) == [False, False, False]


def test_a_vector_shows_and_takes_what_its_environment_does(counting: ModuleType) -> None:
    env = VectorEnv(counting.Countdown(), 2, 8)
    assert (env.observation, env.action) == (counting.Countdown.observation, counting.Countdown.action)


def test_a_tracker_knows_nothing_before_an_episode_has_ended() -> None:
    tracker = Tracker.create(2)
    assert jnp.isnan(tracker.total_reward)
    tracker = tracker.update(jnp.asarray([1.0, 2.0]), jnp.asarray([False, False]))
    assert jnp.isnan(tracker.total_reward)
    tracker = tracker.update(jnp.asarray([3.0, 4.0]), jnp.asarray([True, False]))  # 1 + 3
    assert float(tracker.total_reward) == 4.0
    assert tracker.episodes.tolist() == [1, 0]
    tracker = tracker.update(jnp.asarray([10.0, 4.0]), jnp.asarray([False, True]))  # 2 + 4 + 4
    assert float(tracker.total_reward) == 7.0  # the mean of 4 and 10
    tracker = tracker.update(jnp.asarray([-10.0, 0.0]), jnp.asarray([True, False]))  # a new last return: 10 − 10
    assert float(tracker.total_reward) == 5.0  # the mean of 0 and 10
    assert tracker.episodes.tolist() == [2, 1]
    np.testing.assert_array_equal(tracker.running, [0.0, 0.0])


def test_a_tracker_over_time_gives_a_mean_per_step() -> None:
    last = jnp.asarray([[jnp.nan, jnp.nan], [4.0, jnp.nan], [4.0, 10.0]])
    actual = Tracker(jnp.zeros((3, 2)), last, jnp.zeros((3, 2), jnp.int32)).total_reward
    np.testing.assert_array_equal(actual, [np.nan, 4.0, 7.0])


def step_of(obs: Any, reward: Any, terminated: Any = (False, False), truncated: Any = (False, False)) -> TimeStep:
    seen = jnp.asarray(obs, jnp.float32)
    ends = jnp.asarray(terminated), jnp.asarray(truncated)
    return TimeStep(seen, jnp.asarray(reward, jnp.float32), *ends, seen, ends[0] | ends[1])


def test_a_plain_lens_changes_nothing_but_shape_and_type() -> None:
    lens = LensSettings(False, False, None, None, (4,))
    obs = jnp.arange(8, dtype=jnp.uint8).reshape(2, 2, 2)
    seen = lens.look(lens.create(2), obs)
    assert seen.dtype == jnp.float32
    np.testing.assert_array_equal(seen, np.arange(8).reshape(2, 4))
    after, reward = lens.learn(lens.create(2), step_of([[0] * 4] * 2, [5.0, -7.0]))
    assert (after.obs, after.reward, after.discounted) == (None, None, None)
    np.testing.assert_array_equal(reward, [5.0, -7.0])


def test_a_lens_clips() -> None:
    lens = LensSettings(False, False, 2.0, 1.0, (1,))
    np.testing.assert_array_equal(lens.look(lens.create(2), jnp.asarray([[9.0], [-0.5]])), [[2.0], [-0.5]])
    _, reward = lens.learn(lens.create(2), step_of([[0.0], [0.0]], [5.0, -0.7]))
    np.testing.assert_allclose(reward, [1.0, -0.7])


def test_a_lens_normalises_observations_by_all_it_has_seen() -> None:
    settings = LensSettings(True, False, None, None, (1,))
    lens = settings.create(2)
    for batch in ([[1.0], [3.0]], [[5.0], [7.0]]):
        lens, _ = settings.learn(lens, step_of(batch, [0.0, 0.0]))
    # of 1 3 5 7: mean 4, variance (9 + 1 + 1 + 9)/4 = 5
    np.testing.assert_allclose(settings.look(lens, jnp.asarray([[4.0], [9.0]])), [[0.0], [5**0.5]], atol=1e-3)
    tight = settings._replace(clip_obs=1.5)
    np.testing.assert_allclose(tight.look(lens, jnp.asarray([[9.0]])), [[1.5]])


def test_a_lens_scales_rewards_by_the_deviation_of_discounted_returns() -> None:
    settings = LensSettings(False, True, None, None, (1,), gamma=0.5)
    lens = settings.create(2)
    lens, _ = settings.learn(lens, step_of([[0.0]] * 2, [2.0, 4.0], truncated=(True, False)))
    # sums 2 and 4; the first episode is over, so its sum begins anew
    assert lens.discounted is not None
    np.testing.assert_allclose(lens.discounted, [0.0, 4.0])
    lens, reward = settings.learn(lens, step_of([[0.0]] * 2, [2.0, -4.0], terminated=(False, True)))
    # ½ · 0 + 2 = 2 and ½ · 4 − 4 = −2; of 2 4 2 −2: mean 1½, variance (¼ + 6¼ + ¼ + 12¼)/4 = 4¾
    assert lens.discounted is not None
    np.testing.assert_allclose(lens.discounted, [2.0, 0.0])
    np.testing.assert_allclose(reward, np.asarray([2.0, -4.0]) / 4.75**0.5, rtol=1e-3)  # no mean is taken off


@pytest.mark.parametrize("sessions", [1, 3])
def test_vectors_and_lenses_map_over_sessions(counting: ModuleType, sessions: int) -> None:
    env = VectorEnv(counting.Countdown(length=2), 2, 8)

    def session(key: jax.Array) -> jax.Array:
        vector, _ = env.reset(key)
        noise = env.noise(key, 3)
        tracker = Tracker.create(2)
        for t in range(3):
            vector, step = env.step(vector, jnp.zeros(2, int), jax.tree.map(lambda x, t=t: x[t], noise))
            tracker = tracker.update(step.reward, step.terminated | step.truncated)
        return tracker.total_reward

    np.testing.assert_array_equal(jax.vmap(session)(jax.random.split(KEY, sessions)), [2.0] * sessions)
