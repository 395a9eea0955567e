"""Which environments there are, what one is like, whether it keeps the contract, and how fast it steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from rewardlab.envs import playground, pool
from rewardlab.envs.base import Box, Discrete, MultiDiscrete, Space
from rewardlab.envs.classic import CLASSIC
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import backend_of, make, offered
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.spec import EnvSpec


class UnsoundError(ValueError):
    """An environment that cannot be trained on as it is, in a sentence."""


class Entry(NamedTuple):
    """An environment by name, and what would step it here."""

    name: str
    backend: str


def listed() -> list[Entry]:
    """Every environment that is known by name on this machine."""
    _register()
    found = dict.fromkeys((*CLASSIC, *offered()), "jax")
    found |= {playground.PREFIX + task: "jax" for task in playground.known()}
    for name in pool.known():
        task = name.removeprefix("MuJoCoPlayground/").removesuffix("-v1")
        found.setdefault(playground.PREFIX + task if task != name.removesuffix("-v1") else name, "envpool")
    for name, spec in gym.registry.items():
        if spec.entry_point is not None and "Frame" not in name:
            found.setdefault(name, "ale" if name.startswith("ALE/") else "gymnasium")
    return [Entry(name, backend) for name, backend in sorted(found.items())]


def _register() -> None:
    """Atari's games stand in Gymnasium's registry once their package is imported."""
    try:
        import ale_py  # noqa: F401
    except ImportError:
        return


def told(env: EnvSpec) -> dict[str, Any]:
    """What an environment is like."""
    made = make(env, 1, 0)
    try:
        limit = made.max_t if isinstance(made, VectorEnv) else made.max_episode_steps
        return {
            "name": env.name,
            "backend": backend_of(env),
            "observation": space_told(made.observation),
            "action": space_told(made.action),
            "limit": limit,
            "resumes": "exactly" if isinstance(made, VectorEnv) or _snapshots(made) else "with new episodes",
        }
    finally:
        if isinstance(made, HostEnv):
            made.close()


def _snapshots(env: HostEnv) -> bool:
    env.reset()
    return env.snapshot() is not None


def space_told(space: Space) -> str:
    """A space in a few words."""
    if isinstance(space, Discrete):
        return f"{space.n} choices"
    if isinstance(space, MultiDiscrete):
        return " × ".join(map(str, space.nvec)) + " choices"
    if len(space.shape) == 3:
        return f"{' × '.join(map(str, space.shape))} pixels ({space.dtype})"
    bounds = "" if not isinstance(space.low, float) or not isinstance(space.high, float) else _bounds(space)
    seen = f", {space.hidden} of them for a critic alone" if space.hidden else ""
    return f"{space.size} numbers{bounds}{seen}"


def _bounds(space: Box) -> str:
    return "" if space.low == -np.inf and space.high == np.inf else f" in [{space.low:g}, {space.high:g}]"


def checked(env: EnvSpec, steps: int = 400) -> Iterator[str]:
    """What was found sound, line by line; an error at the first fault. JAX ones are checked as they are made."""
    made = make(env, 1, 0)
    if isinstance(made, VectorEnv):
        yield "pure, compiles, keeps its shapes, types and bounds"
        return
    made.close()
    one, two = (make(dataclasses.replace(env, num_envs=4), 1, 0) for _ in range(2))
    assert isinstance(one, HostEnv)
    assert isinstance(two, HostEnv)
    try:
        yield from _walks(env, one, two, steps)
    finally:
        one.close()
        two.close()


def _walks(env: EnvSpec, one: HostEnv, two: HostEnv, steps: int) -> Iterator[str]:
    """Two vectors of the same seed, given the same random actions."""
    first, again = one.reset(), two.reset()
    _within(env, one, first, "after reset")
    if not np.array_equal(first, again):
        raise UnsoundError(f"{env.name}: the same seed gives two different first observations; seed all it draws from")
    rng, ends, returns = np.random.default_rng(0), 0, np.zeros(one.num_envs)
    for t in range(steps):
        actions = random_actions(one, rng)
        step: Any = one.step(actions)
        twin: Any = two.step(actions)
        _within(env, one, step.next_obs, f"in step {t + 1}")
        if not np.isfinite(step.reward).all():
            raise UnsoundError(
                f"{env.name} gives the reward {step.reward[~np.isfinite(step.reward)][0]} in step {t + 1}"
            )
        for name in ("next_obs", "reward", "terminated", "truncated", "obs"):
            if not np.array_equal(getattr(step, name), getattr(twin, name)):
                raise UnsoundError(
                    f"{env.name}: the same seed and actions give two different {name} in step {t + 1}; "
                    "seed all it draws from, and share nothing between copies"
                )
        ends += int(step.ended.sum())
        returns += step.reward
    yield f"{steps} steps of {one.num_envs} copies: observations and rewards finite, of the declared shape and type"
    yield "the same seed and actions bring the same, bit for bit"
    if not returns.any():
        yield "note: no reward but zero was seen under random actions"
    if not ends and one.max_episode_steps is None:
        yield "note: no episode ended and there is no time limit; env.max_t sets one"
    else:
        yield f"{ends} episodes ended" if ends else f"no episode ended yet; the time limit is {one.max_episode_steps}"


def _within(env: EnvSpec, made: HostEnv, obs: Any, where: str) -> None:
    """Observations must be finite and lie in their space."""
    if not np.isfinite(np.asarray(obs, np.float64)).all():
        raise UnsoundError(f"{env.name} observes {np.asarray(obs)[~np.isfinite(obs)][0]} {where}")
    low, high = (np.asarray(bound) for bound in (made.observation.low, made.observation.high))
    flat = np.asarray(obs, np.float64).reshape(made.num_envs, -1)
    slack = 1e-5 * (1 + np.abs(flat))  # bounds are kept as float32
    outside = (flat < low - slack) | (flat > high + slack)
    if outside.any():
        copy, entry = np.argwhere(outside)[0]
        raise UnsoundError(
            f"{env.name} observes {flat[copy, entry]:g} in entry {entry} {where}, outside its declared bounds; "
            "widen observation_space"
        )


def random_actions(made: HostEnv, rng: np.random.Generator) -> Any:
    """Uniform ones; standard normal where there are no bounds."""
    space, n = made.action, made.num_envs
    if isinstance(space, Discrete):
        return rng.integers(0, space.n, n)
    if isinstance(space, MultiDiscrete):
        return rng.integers(0, space.nvec, (n, len(space.nvec)))
    low, high = (np.broadcast_to(np.asarray(b).ravel(), (space.size,)) for b in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    drawn = rng.uniform(np.where(bounded, low, 0), np.where(bounded, high, 1), (n, space.size))
    return np.where(bounded, drawn, rng.standard_normal((n, space.size))).reshape(n, *space.shape).astype(np.float32)


def steps_per_second(env: EnvSpec, seconds: float) -> float:
    """How fast it steps under random actions, with nothing else going on."""
    made = make(env, 1, 0)
    if isinstance(made, VectorEnv):
        return _scanned(made, seconds)
    try:
        return _stepped(made, seconds)
    finally:
        made.close()


def _stepped(env: HostEnv, seconds: float) -> float:
    """An environment outside JAX."""
    env.reset()
    rng = np.random.default_rng(0)
    actions = [random_actions(env, rng) for _ in range(16)]
    for action in actions:
        env.step(action)
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        env.step(actions[count % 16])
        count += 1
    return count * env.num_envs / (time.perf_counter() - begun)


def _scanned(env: VectorEnv, seconds: float, horizon: int = 64) -> float:
    """A JAX environment, a rollout at a time in one program."""
    space = env.action

    def act(key: Any) -> Any:
        if isinstance(space, Discrete):
            return jax.random.randint(key, (env.num_envs,), 0, space.n)
        assert isinstance(space, Box)
        return jax.random.uniform(key, (env.num_envs, *space.shape), minval=-1.0, maxval=1.0)

    @jax.jit
    def rollout(vector: Any, key: Any) -> Any:
        ready = env.ready(key)

        def one(vector: Any, given: Any) -> Any:
            noise, act_key = given
            vector, step = env.step(vector, act(act_key), noise, ready)
            return vector, step.reward.sum()

        return jax.lax.scan(one, vector, (env.noise(key, horizon), jax.random.split(key, horizon)))

    vector, _ = jax.jit(env.reset)(jax.random.key(0))
    vector, total = rollout(vector, jax.random.key(1))
    jnp.asarray(total).block_until_ready()
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        vector, total = rollout(vector, jax.random.key(count))
        jax.block_until_ready(total)
        count += 1
    return count * horizon * env.num_envs / (time.perf_counter() - begun)
