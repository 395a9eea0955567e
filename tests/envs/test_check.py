"""`check_env` accepts a sound JAX environment and says in one sentence what is wrong with every other."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.envs.base import Box, Discrete
from rewardlab.envs.check import EnvContractError, check_env, sample
from rewardlab.envs.wrappers import VectorEnv

KEY = jax.random.key(0)


def test_a_sound_environment_passes(counting: ModuleType) -> None:
    check_env(counting.Countdown(), KEY)


class Impure:
    """State on the side: what a person who comes from Gymnasium writes first."""

    count = 0

    def step(self, state: Any) -> Any:
        self.count += 1
        return state + self.count, jnp.ones(()), jnp.zeros((), bool)


IMPURE = Impure()
STARTS: dict[str, Any] = {}
# What is overridden in the sound environment, and what must be said about it.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no time limit": ({"max_episode_steps": 0}, "has max_episode_steps 0; it must be a positive integer"),
    "a foreign space": ({"action": 3}, "declares 3 as its action space"),
    "bounds": ({"observation": Box((1,), low=(0.0, 0.0))}, "gives 2 numbers as observation.low of 1 entries"),
    "observation shape": (
        {"observe": lambda _self, state: state},
        r"observes float32\(\) after reset, but declares float32\(1,\)",
    ),
    "observation dtype": ({"observe": lambda _self, state: state[None].astype(int)}, r"observes int32\(1,\)"),
    "out of bounds": (
        {"observe": lambda _self, state: -state[None]},
        r"observes -1.0 in entry 0 after step 1, outside its bounds \[0.0, inf\]",
    ),
    "not finite": ({"observe": lambda _self, state: jnp.log(state)[None]}, "not finite after reset"),
    "four results": (
        {"step": lambda _self, s, _action, _key: (s, 1.0, False, {})},
        "must return \\(state, reward, terminated\\)",
    ),
    "reward": (
        {"step": lambda _self, s, _action, _key: (s, jnp.ones(1), jnp.zeros((), bool))},
        r"reward of float32\(1,\)",
    ),
    "terminated": ({"step": lambda _self, s, _action, _key: (s, jnp.ones(()), 0.0)}, r"terminated as float32\(\)"),
    "state dtype": (
        {"step": lambda _self, s, _action, _key: (s.astype(int), jnp.ones(()), jnp.zeros((), bool))},
        r"changes its state's leaf itself from float32\(\) to int32\(\) in a step",
    ),
    "impure": (
        {"step": lambda _self, s, _action, _key: IMPURE.step(s)},
        "two results of step for the same arguments",
    ),
    "branches on a value": (
        {"step": lambda _self, s, a, _key: (s + (1 if a > 0 else 2), jnp.ones(()), jnp.zeros((), bool))},
        "step under jax.jit fails: TracerBoolConversionError",
    ),
    "raises": ({"reset": lambda _self, _key: STARTS["first"]}, "reset fails: KeyError: 'first'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named(fault: str, counting: ModuleType) -> None:
    overrides, sentence = FAULTS[fault]
    broken = type("Broken", (counting.Countdown,), overrides)
    with pytest.raises(EnvContractError, match=f"Broken.*{sentence}"):
        check_env(broken(), KEY)


def test_samples_are_members() -> None:
    keys = jax.random.split(KEY, 100)
    assert set(np.asarray(jax.vmap(lambda key: sample(Discrete(3), key))(keys)).tolist()) == {0, 1, 2}
    box = Box((3,), low=(-1.0, 5.0, -np.inf), high=(1.0, 6.0, 0.0))
    drawn = np.asarray(jax.vmap(lambda key: sample(box, key))(keys))
    assert np.all(drawn >= np.array(box.low))
    assert np.all(drawn <= np.array(box.high))


def test_the_batch_of_jax_environments_ends_as_the_host_does(counting: ModuleType) -> None:
    """The hand-made environment in JAX: copy 0 stops by its action, copy 1 runs into the limit of 2 steps."""
    batch = VectorEnv(counting.Countdown(length=100), 2, 2)
    state, _ = batch.reset(KEY)
    steps = []
    for action in ([1, 0], [0, 0], [0, 0], [0, 0]):
        state, step = batch.step(state, jnp.array(action), jax.tree.map(lambda x: x[0], batch.noise(KEY, 1)))
        steps.append([np.asarray(field).reshape(2).tolist() for field in step])
    shown, _, terminated, truncated, next_obs, ended = (list(fields) for fields in zip(*steps, strict=True))
    assert next_obs == [[1, 1], [1, 2], [2, 1], [1, 2]]
    assert shown == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert terminated == [[True, False], [False, False], [False, False], [False, False]]
    assert truncated == [[False, False], [False, True], [True, False], [False, True]]
    assert ended == [[True, False], [False, True], [True, False], [False, True]]
