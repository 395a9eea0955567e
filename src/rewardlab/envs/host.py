"""Environments that step outside JAX: any Gymnasium id, or `module:Env-v0`, vectorised, NumPy in and out."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import inspect
import os
import signal
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rewardlab.envs import snapshot as snapshots
from rewardlab.envs.base import Box, Discrete, Space, TimeStep
from rewardlab.spec import SpecError

Array = np.ndarray[Any, np.dtype[Any]]

# Which extra of this package brings what an environment is built on, by where its class lives.
_EXTRAS = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco", "ale_py": "atari", "pygame": "render"}


class EnvError(RuntimeError):
    """An environment that failed while it ran, in one sentence that names it."""


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
        vectorization: str = "sync",
        **kwargs: Any,
    ) -> None:
        spec = find_gym_spec(name)
        make = [functools.partial(_make_member, spec, name, i, max_t, kwargs, os.getpid()) for i in range(num_envs)]
        # No automatic reset, but an explicit one of the copies that ended: the observation of the end is then read
        # before any reset can overwrite it (an environment may hand out one and the same buffer for ever), and no
        # step is ever spent on a reset. Gymnasium's SAME_STEP mode reads it after the reset.
        disabled = gym.vector.AutoresetMode.DISABLED
        if vectorization == "sync":
            self._vector = gym.vector.SyncVectorEnv(make, copy=False, autoreset_mode=disabled)
        elif vectorization == "async":
            # Spawned, not forked: a fork copies JAX's locks, but not the threads that would open them.
            self._vector = gym.vector.AsyncVectorEnv(make, copy=False, autoreset_mode=disabled, context="spawn")
        else:
            raise SpecError(f"vectorization is {vectorization!r}; it can be 'sync' or 'async'.")
        self.name = name
        self.num_envs = num_envs
        self.max_episode_steps: int | None = max_t if max_t is not None else spec.max_episode_steps
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
        raw, reward, terminated, truncated, _ = self._vector.step(self._write(actions))
        next_obs = self._obs = self._read(raw)
        ended = terminated | truncated
        if ended.any():
            raw, _ = self._vector.reset(options={"reset_mask": ended})
            self._obs = self._read(raw)
        # An episode that terminates on its last allowed step has terminated: there is nothing to bootstrap from.
        outcome: Any = (self._obs, reward.astype(np.float32), terminated.copy(), truncated & ~terminated, next_obs)
        return TimeStep(*outcome)

    def snapshot(self) -> dict[str, Array] | None:
        """The exact state of every copy as plain arrays, or None where an environment's state cannot be held so."""
        members = self._vector.call("take_snapshot")
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
        self._vector.call("put_snapshot", [_part(snapshot, i) for i in range(self.num_envs)])
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

    def _seeds_from(self, seed: int) -> list[int]:
        return [int(word) for word in np.random.SeedSequence(seed).generate_state(self.num_envs)]

    def _read(self, raw: Array) -> Array:
        """Our own contiguous copy of what the environments show."""
        if isinstance(self._gym_observation, gym.spaces.Discrete):
            classes = self._gym_observation.start + np.arange(self._gym_observation.n)
            return np.asarray(np.asarray(raw)[:, None] == classes, dtype=np.float32)
        return np.array(raw, dtype=self.observation.dtype, order="C")

    def _write(self, actions: Array) -> Array:
        """Actions as the environments take them, again a copy: an environment may write into its action."""
        shape = (self.num_envs, *self._gym_action.shape)
        if np.shape(actions) != shape:
            raise EnvError(f"{self.name} takes actions of shape {shape}, not {np.shape(actions)}.")
        taken = np.array(actions, dtype=self._gym_action.dtype, order="C")
        return taken + self._gym_action.start if isinstance(self.action, Discrete) else taken


def _part(snapshot: Mapping[str, Array], index: int) -> dict[str, Array]:
    """What a snapshot holds of one copy."""
    prefix = f"{index}/"
    return {key.removeprefix(prefix): value for key, value in snapshot.items() if key.startswith(prefix)}


class _Member(gym.Wrapper):
    """One copy: it knows its name and index when it fails, and gives and takes its state where it runs."""

    def __init__(self, env: Any, label: str, index: int) -> None:
        super().__init__(env)
        self._label = f"Environment {label} (copy {index})"
        self._index = index

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset; an empty `options` (left by a masked reset) is passed on as none at all."""
        if seed is not None:  # spaces draw too, and seed themselves from the clock unless told
            for layer in snapshots.layers_of(self.env):
                layer.action_space.seed(seed)
                layer.observation_space.seed(seed)
        try:
            return self.env.reset(seed=seed, options=options or None)
        except Exception as error:
            raise EnvError(f"{self._label} failed in reset: {_brief(error)}.") from error

    def step(self, action: Any) -> Any:
        """Step."""
        try:
            return self.env.step(action)
        except Exception as error:
            raise EnvError(f"{self._label} failed in step: {_brief(error)}.") from error

    def take_snapshot(self) -> dict[str, Array] | None:
        """This copy's state."""
        return snapshots.take(self.env)

    def put_snapshot(self, members: list[dict[str, Array]]) -> None:
        """Take this copy's part of all the copies' states."""
        snapshots.put(self.env, members[self._index])


def _brief(error: Exception) -> str:
    """An exception's kind and first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def _make_member(
    spec: Any, name: str, index: int, max_t: int | None, kwargs: Mapping[str, Any], owner: int
) -> gym.Wrapper:
    """One copy of the environment, or the sentence that says why there is none."""
    if os.getpid() != owner:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's to handle: it still needs this state
    limit = {} if max_t is None else {"max_episode_steps": max_t}
    try:
        _check_keys(spec, name, kwargs)
        env = gym.make(spec, disable_env_checker=True, **limit, **kwargs)
    except SpecError:
        raise
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise SpecError(_missing(name, str(spec.entry_point), error)) from error
    except Exception as error:
        raise SpecError(f"Environment {name} cannot be made with {dict(kwargs)}: {_brief(error)}.") from error
    return _Member(env, name, index)


def _check_keys(spec: Any, name: str, kwargs: Mapping[str, Any]) -> None:
    """Every key must be one that the environment's own constructor takes."""
    entry = spec.entry_point
    parameters = inspect.signature(
        gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    ).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for key in kwargs:
        if key not in parameters:
            near = difflib.get_close_matches(key, parameters, n=1, cutoff=0.0)
            hint = f"; the nearest key is {near[0]!r}" if near else ": it takes none"
            raise SpecError(f"Environment {name} does not take the key {key!r}{hint}.")


def find_gym_spec(name: str) -> Any:
    """Gymnasium's registration of `Env-v0` or `module:Env-v0`."""
    module, _, env_id = name.rpartition(":")
    atari = env_id.startswith("ALE/") or "NoFrameskip" in env_id
    try:
        if module or atari:
            importlib.import_module(module or "ale_py")
    except ImportError as error:
        raise SpecError(_missing(name, module or "ale_py", error)) from error
    try:
        return gym.spec(env_id)
    except gym.error.Error as error:
        near = difflib.get_close_matches(env_id, gym.registry, n=1, cutoff=0.4)
        hint = (
            f"; did you mean {near[0]!r}?"
            if near
            else "; is the module that registers it named, as in 'module:Env-v0'?"
        )
        raise SpecError(f"There is no environment {env_id!r}{hint}") from error


def _missing(name: str, where: str, error: Exception) -> str:
    """What to install, where an environment's package is absent."""
    extra = next((extra for place, extra in _EXTRAS.items() if where.startswith(place)), None)
    if "pygame" in str(error):
        extra = "render"
    if extra is None:
        return f"Environment {name} needs something that cannot be imported: {_brief(error)}."
    return f'Environment {name} needs a package that is not installed: pip install "rewardlab[{extra}]".'


def _observation_space(space: Any, name: str) -> Box:
    if isinstance(space, gym.spaces.Discrete):
        return Box((int(space.n),), low=0.0, high=1.0)
    if isinstance(space, gym.spaces.Box):
        return _box(space, "uint8" if space.dtype == np.uint8 else "float32")
    raise SpecError(f"Environment {name} observes {space}; only Box and Discrete observations are supported.")


def _action_space(space: Any, name: str) -> Space:
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, gym.spaces.Box) and space.dtype.kind == "f":
        return _box(space, "float32")
    raise SpecError(f"Environment {name} acts in {space}; only Discrete and float Box actions are supported.")


def _box(space: Any, dtype: str) -> Box:
    """Our Box; bounds that are the same everywhere are kept as one number."""

    def bound(values: Array) -> float | tuple[float, ...]:
        flat = values.ravel()
        return float(flat[0]) if flat.size and np.all(flat == flat[0]) else tuple(float(value) for value in flat)

    return Box(tuple(int(n) for n in space.shape), bound(space.low), bound(space.high), dtype)
