"""MuJoCo Playground's tasks as JAX environments, `playground/NAME`: stepped inside the compiled program by MJX.

The time limit and the reset at an end are ours, not the Brax wrappers': a limit shows the true final observation.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.envs.base import Box
from rewardlab.envs.vector import refuse_unknown
from rewardlab.spec import SpecError, near

PREFIX = "playground/"
# Where the robots' models lie, for those tasks that need them: set from outside, else Playground's own place.
menagerie: Path | None = None


class Physics(NamedTuple):
    """A state of Playground's, without its reward and `done`, which are a step's."""

    data: Any
    obs: Any
    metrics: dict[str, Array]
    info: dict[str, Any]


class Playground:
    """One task. Observations of two kinds (what a robot senses, and what only a critic may see) stand side by side."""

    costly_reset = True

    def __init__(self, env: Any, limit: int) -> None:
        self.env, self.max_episode_steps = env, limit
        size = env.observation_size
        self._keys = ("state", "privileged_state") if isinstance(size, Mapping) else ()
        sizes = [_count(size[key]) for key in self._keys] or [_count(size)]
        self.observation = Box((sum(sizes),), hidden=sum(sizes[1:]))
        self.action = Box((int(env.action_size),), -1.0, 1.0)

    def reset(self, key: PRNGKeyArray) -> Physics:
        """A fresh state."""
        state = self.env.reset(jax.random.key_data(key))
        return Physics(state.data, state.obs, state.metrics, state.info)

    def step(self, state: Physics, action: Array, key: PRNGKeyArray) -> tuple[Physics, Array, Array]:
        """The next state, the reward, and whether the task ended by itself."""
        from mujoco_playground import State

        zero = jnp.zeros(())
        new = self.env.step(State(state.data, state.obs, zero, zero, state.metrics, state.info), action)
        physics = Physics(new.data, new.obs, new.metrics, new.info)
        kept = jax.tree.map(lambda x, y: jnp.asarray(x, jnp.asarray(y).dtype), physics, state)
        return kept, new.reward.astype(jnp.float32), new.done > 0.5

    def observe(self, state: Physics) -> Array:
        """What the agent sees, then what only its critic does."""
        rows = [state.obs[key] for key in self._keys] or [state.obs]
        return jnp.concatenate([jnp.ravel(row) for row in rows]).astype(jnp.float32)


def _count(size: Any) -> int:
    """The number of entries of an observation."""
    return int(size) if isinstance(size, int) else int(size[0])


@cache
def known() -> tuple[str, ...]:
    """The tasks; none where Playground is not installed."""
    if not installed():
        return ()
    from mujoco_playground import registry

    return tuple(registry.ALL_ENVS)


def installed() -> bool:
    """Whether tasks can be stepped in JAX here."""
    return importlib.util.find_spec("mujoco_playground") is not None


def at_hand(name: str) -> bool:
    """Whether this task can: some need robots that are not in the package."""
    return installed() and (name.removeprefix(PREFIX) not in _with_robots() or _robots_folder().is_dir())


def _with_robots() -> tuple[str, ...]:
    from mujoco_playground import dm_control_suite

    return tuple(task for task in known() if task not in dm_control_suite.ALL_ENVS)


def _robots_folder() -> Path:
    from mujoco_playground._src import mjx_env

    return menagerie or Path(mjx_env.MENAGERIE_PATH)


def find(name: str) -> Callable[..., Playground]:
    """What makes a task from the keys of a spec: `impl` (jax, or warp on a GPU), and those of its configuration."""
    task = name.removeprefix(PREFIX)
    if not installed():
        raise SpecError(f'{name} needs a package that is not installed: pip install "rewardlab[playground]".')
    if task not in known():
        nearest = near(task, known())
        raise SpecError(f"Playground has no task {task!r}" + (f"; did you mean {nearest}?" if nearest else ""))
    return lambda **keys: _load(task, keys)


@cache
def _loaded(task: str, keys: tuple[tuple[str, Any], ...]) -> Playground:
    """One and the same object for one and the same task: it is a static part of compiled programs."""
    from mujoco_playground import registry

    config = registry.get_default_config(task)
    given = {"impl": "jax", **dict(keys)}
    refuse_unknown(f"Playground's {task}", given, {*config, "impl"})
    _robots(task)
    return Playground(registry.load(task, config_overrides=given), int(config.episode_length))


def _load(task: str, keys: Mapping[str, Any]) -> Playground:
    return _loaded(task, tuple(sorted(keys.items())))


def _robots(task: str) -> None:
    """Point Playground to the robots' models, or say in a sentence what is missing: it would clone them from GitHub."""
    from etils import epath
    from mujoco_playground._src import mjx_env

    if task not in _with_robots():
        return
    mjx_env.MENAGERIE_PATH = epath.Path(_robots_folder())
    if not _robots_folder().is_dir():
        raise SpecError(
            f"{PREFIX}{task} needs the robots of mujoco_menagerie (github.com/google-deepmind/mujoco_menagerie, commit "
            f"{mjx_env.MENAGERIE_COMMIT_SHA[:8]}): put a copy into a folder and name it in REWARDLAB_MENAGERIE"
        )
