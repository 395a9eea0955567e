"""The state of an environment as plain arrays: what is held, what comes back, what is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rewardlab.envs import snapshot
from rewardlab.envs.host import HostEnv


class Holder(gym.Env[Any, Any]):
    """An environment that is nothing but its attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def there_and_back(**attributes: Any) -> dict[str, Any]:
    arrays = snapshot.take(Holder(**attributes))
    assert arrays is not None
    assert all(array.dtype.kind in "biuf" for array in arrays.values())
    fresh = Holder()
    snapshot.put(fresh, arrays)
    return fresh.__dict__


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**80,
        -0.1,
        float("inf"),
        "text",
        (1, (2.0, None)),
        [1, [2]],
        {1: {"a": (3,)}, (0, 1): 2},
        np.float32(0.1),
    ],
)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = there_and_back(value=value)["value"]
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3).T, np.array(3, np.int8), np.array([[b"S", b"G"]]), np.zeros(0)]
)
def test_arrays_come_back_as_they_were(array: Any) -> None:
    back = there_and_back(array=array)["array"]
    np.testing.assert_array_equal(back, array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_generators_go_on(kind: Any) -> None:
    generator = np.random.Generator(kind(7))
    generator.random(3)
    back = there_and_back(generator=generator)["generator"]
    np.testing.assert_array_equal(back.random(5), generator.random(5))


def test_a_spaces_own_generator_goes_on() -> None:
    one, other = Holder(action_space=gym.spaces.Discrete(9, seed=1)), Holder(action_space=gym.spaces.Discrete(9))
    arrays = snapshot.take(one)
    assert arrays is not None
    snapshot.put(other, arrays)
    assert [other.action_space.sample() for _ in range(20)] == [one.action_space.sample() for _ in range(20)]


def test_two_names_for_one_array_stay_two_names_for_one_array() -> None:
    array = np.zeros(3)
    back = there_and_back(one=array, other=array)
    assert back["one"] is back["other"]


def test_a_view_is_written_in_place() -> None:
    memory = [np.zeros((2, 2)), np.zeros((2, 2))]
    arrays = snapshot.take(Holder(view=memory[0][0]))
    assert arrays is not None
    arrays = {key: value + 1.0 if key == "0.view" else value for key, value in arrays.items()}
    snapshot.put(Holder(view=memory[1][0]), arrays)
    assert memory[1].tolist() == [[1.0, 1.0], [0.0, 0.0]]


ARRAY, LIST = np.zeros(4), [1]


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": object()},
        {"value": {1, 2}},
        {"value": [object()]},
        {"array": np.array([None])},
        {"whole": ARRAY, "part": ARRAY[:2]},
        {"one": LIST, "other": LIST},
        {"call": lambda: None},
    ],
)
def test_what_would_not_come_back_exactly_is_refused(attributes: dict[str, Any]) -> None:
    assert snapshot.take(Holder(**attributes)) is None


def test_a_state_of_other_wrappers_is_refused() -> None:
    one, other = gym.make("CartPole-v1"), gym.make("CartPole-v1", disable_env_checker=True)
    one.reset(seed=0)
    arrays = snapshot.take(one.unwrapped)
    assert arrays is not None
    with pytest.raises(ValueError, match="taken from CartPoleEnv, not from CartPoleEnv in OrderEnforcing in TimeLimit"):
        snapshot.put(other, arrays)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["Hopper-v5", "Ant-v5"])
def test_mujoco_goes_on_to_the_bit(name: str) -> None:
    pytest.importorskip("mujoco", reason="the mujoco extra is not installed")
    env, fresh = HostEnv(name, 2, 0, max_t=40), HostEnv(name, 2, 9, max_t=40)
    env.reset()
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.4, 0.4, (90, 2, 3 if name.startswith("Hopper") else 8)).astype(np.float32)
    for action in actions[:25]:
        env.step(action)
    taken = env.snapshot()
    assert taken is not None
    expected = [env.step(action) for action in actions[25:]]
    fresh.restore(taken)
    for action, step in zip(actions[25:], expected, strict=True):
        for field, other in zip(step, fresh.step(action), strict=True):
            assert np.asarray(field).tobytes() == np.asarray(other).tobytes()
