"""Experience replay: a ring of transitions, and a rule for drawing from it."""

from __future__ import annotations

from typing import Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from rewardlab.memory.prioritized import Prioritized
from rewardlab.memory.rollout import Transition
from rewardlab.spec import MemorySpec


class Draw(Protocol):
    """Which transitions come up. `seen` is how many were ever stored."""

    def add(self, seen: Int[Array, ""], count: int) -> Self:
        """Told of `count` new ones behind the `seen` before them."""
        ...

    def draw(
        self, noise: UInt[Array, " B"], seen: Int[Array, ""], beta: Array | float
    ) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
        """Places in the ring, and importance weights; a random word for each."""
        ...

    def update(self, index: Int[Array, " B"], error: Float[Array, " B"]) -> Self:
        """Told of the errors of what was drawn."""
        ...


class Uniform(eqx.Module):
    """All alike."""

    max_size: int = eqx.field(static=True)

    def add(self, seen: Int[Array, ""], count: int) -> Uniform:
        """Nothing to remember."""
        return self

    def draw(
        self, noise: UInt[Array, " B"], seen: Int[Array, ""], beta: Array | float
    ) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
        """Uniform over what is kept, to the 2⁻³² that the remainder of a word leaves."""
        kept = jnp.minimum(seen, self.max_size).astype(jnp.uint32)
        return (noise % kept).astype(jnp.int32), jnp.ones(noise.shape)

    def update(self, index: Int[Array, " B"], error: Float[Array, " B"]) -> Uniform:
        """Nothing to remember."""
        return self


class Replay(eqx.Module):
    """A ring of the last `max_size` transitions, and the rule.

    Where the next one goes follows from how many were seen, which is given from outside and is the same for every
    session: so the write stays one contiguous copy under `vmap`.
    """

    data: Transition
    rule: Draw
    use_cer: bool = eqx.field(static=True)

    @classmethod
    def create(cls, example: Transition, spec: MemorySpec, chunk: int) -> Replay:
        """Room for `max_size` transitions like the example, rounded up to whole chunks (what `add` writes at once)."""
        size = -(-spec.max_size // chunk) * chunk
        data = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), example)
        prioritized = spec.name == "PrioritizedReplay"
        rule: Draw = Prioritized.create(size, spec.alpha, spec.epsilon) if prioritized else Uniform(size)
        return cls(data, rule, spec.use_cer)

    @property
    def max_size(self) -> int:
        """How many transitions fit."""
        return int(self.data.reward.shape[0])

    def add(self, rollout: Transition, seen: Int[Array, ""]) -> Replay:
        """With a rollout [T, N, …] written behind the `seen` transitions before it."""
        flat = jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), rollout)
        position = seen % self.max_size
        data = jax.tree.map(lambda ring, x: jax.lax.dynamic_update_slice_in_dim(ring, x, position, 0), self.data, flat)
        return Replay(data, self.rule.add(seen, flat.reward.shape[0]), self.use_cer)

    @staticmethod
    def noise(key: PRNGKeyArray, batches: int, batch_size: int) -> UInt[Array, "batches B"]:
        """What `sample` needs, for several batches at once: a CPU takes longer to draw it than to use it."""
        return jax.random.bits(key, (batches, batch_size), jnp.uint32)

    def sample(
        self, rule: Draw, noise: UInt[Array, " B"], seen: Int[Array, ""], beta: Array | float
    ) -> tuple[Transition, Int[Array, " B"], Float[Array, " B"]]:
        """A batch by the rule as it stands now, where it lies, and its weights.

        With combined experience replay (https://arxiv.org/abs/1712.01275) the newest transition is always in it.
        """
        index, weight = rule.draw(noise, seen, beta)
        if self.use_cer:
            index, weight = index.at[0].set((seen - 1) % self.max_size), weight.at[0].set(1.0)
        return jax.tree.map(lambda ring: ring[index], self.data), index, weight
