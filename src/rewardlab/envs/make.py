"""The environment that a spec names: in JAX where it lives there, else on the host."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import jax

from rewardlab.envs import playground, pool
from rewardlab.envs.atari import ATARI
from rewardlab.envs.base import Box, JaxEnv, Space
from rewardlab.envs.check import EnvContractError, check_env
from rewardlab.envs.classic import CLASSIC
from rewardlab.envs.gym_vector import find_gym_spec
from rewardlab.envs.host import HOSTS, HostEnv
from rewardlab.envs.vector import refuse_unknown
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.spec import EnvSpec, Spec, SpecError, build, near

BACKENDS = ("jax", *HOSTS)
OFFERS = "rewardlab.envs"  # the entry-point group under which installed packages offer their JAX environments


def make(env: EnvSpec, sessions: int, seed: int) -> VectorEnv | HostEnv:
    """A JAX environment with the copies of one session, or a host environment with the copies of all sessions."""
    backend = backend_of(env)
    if backend != "jax":
        return HostEnv(env.name, sessions * env.num_envs, seed, env.max_t, backend, **env.kwargs)
    found = find_jax(env.name)
    if found is None:
        raise SpecError(
            f"{env.name} does not live in JAX; leave env.backend out, or take one of {', '.join(CLASSIC)}, "
            "or your own as module:ClassName"
        )
    made = _jax_env(found, env)
    return VectorEnv(made, env.num_envs, env.max_t or made.max_episode_steps)


def backend_of(env: EnvSpec) -> str:
    """What steps an environment: what its spec names, else JAX where it lives there, else the fastest that has it."""
    if env.backend is not None:
        if env.backend not in BACKENDS:
            nearest = near(env.backend, BACKENDS)
            hint = f"did you mean {nearest}?" if nearest else f"there are {', '.join(BACKENDS)}"
            raise SpecError(f"env.backend {env.backend!r} is unknown; {hint}")
        return env.backend
    if env.name.startswith(playground.PREFIX) and not playground.at_hand(env.name) and pool.has(env.name, env.kwargs):
        return "envpool"
    if find_jax(env.name) is not None:
        return "jax"
    if env.name.startswith(ATARI):
        return "ale"
    return "envpool" if pool.has(env.name, env.kwargs) else "gymnasium"


def settled(spec: Spec) -> Spec:
    """The spec with what steps its environment here, where that is a matter of what is installed: what is recorded
    must run again on the same."""
    backend = backend_of(spec.env)
    if backend == "jax":
        return spec
    return dataclasses.replace(spec, env=dataclasses.replace(spec.env, backend=backend))


def spaces(env: VectorEnv | HostEnv) -> tuple[Box, Space]:
    """What an algorithm sees and does: pixels as they are, other observations as one row of float32; actions as they
    are."""
    seen = env.observation
    return seen if len(seen.shape) == 3 else Box((seen.size,), seen.low, seen.high, hidden=seen.hidden), env.action


def offered() -> dict[str, EntryPoint]:
    """What installed packages offer by name."""
    return {point.name: point for point in entry_points(group=OFFERS)}


def find_jax(name: str) -> Callable[..., JaxEnv] | None:
    """The class of an environment that lives in JAX: ours, an installed package's, or `module:ClassName`."""
    if name in CLASSIC:
        return CLASSIC[name]
    if name.startswith(playground.PREFIX):
        return playground.find(name)
    if point := offered().get(name):
        found: Callable[..., JaxEnv] = point.load()
        return found
    module, _, attribute = name.rpartition(":")
    if not module or not attribute.isidentifier():
        return None
    try:
        candidate = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        find_gym_spec(name)  # says what is missing
        return None
    # `observe` is ours alone: a Gymnasium class, which may stand in the same module, has none
    return candidate if callable(candidate) and hasattr(candidate, "observe") else None


def _jax_env(found: Callable[..., JaxEnv], env: EnvSpec) -> JaxEnv:
    """The environment with the spec's keys; one that is not ours is checked before anything is compiled on it."""
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        made: Any = build(found, _known_keys(found, env), "env")
    else:
        try:
            made = found(**env.kwargs)
        except TypeError as error:
            raise SpecError(f"Environment {env.name} cannot be made with {dict(env.kwargs)}: {error}") from error
    if env.name not in CLASSIC and not env.name.startswith(playground.PREFIX):
        try:
            check_env(made, jax.random.key(0))
        except EnvContractError as error:
            raise SpecError(f"Environment {env.name}: {error}") from error
    return made  # type: ignore[no-any-return]


def _known_keys(found: Any, env: EnvSpec) -> dict[str, Any]:
    """The spec's keys, once each is known to be one of the class."""
    keys = [field.name for field in dataclasses.fields(found) if field.init]
    refuse_unknown(f"Environment {env.name} in JAX", env.kwargs, keys, " (Gymnasium's own may: env.backend gymnasium)")
    return dict(env.kwargs)
