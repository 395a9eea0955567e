"""Actors, critics and action values with weights set by hand: an observation is a row of one-hot states, so that a
linear net is a table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.envs.base import Box, Discrete
from rewardlab.maths.distribution import Categorical, Normal
from rewardlab.nets.heads import Actor, Critic, QNet, SquashedActor, to_env_action
from rewardlab.nets.linear import Linear
from rewardlab.nets.mlp import MLP
from rewardlab.spec import NetSpec

KEY = jax.random.key(5)
OBS = Box((3,))
NET = NetSpec(hid_layers=(4,))


def table(rows: list[list[float]]) -> MLP:
    return MLP((), Linear(jnp.asarray(rows), jnp.zeros(len(rows[0]))))


def test_dueling_takes_the_mean_advantage_off() -> None:
    # V = 10, A = 1 2 6, mean 3: Q = 10 + 1 − 3, 10 + 2 − 3, 10 + 6 − 3
    net = QNet(table([[10.0, 1.0, 2.0, 6.0]]), dueling=True)
    np.testing.assert_allclose(net(jnp.ones((1, 1))), [[8.0, 9.0, 13.0]])
    assert QNet.create(KEY, NET, OBS, Discrete(3), dueling=True).net.output.weight.shape == (4, 4)
    assert QNet.create(KEY, NET, OBS, Discrete(3), dueling=False)(jnp.zeros((5, 3))).shape == (5, 3)


def test_an_actor_is_categorical_or_gaussian() -> None:
    discrete = Actor.create(KEY, NET, OBS, Discrete(2))(jnp.zeros((5, 3)))
    assert isinstance(discrete, Categorical)
    assert discrete.logits.shape == (5, 2)
    spec = NetSpec(hid_layers=(4,), log_std_init=-0.5, actor_init_std=0.0)
    gaussian = Actor.create(KEY, spec, OBS, Box((2,), -1.0, 1.0))(jnp.ones((5, 3)))
    assert isinstance(gaussian, Normal)
    np.testing.assert_array_equal(gaussian.mean, np.zeros((5, 2)))  # a gain of 0 is a gain
    np.testing.assert_array_equal(gaussian.log_std, [-0.5, -0.5])


def test_the_squashed_actors_deviation_depends_on_the_state_within_bounds() -> None:
    actor = SquashedActor(table([[1.0, 0.5], [2.0, 99.0], [3.0, -99.0]]))
    pi = actor(jnp.eye(3))
    np.testing.assert_allclose(pi.mean[:, 0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(pi.log_std[:, 0], [0.5, 2.0, -5.0])
    assert SquashedActor.create(KEY, NET, OBS, Box((2,), -1.0, 1.0))(jnp.zeros((5, 3))).mean.shape == (5, 2)


def test_a_critic_gives_one_number_per_observation() -> None:
    np.testing.assert_allclose(Critic(table([[1.0], [2.0]]))(jnp.eye(2)), [1.0, 2.0])
    spec = NetSpec(hid_layers=(4,), critic_init_std=0.0)
    assert (Critic.create(KEY, spec, OBS)(jnp.ones((5, 3))) == 0).all()


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (Box((1,), -2.0, 2.0), [[0.5], [-3.0]], [[1.0], [-2.0]]),  # half way up; clipped, then the lowest
        (Box((2,), (0.0, -1.0), (10.0, 1.0)), [[0.0, 0.0], [1.0, -1.0]], [[5.0, 0.0], [10.0, -1.0]]),
        (Box((2,), (-np.inf, 0.0), (np.inf, 4.0)), [[7.0, 7.0]], [[7.0, 4.0]]),  # no bounds: as it is
    ],
)
def test_actions_in_the_environments_units(space: Box, action: list[list[float]], expected: list[list[float]]) -> None:
    np.testing.assert_allclose(to_env_action(jnp.asarray(action), space), expected)


def test_actions_take_the_shape_of_their_space() -> None:
    assert to_env_action(jnp.zeros((5, 6)), Box((2, 3), -1.0, 1.0)).shape == (5, 2, 3)
    np.testing.assert_array_equal(to_env_action(jnp.asarray([2, 0]), Discrete(3)), [2, 0])
