"""A batch of JAX environments with time limits and resets, and the running statistics around any environment."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rewardlab.envs.base import Box, JaxEnv, Space, State, TimeStep
from rewardlab.maths.normalize import RunningStats


class VectorState(NamedTuple):
    """The states of N environments and how far each is into its episode."""

    state: State
    steps: Int[Array, " N"]


class Fresh(NamedTuple):
    """Episodes that begin where others end."""

    state: State
    obs: Array


class EnvNoise(NamedTuple):
    """What chance does in a step: a key, and the episode that begins if this one ends (None: one stands ready)."""

    step: PRNGKeyArray
    fresh: Fresh | None


class VectorEnv(eqx.Module):
    """N copies of a JAX environment. An episode that ends is followed at once by a fresh one: `obs` is its first
    observation, `next_obs` the true last one of the old."""

    env: JaxEnv = eqx.field(static=True)
    num_envs: int = eqx.field(static=True)
    max_t: int = eqx.field(static=True)

    @property
    def observation(self) -> Box:
        """What one environment shows."""
        return self.env.observation

    @property
    def action(self) -> Space:
        """What one environment takes."""
        return self.env.action

    def reset(self, key: PRNGKeyArray) -> tuple[VectorState, Array]:
        """Fresh episodes and their first observations."""
        state = jax.vmap(self.env.reset)(jax.random.split(key, self.num_envs))
        return VectorState(state, jnp.zeros(self.num_envs, jnp.int32)), jax.vmap(self.env.observe)(state)

    def noise(self, key: PRNGKeyArray, steps: int) -> EnvNoise:
        """The randomness of `steps` steps, drawn at once: a key per step and environment, and the fresh episodes that
        stand ready should an old one end."""
        step_key, reset_key = jax.random.split(key)
        fresh = None if self.costly_reset else self._fresh(jax.random.split(reset_key, (steps, self.num_envs)))
        return EnvNoise(jax.random.split(step_key, (steps, self.num_envs)), fresh)

    @property
    def costly_reset(self) -> bool:
        """Whether a reset costs as much as steps do: then one per environment and rollout stands ready for all ends."""
        return bool(getattr(self.env, "costly_reset", False))

    def ready(self, key: PRNGKeyArray) -> Fresh | None:
        """The episodes that stand ready during a rollout, where resets are costly."""
        if not self.costly_reset:
            return None
        return self._fresh(jax.random.split(jax.random.split(key)[1], self.num_envs))

    def _fresh(self, keys: PRNGKeyArray) -> Fresh:
        """A fresh episode per key."""
        reset, observe = self.env.reset, self.env.observe
        for _ in keys.shape:
            reset, observe = jax.vmap(reset), jax.vmap(observe)
        state = reset(keys)
        return Fresh(state, observe(state))

    def step(
        self, vector: VectorState, action: Array, noise: EnvNoise, ready: Fresh | None = None
    ) -> tuple[VectorState, TimeStep]:
        """One step of each; what ends goes on with the step's own fresh episode, or with the one that stands ready."""
        state, reward, terminated = jax.vmap(self.env.step)(vector.state, action, noise.step)
        steps = vector.steps + 1
        truncated = (steps >= self.max_t) & ~terminated
        done = terminated | truncated
        next_obs = jax.vmap(self.env.observe)(state)
        fresh: Any = noise.fresh or ready
        state = jax.tree.map(lambda new, old: jnp.where(spread(done, old), new, old), fresh.state, state)
        obs = jnp.where(spread(done, next_obs), fresh.obs, next_obs)
        vector = VectorState(state, jnp.where(done, 0, steps))
        return vector, TimeStep(obs, reward, terminated, truncated, next_obs, done)


def spread(flags: Array, like: Array) -> Array:
    """Flags [N] with trailing axes, to select in an array [N, …]."""
    return flags.reshape(flags.shape + (1,) * (like.ndim - flags.ndim))


class Tracker(NamedTuple):
    """The unclipped, undiscounted return of each environment's running episode and of its last finished one."""

    running: Float[Array, " N"]
    last: Float[Array, " N"]
    episodes: Int[Array, " N"]

    @classmethod
    def create(cls, num_envs: int) -> Tracker:
        """No episode has ended yet: the last return is NaN."""
        return cls(jnp.zeros(num_envs), jnp.full(num_envs, jnp.nan), jnp.zeros(num_envs, jnp.int32))

    def update(self, reward: Array, done: Array) -> Tracker:
        """After one step."""
        total = self.running + reward
        episodes = self.episodes + done
        return Tracker(jnp.where(done, 0.0, total), jnp.where(done, total, self.last), episodes)

    @property
    def total_reward(self) -> Float[Array, "*time"]:
        """The mean of the last returns, as the seeds log it: NaN before any episode has ended."""
        finished = ~jnp.isnan(self.last)
        count = jnp.sum(finished, axis=-1)
        total = jnp.sum(jnp.where(finished, self.last, 0.0), axis=-1)
        return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.nan)


class Lens(NamedTuple):
    """What stands between an environment and a learner: statistics of observations and of discounted rewards."""

    obs: RunningStats | None
    reward: RunningStats | None
    discounted: Float[Array, " N"] | None


class LensSettings(NamedTuple):
    """How a lens is ground; the keys of a spec's `env`."""

    normalize_obs: bool
    normalize_reward: bool
    clip_obs: float | None
    clip_reward: float | None
    shape: tuple[int, ...]
    gamma: float = 0.99

    def create(self, num_envs: int) -> Lens:
        """Nothing seen yet."""
        obs = RunningStats.create(self.shape) if self.normalize_obs else None
        reward = RunningStats.create(()) if self.normalize_reward else None
        return Lens(obs, reward, jnp.zeros(num_envs) if self.normalize_reward else None)

    def look(self, lens: Lens, obs: Array) -> Array:
        """An observation as the learner sees it."""
        flat = obs.reshape(obs.shape[0], *self.shape)
        if len(self.shape) == 3 and flat.dtype == jnp.uint8 and lens.obs is None and self.clip_obs is None:
            return flat  # pixels stay bytes until a network looks: a memory holds four times as many
        flat = flat.astype(jnp.float32)
        if lens.obs is not None:
            return lens.obs.normalize(flat, self.clip_obs or 10.0)
        return flat if self.clip_obs is None else jnp.clip(flat, -self.clip_obs, self.clip_obs)

    def learn(self, lens: Lens, step: TimeStep) -> tuple[Lens, Array]:
        """The statistics with one more step in them, and the step's reward as the learner sees it."""
        if lens.obs is not None:
            lens = lens._replace(obs=lens.obs.update(step.obs.reshape(step.obs.shape[0], *self.shape)))
        reward = step.reward
        if lens.reward is not None and lens.discounted is not None:
            discounted = lens.discounted * self.gamma + reward
            stats = lens.reward.update(discounted)
            lens = lens._replace(reward=stats, discounted=jnp.where(step.ended, 0.0, discounted))
            reward = stats.scale(reward)
        if self.clip_reward is not None:
            reward = jnp.clip(reward, -self.clip_reward, self.clip_reward)
        return lens, reward
