"""The ring, and drawing from it alike. A transition's reward says which one it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.memory.prioritized import Prioritized
from rewardlab.memory.replay import Replay, Uniform
from rewardlab.memory.rollout import Transition
from rewardlab.spec import MemorySpec

T, N = 2, 2  # every rollout holds four transitions


def transition(number: Any) -> Transition:
    """Everything in it is its number."""
    x = jnp.asarray(number, jnp.float32)
    end = jnp.zeros(x.shape, bool)
    return Transition(x[..., None], x.astype(jnp.int32), x, end, end, x[..., None] + 0.5, {})


def filled(rollouts: int, max_size: int = 8, **options: Any) -> tuple[Replay, int]:
    """A memory after some rollouts, and how many transitions it has seen."""
    spec = MemorySpec("Replay", max_size=max_size, **options)
    memory = Replay.create(jax.tree.map(lambda x: x[0, 0], transition(jnp.zeros((T, N)))), spec, T * N)
    for i in range(rollouts):
        first = i * T * N
        memory = memory.add(transition(jnp.arange(first, first + T * N).reshape(T, N)), jnp.asarray(first))
    return memory, rollouts * T * N


def test_the_ring_wraps_in_order() -> None:
    memory, _ = filled(1)
    np.testing.assert_array_equal(memory.data.reward, [0, 1, 2, 3, 0, 0, 0, 0])
    memory, _ = filled(2)
    np.testing.assert_array_equal(memory.data.reward, np.arange(8))
    memory, _ = filled(3)  # the third rollout takes the place of the first
    np.testing.assert_array_equal(memory.data.reward, [8, 9, 10, 11, 4, 5, 6, 7])
    np.testing.assert_array_equal(memory.data.next_obs[:, 0], memory.data.reward + 0.5)  # one row is one transition


def test_room_is_rounded_up_to_whole_rollouts() -> None:
    assert filled(0, max_size=9)[0].max_size == 12
    assert filled(0, max_size=8)[0].max_size == 8


@pytest.mark.parametrize(("rollouts", "expected"), [(1, range(4)), (2, range(8)), (3, range(4, 12))])
def test_what_was_stored_and_nothing_else_is_drawn_alike(rollouts: int, expected: range) -> None:
    stats: Any = pytest.importorskip("scipy.stats")
    memory, seen = filled(rollouts)
    batch, index, weight = memory.sample(
        memory.rule, memory.noise(jax.random.key(0), 1, 4000)[0], jnp.asarray(seen), 1.0
    )
    numbers, counts = np.unique(np.asarray(batch.reward), return_counts=True)
    np.testing.assert_array_equal(numbers, list(expected))
    assert stats.chisquare(counts).pvalue > 0.01
    np.testing.assert_array_equal(weight, 1.0)
    np.testing.assert_array_equal(memory.data.reward[index], batch.reward)
    np.testing.assert_array_equal(batch.obs[:, 0], batch.reward)  # rows stay together
    np.testing.assert_array_equal(batch.action, batch.reward)


@pytest.mark.parametrize("rollouts", [1, 2, 3])
def test_combined_replay_always_holds_the_newest(rollouts: int) -> None:
    memory, seen = filled(rollouts, use_cer=True)
    for seed in range(3):
        batch, index, weight = memory.sample(
            memory.rule, memory.noise(jax.random.key(seed), 1, 5)[0], jnp.asarray(seen), 1.0
        )
        assert float(batch.reward[0]) == seen - 1
        assert int(index[0]) == (seen - 1) % 8
        assert float(weight[0]) == 1.0


def test_the_rule_is_the_specs() -> None:
    example = jax.tree.map(lambda x: x[0, 0], transition(jnp.zeros((T, N))))
    prioritized = Replay.create(example, MemorySpec("PrioritizedReplay", max_size=8), 4)
    assert isinstance(prioritized.rule, Prioritized)
    assert isinstance(filled(0)[0].rule, Uniform)


def test_prioritized_memory_tells_its_rule_of_what_comes() -> None:
    example = jax.tree.map(lambda x: x[0, 0], transition(jnp.zeros((T, N))))
    memory = Replay.create(example, MemorySpec("PrioritizedReplay", max_size=8), 4)
    memory = memory.add(transition(jnp.arange(4).reshape(T, N)), jnp.asarray(0))
    batch, _, _ = memory.sample(memory.rule, memory.noise(jax.random.key(0), 1, 64)[0], jnp.asarray(4), 0.4)
    assert set(np.asarray(batch.reward)) == {0.0, 1.0, 2.0, 3.0}
