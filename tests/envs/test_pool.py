"""EnvPool's environments: the same physics as Gymnasium's, the same contract at an end."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rewardlab.envs.base import Discrete
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import backend_of
from rewardlab.spec import EnvSpec, SpecError

pytest.importorskip("envpool")
pytest.importorskip("mujoco")

# how many root coordinates the observation leaves out, and how far one step of a simulator may be from the other's;
# the last observes contact forces, which the two versions of MuJoCo solve to different tolerances
TASKS = [
    *(("HalfCheetah-v5", 1, 1e-6), ("Hopper-v5", 1, 1e-6), ("Walker2d-v5", 1, 1e-6), ("Swimmer-v5", 2, 1e-6)),
    *(("Ant-v5", 2, 1e-6), ("InvertedPendulum-v5", 0, 1e-6), ("Humanoid-v5", 2, 1e-2)),
]


@pytest.mark.parametrize(("name", "hidden", "tolerance"), TASKS)
def test_from_one_state_both_go_the_same_way(name: str, hidden: int, tolerance: float) -> None:
    import envpool

    pool = envpool.make_gymnasium(name, num_envs=1, seed=[3])
    original = gym.make(name)
    original.reset(seed=0)
    obs, info = pool.reset()
    physics: Any = original.unwrapped
    root = [float(info[key][0]) for key in ("x_position", "y_position")[:hidden] if key in info]
    root += [0.0] * (hidden - len(root))
    nq, nv = physics.model.nq, physics.model.nv
    position = np.concatenate([root, obs[0][: nq - hidden]])
    physics.set_state(position, obs[0][nq - hidden : nq - hidden + nv])
    rng = np.random.default_rng(1)
    steps = 0
    for _ in range(30):
        action = rng.uniform(physics.action_space.low, physics.action_space.high)
        ours, reward, ended, _, _ = pool.step(action[None])
        theirs, their_reward, their_end, _, _ = original.step(action)
        np.testing.assert_allclose(ours[0], theirs, atol=tolerance)
        np.testing.assert_allclose(reward[0], their_reward, atol=max(1e-5, tolerance))
        assert bool(ended[0]) == their_end
        steps += 1
        if their_end:
            break
    assert steps >= 4
    pool.close()
    original.close()


def returns(env: HostEnv, steps: int) -> np.ndarray[Any, Any]:
    """Of the episodes that random actions finish."""
    rng, running = np.random.default_rng(0), np.zeros(env.num_envs)
    done: list[float] = []
    space: Any = env.action
    env.reset()
    for _ in range(steps):
        shape = (env.num_envs,) if isinstance(space, Discrete) else (env.num_envs, *space.shape)
        drawn: Any = rng.integers(0, space.n, shape) if isinstance(space, Discrete) else rng.uniform(-1, 1, shape)
        step: Any = env.step(drawn)
        running += step.reward
        done += list(running[step.ended])
        running[step.ended] = 0
    env.close()
    return np.array(done)


@pytest.mark.parametrize("name", ["LunarLander-v3", "LunarLanderContinuous-v3"])
def test_where_no_state_can_be_set_random_actions_bring_the_same(name: str) -> None:
    """Means of some 600 episodes each, which differ by less than four standard errors."""
    one, two = (returns(HostEnv(name, 32, 7, backend=b), 2000) for b in ("envpool", "gymnasium"))
    error = np.sqrt(one.var() / len(one) + two.var() / len(two))
    assert len(one) > 400
    assert abs(one.mean() - two.mean()) < 4 * error


def test_a_time_limit_shows_the_true_last_observation_and_no_reset_step() -> None:
    env = HostEnv("HalfCheetah-v5", 3, 0, max_t=5, backend="envpool")
    first = env.reset()
    for t in range(1, 11):
        step: Any = env.step(np.full((3, 6), 0.5))
        assert step.truncated.tolist() == step.ended.tolist() == [t % 5 == 0] * 3
        assert not step.terminated.any()
        at_rest = np.abs(step.next_obs[:, 8:]).max() < 0.5
        assert not at_rest  # the velocities of a cheetah that was pushed for some steps
        if t % 5 == 0:
            assert np.abs(step.obs - step.next_obs).max() > 0.1
            assert np.abs(step.obs).max() < 0.6  # a fresh one stands nearly still
        else:
            np.testing.assert_array_equal(step.obs, step.next_obs)
    assert not np.allclose(step.obs, first)  # a new episode, not the first once more
    env.close()


def test_only_the_copies_that_ended_begin_anew() -> None:
    env = HostEnv("Hopper-v5", 16, 0, backend="envpool")
    before, rng, seen = env.reset(), np.random.default_rng(0), 0
    for _ in range(60):
        step: Any = env.step(rng.uniform(-1, 1, (16, 3)))
        changed = np.any(step.obs != step.next_obs, axis=-1)
        np.testing.assert_array_equal(changed, step.ended)
        seen += int(step.ended.sum())
        assert not np.array_equal(before, step.obs)
    assert seen > 10
    env.close()


def test_a_seed_names_the_episodes_and_each_copy_has_its_own() -> None:
    def walk(env: HostEnv, seed: int | None) -> Any:
        firsts: list[Any] = [env.reset(seed)]
        firsts += [env.step(np.full((3, 3), 0.3)).next_obs for _ in range(4)]
        return np.stack(firsts)

    env, twin = (HostEnv("Hopper-v5", 3, 5, backend="envpool") for _ in range(2))
    first = walk(env, None)
    np.testing.assert_array_equal(first, walk(twin, None))
    assert len(np.unique(first[0], axis=0)) == 3
    again = walk(env, 9)
    assert not np.array_equal(again, first)
    np.testing.assert_array_equal(again, walk(twin, 9))
    for one in (env, twin):
        assert one.snapshot() is None
        one.close()


def test_what_cannot_be_made_is_one_sentence() -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("HalfCheeta-v5", {}, "did you mean HalfCheetah-v5"),
        ("HalfCheetah-v5", {"forward_reward_wait": 1.0}, "the nearest key is 'forward_reward_weight'"),
    )
    for name, keys, sentence in cases:
        with pytest.raises(SpecError, match=sentence):
            HostEnv(name, 1, 0, backend="envpool", **keys)


def test_the_fastest_that_has_it_steps_it() -> None:
    def chosen(name: str, **keys: Any) -> str:
        return backend_of(EnvSpec(name, kwargs=keys))

    assert chosen("Hopper-v5") == "envpool"
    assert chosen("Hopper-v5", vectorization="async") == "gymnasium"  # a key that EnvPool does not take
    assert chosen("CartPole-v1") == "jax"
    assert chosen("ALE/Pong-v5") == "ale"
    assert backend_of(EnvSpec("Hopper-v5", backend="gymnasium")) == "gymnasium"
