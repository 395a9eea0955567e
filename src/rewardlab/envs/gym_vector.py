"""Gymnasium's environments as one vector: any id, or `module:Env-v0`, in this process or in processes of their own."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import signal
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rewardlab.envs import snapshot as snapshots
from rewardlab.envs.vector import refuse_unknown
from rewardlab.spec import SpecError

Array = np.ndarray[Any, np.dtype[Any]]

# Which extra of this package brings what an environment is built on, by where its class lives.
_EXTRAS = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco", "ale_py": "atari", "pygame": "render"}


class EnvError(RuntimeError):
    """An environment that failed while it ran, in one sentence that names it."""


def make_vector(
    name: str, num_envs: int, max_t: int | None, vectorization: str = "sync", **kwargs: Any
) -> tuple[gym.vector.VectorEnv[Any, Any, Any], int | None]:
    """`num_envs` copies and their time limit."""
    spec = find_gym_spec(name)
    make = [functools.partial(_make_member, spec, name, i, max_t, kwargs, os.getpid()) for i in range(num_envs)]
    limit: int | None = max_t if max_t is not None else spec.max_episode_steps
    # No automatic reset, but an explicit one of the copies that ended: the observation of the end is then read
    # before any reset can overwrite it (an environment may hand out one and the same buffer for ever), and no
    # step is ever spent on a reset. Gymnasium's SAME_STEP mode reads it after the reset.
    disabled = gym.vector.AutoresetMode.DISABLED
    if vectorization == "sync":
        return gym.vector.SyncVectorEnv(make, copy=False, autoreset_mode=disabled), limit
    if vectorization == "async":
        # Spawned, not forked: a fork copies JAX's locks, but not the threads that would open them.
        return gym.vector.AsyncVectorEnv(make, copy=False, autoreset_mode=disabled, context="spawn"), limit
    raise SpecError(f"vectorization is {vectorization!r}; it can be 'sync' or 'async'.")


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
        raise SpecError(missing(name, str(spec.entry_point), error)) from error
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
    refuse_unknown(f"Environment {name}", kwargs, parameters)


def find_gym_spec(name: str) -> Any:
    """Gymnasium's registration of `Env-v0` or `module:Env-v0`."""
    module, _, env_id = name.rpartition(":")
    atari = env_id.startswith("ALE/") or "NoFrameskip" in env_id
    try:
        if module or atari:
            importlib.import_module(module or "ale_py")
    except ImportError as error:
        raise SpecError(missing(name, module or "ale_py", error)) from error
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


def missing(name: str, where: str, error: Exception) -> str:
    """What to install, where an environment's package is absent."""
    extra = next((extra for place, extra in _EXTRAS.items() if where.startswith(place)), None)
    if "pygame" in str(error):
        extra = "render"
    if extra is None:
        return f"Environment {name} needs something that cannot be imported: {_brief(error)}."
    return f'Environment {name} needs a package that is not installed: pip install "rewardlab[{extra}]".'
