"""What an environment is to the lab: its spaces, and the Protocol of one that lives in JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, PRNGKeyArray


@dataclass(frozen=True)
class Discrete:
    """Actions 0 … n-1."""

    n: int


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices at once, each 0 … n-1 of its own n."""

    nvec: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of options in all."""
        return sum(self.nvec)


@dataclass(frozen=True)
class Box:
    """Arrays of one shape; `low` and `high` are one number each or one per entry (flattened). The last `hidden` entries
    of an observation are for a critic alone."""

    shape: tuple[int, ...]
    low: float | tuple[float, ...] = -float("inf")
    high: float | tuple[float, ...] = float("inf")
    dtype: str = "float32"
    hidden: int = 0

    @property
    def open(self) -> Box:
        """What an actor sees of an observation."""
        return self if not self.hidden else Box((self.size - self.hidden,), self.low, self.high, self.dtype)

    @property
    def size(self) -> int:
        """The number of entries."""
        size = 1
        for n in self.shape:
            size *= n
        return size


Space = Discrete | MultiDiscrete | Box
State = Any  # an environment's own pytree


class JaxEnv(Protocol):
    """A single environment as pure functions over an explicit state; batching, time limits and resets are wrappers'.

    Implementations are frozen dataclasses whose fields are the keyword arguments of the Gymnasium original.
    """

    @property
    def observation(self) -> Box:
        """What it shows."""
        ...

    @property
    def action(self) -> Space:
        """What it takes."""
        ...

    @property
    def max_episode_steps(self) -> int:
        """Its time limit, unless a spec's `env.max_t` sets another."""
        ...

    def reset(self, key: PRNGKeyArray) -> State:
        """A fresh state."""
        ...

    def step(self, state: State, action: Array, key: PRNGKeyArray) -> tuple[State, Float[Array, ""], Bool[Array, ""]]:
        """The next state, the reward, and whether the episode terminated (never a time limit)."""
        ...

    def observe(self, state: State) -> Array:
        """What the agent sees of a state."""
        ...


class TimeStep(NamedTuple):
    """What one vector step gives: `obs` is where the next action is chosen (a fresh episode's first observation after
    an end), `next_obs` is where this action led: the true final observation at an end.

    `terminated` and `truncated` are a learner's: nothing, or nothing that was seen, comes after. `ended` is the
    episode's: a life lost in an Atari game terminates, and the game goes on.
    """

    obs: Array
    reward: Array
    terminated: Array
    truncated: Array
    next_obs: Array
    ended: Array
