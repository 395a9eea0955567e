"""What every algorithm promises to the loops: pure functions that can be compiled, and mapped over sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos import ALGOS, find
from rewardlab.algos.base import Clock
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

REPLAYING = ("VanillaDQN", "DQN", "DoubleDQN", "DuelingDQN", "SAC", "CrossQ")
LEARNING = [name for name in ALGOS if name != "Random"]
CONTINUOUS = ("Random", "REINFORCE", "A2C", "PPO", "SAC", "CrossQ")
LEGAL = [(name, False) for name in ALGOS] + [(name, True) for name in CONTINUOUS]
KEYS: dict[str, dict[str, Any]] = {
    name: {"training_frequency": 2, "training_start_step": 4} if name in REPLAYING else {"training_frequency": 2}
    for name in ALGOS
} | {"PPO": {"time_horizon": 2, "minibatch_size": 2, "training_epoch": 2}}
ITERATIONS = 3  # of 4 frames each; those that replay learn from the second on


def make(lab: Lab, name: str, continuous: bool) -> Any:
    net = {"hid_layers": [3], "hid_layers_activation": "tanh", "optim_spec": {"name": "Adam", "lr": 0.01}}
    space = lab.continuous if continuous else lab.discrete
    return lab.make(name, space, net=net, env={"num_envs": 2}, memory={"batch_size": 2}, **KEYS[name])


def session(lab: Lab, algorithm: Any, key: jax.Array) -> tuple[Any, Any, jax.Array]:
    """A short life: the last state, the metrics of each iteration, and the actions that it plays at last."""
    frames = algorithm.horizon * algorithm.num_envs

    def iteration(state: Any, i: jax.Array) -> tuple[Any, Any]:
        clock = Clock(i, i * frames, jnp.zeros((), jnp.int32))
        each = jax.random.fold_in(key, i)
        rollout = lab.random_rollout(algorithm, state, clock, each)
        learned: tuple[Any, Any] = algorithm.learn(state, rollout, clock, each)
        return learned

    state, metrics = jax.lax.scan(iteration, algorithm.init(key), jnp.arange(ITERATIONS))
    played = algorithm.play(algorithm.policy(state), jnp.ones((2, lab.states)), key)
    return state, metrics, played


def check_metrics(name: str, metrics: Any) -> None:
    for metric, values in metrics.items():
        may_wait = name in REPLAYING and metric in ("loss", "q", "grad_norm", "entropy")
        assert np.isfinite(values[:, 1 if may_wait else 0 :]).all() or metric == "entropy", metric
    if name == "Random":
        return
    np.testing.assert_array_equal(np.diff(metrics["opt_step"], axis=1) > 0, True)
    assert {"loss", "lr", "grad_norm"} <= set(metrics)
    assert (metrics["grad_norm"][:, 1:] > 0).all()


@pytest.mark.parametrize(("name", "continuous"), LEGAL, ids=lambda x: {True: "continuous", False: "discrete"}.get(x, x))
def test_a_session_is_itself_alone_or_among_others(lab: Lab, name: str, continuous: bool) -> None:
    algorithm = make(lab, name, continuous)
    keys = jax.random.split(jax.random.key(5), 2)
    together = jax.jit(jax.vmap(lambda k: session(lab, algorithm, k)))
    alone = jax.jit(lambda k: session(lab, algorithm, k))

    both = together(keys)
    for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(together(keys)), strict=True):
        np.testing.assert_array_equal(a, b)  # same inputs, same bits
    for s in range(2):
        by_itself = jax.tree.leaves(alone(keys[s]))
        for a, b in zip(jax.tree.leaves(both), by_itself, strict=True):
            np.testing.assert_allclose(a[s], b, rtol=1e-3, atol=1e-4)

    state, metrics, played = both
    check_metrics(name, metrics)
    assert played.shape == ((2, 2, 2) if continuous else (2, 2))
    if name != "Random":
        policies = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.vmap(algorithm.policy)(state))]
        fresh = jax.vmap(lambda k: algorithm.policy(algorithm.init(k)))(keys)
        moved = [(a != np.asarray(b)).any() for a, b in zip(policies, jax.tree.leaves(fresh), strict=True)]
        assert all(moved)
        assert any((leaf[0] != leaf[1]).any() for leaf in policies)  # two keys, two sessions


@pytest.mark.parametrize("name", LEARNING)
def test_hyper_parameters_that_a_search_varies_are_leaves(lab: Lab, name: str) -> None:
    """A float of a spec enters the program as an array: other values are the same program."""
    one, other = lab.make(name), lab.make(name, gamma=0.5)
    assert (float(one.gamma), float(other.gamma)) == pytest.approx((0.99, 0.5))
    programs: list[Any] = [jax.tree.structure(one), jax.tree.structure(other)]
    assert programs[0] == programs[1]
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(one))


@pytest.mark.parametrize("name", REPLAYING)
@pytest.mark.parametrize("memory", ["OnPolicyReplay", "OnPolicyBatchReplay"])
def test_replaying_algorithms_need_a_replay(lab: Lab, name: str, memory: str) -> None:
    message = f"agent.memory.name is '{memory}', but {name} learns from a Replay or a PrioritizedReplay"
    with pytest.raises(SpecError, match=message):
        lab.make(name, memory={"name": memory})


@pytest.mark.parametrize("name", ALGOS)
def test_an_unknown_key_is_refused_with_the_nearest(lab: Lab, name: str) -> None:
    known = "time_horizon" if name == "PPO" else "training_frequency"
    with pytest.raises(SpecError, match=f"algorithm.{known}s is unknown; did you mean agent.algorithm.{known}"):
        lab.make(name, **{f"{known}s": 4})


def test_an_unknown_algorithm_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="'DoubleDQ' is unknown; did you mean DoubleDQN"):
        find("DoubleDQ")
    with pytest.raises(SpecError, match="'xyz' is unknown; there are Random, REINFORCE"):
        find("xyz")
