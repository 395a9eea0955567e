"""Other people's interfaces: PettingZoo's own test passes, and the vector view tells endings right."""

import warnings

import numpy as np
import pytest

from rewardlab.cogs.missions import Mission, make_mission
from rewardlab.cogs.vector import CogsVectorEnv

pettingzoo_test = pytest.importorskip("pettingzoo.test")


def short(cogs: int = 2, steps: int = 6) -> Mission:
    return make_mission("cogsguard_arena", cogs=cogs, steps=steps)


def test_pettingzoo_accepts_the_parallel_environment() -> None:
    from rewardlab.cogs.parallel import CogsParallelEnv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it advises on names and shapes of other kinds of observations
        pettingzoo_test.parallel_api_test(CogsParallelEnv(short()), num_cycles=20)


def test_the_same_seed_gives_the_same_episode() -> None:
    from rewardlab.cogs.parallel import CogsParallelEnv

    env = CogsParallelEnv(short())
    seen = []
    for _ in range(2):
        env.reset(seed=5)
        for _ in range(4):
            observations, *_ = env.step(dict.fromkeys(env.agents, 2))
        seen.append(np.stack(list(observations.values())))
    np.testing.assert_array_equal(seen[0], seen[1])


def test_the_vector_view_keeps_the_true_last_observation() -> None:
    env = CogsVectorEnv(short(cogs=2, steps=3), episodes=2, maps=2)
    assert env.num_envs == 4
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    for step in range(1, 4):
        obs, reward, terminated, truncated, infos = env.step(np.zeros(4, int))
        assert reward.shape == (4,)
        assert terminated.tolist() == [step == 3] * 4
        assert not truncated.any()
    # token 0 is the share of the episode that is over: 256 · 3 / 3 would be 256, and a byte holds 255 at most
    assert infos["_final_obs"].all()
    assert infos["final_obs"].shape == obs.shape
    assert (infos["final_obs"][:, 0, 2] > 200).all()
    assert (obs[:, 0, 2] == 0).all()  # the next games have just begun
    with pytest.raises(ValueError, match="reshape"):
        env.step(np.zeros(3, int))
