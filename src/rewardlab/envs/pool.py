"""EnvPool's environments as one vector: all copies stepped by C++ threads, where the package is installed."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np

from rewardlab.envs.playground import PREFIX
from rewardlab.envs.vector import refuse_unknown, threads
from rewardlab.spec import SpecError, near

Array = np.ndarray[Any, np.dtype[Any]]

# what every environment of EnvPool takes and this module decides
_OURS = {"num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset", "base_path", "seed"}
_OURS |= {"env_seed", "gym_reset_return_info", "max_episode_steps", "reward_threshold"}


@cache
def known() -> frozenset[str]:
    """The environments that EnvPool has; none where it is not installed."""
    if importlib.util.find_spec("envpool") is None:
        return frozenset()
    import envpool

    return frozenset(envpool.list_all_envs())


def pool_id(name: str) -> str:
    """What EnvPool calls an environment."""
    return f"MuJoCoPlayground/{name.removeprefix(PREFIX)}-v1" if name.startswith(PREFIX) else name


def has(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether EnvPool has an environment that takes these keys."""
    return pool_id(name) in known() and not set(kwargs) - set(_keys(name))


def make_vector(name: str, num_envs: int, max_t: int | None, **kwargs: Any) -> tuple[Pool, int]:
    """`num_envs` copies and their time limit."""
    if not known():
        raise SpecError('env.backend envpool needs a package that is not installed: pip install "rewardlab[envpool]".')
    if pool_id(name) not in known():
        nearest = near(pool_id(name), known())
        raise SpecError(f"EnvPool has no environment {name!r}" + (f"; did you mean {nearest}?" if nearest else ""))
    refuse_unknown(f"Environment {name} of EnvPool", kwargs, _keys(name))
    import envpool

    limit = max_t if max_t is not None else int(envpool.make_spec(pool_id(name)).config.max_episode_steps)
    return Pool(pool_id(name), num_envs, {**kwargs, "max_episode_steps": limit}), limit


def _keys(name: str) -> list[str]:
    """The keys of one environment."""
    import envpool

    return sorted(set(envpool.make_spec(pool_id(name)).config._fields) - _OURS)


class Pool:
    """Gymnasium's vector interface, as far as a `HostEnv` uses it. EnvPool seeds its copies when it makes them, so a
    seeded reset makes them anew."""

    render_mode = None

    def __init__(self, name: str, num_envs: int, options: Mapping[str, Any]) -> None:
        self.name, self.num_envs, self._options = name, num_envs, dict(options)
        self._threads = threads(num_envs)
        self._pool = self._make(range(num_envs))
        self.single_observation_space = _unbounded(self._pool.observation_space)
        self.single_action_space = self._pool.action_space
        self._obs: Any = None  # an array, or several by name

    def reset(self, seed: list[int] | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode in every copy, or in those of a mask."""
        if options is not None:
            which = np.flatnonzero(options["reset_mask"]).astype(np.int32)
            fresh, info = self._pool.reset(which)
            self._obs = _filled(self._obs, info["env_id"], fresh)
            return self._obs, info
        if seed is not None:
            self._pool.close()
            self._pool = self._make(seed)
        self._obs, info = self._pool.reset()
        return self._obs, info

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """One step of every copy; those that end wait for `reset`."""
        self._obs, reward, terminated, truncated, _ = self._pool.step(actions)
        return self._obs, reward, terminated, truncated, {}

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def _make(self, seeds: Any) -> Any:
        import envpool

        words = [int(seed) % 2**31 for seed in seeds]
        with (
            warnings.catch_warnings()
        ):  # bounds have more digits than the spaces, which are made when they are asked for
            warnings.filterwarnings("ignore", ".*precision lowered", UserWarning)
            made = envpool.make_gymnasium(
                self.name, num_envs=self.num_envs, num_threads=self._threads, seed=words, **self._options
            )
            assert made.observation_space is not None
            assert made.action_space is not None
        return made


def _filled(obs: Any, which: Array, fresh: Any) -> Any:
    """Observations with those of some copies replaced."""
    if isinstance(obs, Mapping):
        return {key: _filled(part, which, fresh[key]) for key, part in obs.items()}
    filled = obs.copy()
    filled[which] = fresh
    return filled


def _unbounded(space: Any) -> Any:
    """Floats without bounds: some of EnvPool's own are wrong (the lander's lie above zero)."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: _unbounded(part) for key, part in space.items()})
    if not isinstance(space, gym.spaces.Box) or space.dtype.kind != "f":
        return space
    return gym.spaces.Box(-np.inf, np.inf, space.shape, np.float32)
