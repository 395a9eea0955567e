"""Environments that step outside JAX, vectorised, NumPy in and out: Gymnasium's, EnvPool's, ale-py's Atari games."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rewardlab.envs.base import Box, Discrete, MultiDiscrete, Space, TimeStep
from rewardlab.envs.gym_vector import EnvError
from rewardlab.spec import SpecError

Array = np.ndarray[Any, np.dtype[Any]]

# The modules whose `make_vector(name, num_envs, max_t, **kwargs)` gives a vector with Gymnasium's interface, as far as
# it is used here (`reset` of the copies in a mask, too), and its time limit.
HOSTS = {"gymnasium": "gym_vector", "envpool": "pool", "ale": "atari"}


class HostEnv:
    """`num_envs` copies of one environment, stepped together; an end is followed at once by a fresh episode.

    Discrete observations are given one-hot. The first `reset` seeds every copy from `seed` and its index; later ones
    let the copies' generators run on, so that they give new episodes, yet the same ones in every run.
    """

    def __init__(
        self,
        name: str,
        num_envs: int,
        seed: int,
        max_t: int | None = None,
        backend: str = "gymnasium",
        **kwargs: Any,
    ) -> None:
        make_vector: Callable[..., Any] = importlib.import_module(f"rewardlab.envs.{HOSTS[backend]}").make_vector
        self._vector, self.max_episode_steps = make_vector(name, num_envs, max_t, **kwargs)
        self.name = name
        self.num_envs = num_envs
        self._gym_observation = self._vector.single_observation_space
        self._gym_action = self._vector.single_action_space
        try:
            self.observation = _observation_space(self._gym_observation, name)
            self.action = _action_space(self._gym_action, name)
        except SpecError:
            self.close()
            raise
        self._seeds: list[int] | None = self._seeds_from(seed)
        self._obs = np.zeros((num_envs, *self.observation.shape), self.observation.dtype)

    def reset(self, seed: int | None = None) -> Array:
        """Begin an episode in every copy, with its generators seeded anew if asked; the first observations."""
        raw, _ = self._vector.reset(seed=self._seeds if seed is None else self._seeds_from(seed))
        self._seeds = None
        self._obs = self._read(raw)
        return self._obs

    def step(self, actions: Array) -> TimeStep:
        """One step of every copy; those that end begin anew in `obs`, while `next_obs` keeps their true last one."""
        raw, reward, terminated, truncated, info = self._vector.step(self._write(actions))
        next_obs = self._obs = self._read(raw)
        ended = terminated | truncated
        if ended.any():
            raw, _ = self._vector.reset(options={"reset_mask": ended})
            self._obs = self._read(raw)
        # An episode that terminates on its last allowed step has terminated: there is nothing to bootstrap from.
        lost = terminated | info.get("life_lost", False)
        outcome: Any = (self._obs, reward.astype(np.float32), lost, truncated & ~lost, next_obs, ended)
        return TimeStep(*outcome)

    def snapshot(self) -> dict[str, Array] | None:
        """The exact state of every copy as plain arrays, or None where an environment's state cannot be held so."""
        members = self._members("take_snapshot")
        if any(member is None for member in members):
            return None
        arrays = {f"{i}/{key}": value for i, member in enumerate(members) for key, value in member.items()}
        return {"obs": self._obs.copy(), **arrays}

    def restore(self, snapshot: Mapping[str, Array]) -> Array:
        """Go on from a snapshot (in a fresh object, too); the observations that it was taken at."""
        obs = np.asarray(snapshot["obs"])
        if obs.shape != self._obs.shape:
            raise EnvError(f"The saved state of {self.name} has observations {obs.shape}, this one {self._obs.shape}.")
        self.reset()  # makes whatever an environment only makes in its first reset, and lets wrappers pass steps
        self._members("put_snapshot", [_part(snapshot, i) for i in range(self.num_envs)])
        self._obs = np.array(obs)
        return self._obs

    def render_frame(self) -> Array:
        """The first copy as an image; made with `render_mode="rgb_array"`."""
        if self._vector.render_mode != "rgb_array":
            raise EnvError(f'{self.name} draws no frames: make it with render_mode="rgb_array".')
        alone = isinstance(self._vector, gym.vector.SyncVectorEnv)  # then the other copies need not draw too
        return np.asarray(self._vector.envs[0].render() if alone else self._vector.render()[0])

    def close(self) -> None:
        """End the copies and their processes."""
        self._vector.close()

    def _members(self, what: str, *given: Any) -> Any:
        """A method of every copy; simulators that step all copies in one library have none, and give no state."""
        alike = isinstance(self._vector, gym.vector.SyncVectorEnv | gym.vector.AsyncVectorEnv)
        return self._vector.call(what, *given) if alike else [None]

    def _seeds_from(self, seed: int) -> list[int]:
        words = np.random.SeedSequence(seed).generate_state(self.num_envs)
        return [int(word) for word in words]

    def _read(self, raw: Array) -> Array:
        """Our own contiguous copy of what the environments show."""
        if isinstance(self._gym_observation, gym.spaces.Box):
            return np.array(raw, dtype=self.observation.dtype, order="C")
        return np.concatenate(_rows(self._gym_observation, raw, self.num_envs), axis=-1)

    def _write(self, actions: Array) -> Array:
        """Actions as the environments take them, again a copy: an environment may write into its action."""
        shape = (self.num_envs, *self._gym_action.shape)
        if np.shape(actions) != shape:
            raise EnvError(f"{self.name} takes actions of shape {shape}, not {np.shape(actions)}.")
        taken = np.array(actions, dtype=self._gym_action.dtype, order="C")
        return taken if isinstance(self.action, Box) else taken + getattr(self._gym_action, "start", 0)


def _part(snapshot: Mapping[str, Array], index: int) -> dict[str, Array]:
    """What a snapshot holds of one copy."""
    prefix = f"{index}/"
    return {key.removeprefix(prefix): value for key, value in snapshot.items() if key.startswith(prefix)}


PRIVILEGED = "privileged_state"  # what MuJoCo Playground calls what only a critic may see
PARTS = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)


def _inner(space: Any) -> list[tuple[Any, Any]]:
    """The parts of a Dict or Tuple by their keys; what only a critic may see stands last."""
    if isinstance(space, gym.spaces.Dict):
        return sorted(space.spaces.items(), key=lambda entry: entry[0] == PRIVILEGED)
    return list(enumerate(space.spaces))


def _rows(space: Any, raw: Any, n: int) -> list[Array]:
    """What a vector shows in a space, as rows of numbers: discrete ones one-hot, several side by side."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return [row for key, part in _inner(space) for row in _rows(part, raw[key], n)]
    values = np.asarray(raw).reshape(n, -1)
    if isinstance(space, gym.spaces.Discrete):
        return [np.asarray(values == space.start + np.arange(space.n), np.float32)]
    if isinstance(space, gym.spaces.MultiDiscrete):
        counts, starts = space.nvec.ravel(), space.start.ravel()
        return [np.asarray(values[:, [i]] == starts[i] + np.arange(k), np.float32) for i, k in enumerate(counts)]
    return [values.astype(np.float32)]


def _observation_space(space: Any, name: str) -> Box:
    if isinstance(space, gym.spaces.Box):
        return _box(space, "uint8" if space.dtype == np.uint8 else "float32")
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        parts = {key: _observation_space(part, name) for key, part in _inner(space)}
        hidden = parts[PRIVILEGED].size if PRIVILEGED in parts and len(parts) > 1 else 0
        return Box((sum(part.size for part in parts.values()),), hidden=hidden)
    if isinstance(space, PARTS):
        return Box((int(gym.spaces.flatdim(space)),), low=0.0, high=1.0)
    raise SpecError(f"Environment {name} observes {space}, whose size is not fixed.")


def _action_space(space: Any, name: str) -> Space:
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return MultiDiscrete(tuple(int(n) for n in space.nvec))
    if isinstance(space, gym.spaces.MultiBinary) and len(space.shape) == 1:
        return MultiDiscrete((2,) * int(space.shape[0]))
    if isinstance(space, gym.spaces.Box) and space.dtype.kind == "f":
        return _box(space, "float32")
    raise SpecError(f"Environment {name} acts in {space}: only Discrete, MultiDiscrete, MultiBinary and float Box do.")


def _box(space: Any, dtype: str) -> Box:
    """Our Box; bounds that are the same everywhere are kept as one number."""

    def bound(values: Array) -> float | tuple[float, ...]:
        flat = values.ravel()
        return float(flat[0]) if flat.size and np.all(flat == flat[0]) else tuple(float(value) for value in flat)

    return Box(tuple(int(n) for n in space.shape), bound(space.low), bound(space.high), dtype)
