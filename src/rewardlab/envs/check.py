"""Is a person's own JAX environment one that the lab can train on? Each thing that is wrong is said in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from rewardlab.envs.base import Box, Discrete, JaxEnv, MultiDiscrete, Space, State

STEPS = 16  # how far a random walk is followed


class EnvContractError(ValueError):
    """An environment that breaks the contract of `JaxEnv`."""


def check_env(env: JaxEnv, key: PRNGKeyArray) -> None:
    """Check spaces, shapes, dtypes, bounds, purity, compilation and batching; raise `EnvContractError` at a fault."""
    _check_declarations(env)
    start_key, walk_key, batch_key = jax.random.split(key, 3)
    state = _try("reset", env, lambda: env.reset(start_key))
    _check_pure(env, "reset", env.reset, start_key)
    _check_observation(env, state, "after reset")
    for i, step_key in enumerate(jax.random.split(walk_key, STEPS)):
        action = sample(env.action, step_key)
        if i == 0:
            _check_pure(env, "step", env.step, state, action, step_key)
            _check_pure(env, "observe", env.observe, state)
        following, reward, terminated = _check_step(env, state, action, step_key)
        _check_observation(env, following, f"after step {i + 1}")
        _refuse(env, not np.isfinite(reward), f"gives the reward {reward} in step {i + 1}")
        if terminated:
            break
        state = following
    _check_batch(env, batch_key)


def sample(space: Space, key: PRNGKeyArray) -> Array:
    """A random member of a space; where it has no bounds, a standard normal number."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n)
    if isinstance(space, MultiDiscrete):
        return jax.random.randint(key, (len(space.nvec),), 0, jnp.asarray(space.nvec))
    low, high = (
        jnp.broadcast_to(jnp.asarray(bound), space.size).reshape(space.shape) for bound in (space.low, space.high)
    )
    bounded = jnp.isfinite(low) & jnp.isfinite(high)
    within = jax.random.uniform(key, space.shape) * jnp.where(bounded, high - low, 0.0) + jnp.where(bounded, low, 0.0)
    return jnp.where(bounded, within, jnp.clip(jax.random.normal(key, space.shape), low, high)).astype(space.dtype)


def _refuse(env: JaxEnv, wrong: bool | np.bool_ | Array, what: str) -> None:
    if wrong:
        raise EnvContractError(f"{type(env).__name__} {what}.")


def _try(name: str, env: JaxEnv, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise EnvContractError(f"{type(env).__name__}.{name} fails: {type(error).__name__}: {reason}.") from error


def _check_declarations(env: JaxEnv) -> None:
    """The spaces and the time limit are of the right kind."""
    for name in ("observation", "action", "max_episode_steps", "reset", "step", "observe"):
        _refuse(env, not hasattr(env, name), f"has no `{name}`")
    for name, kinds in (("observation", Box), ("action", Box | Discrete)):
        space = getattr(env, name)
        _refuse(env, not isinstance(space, kinds), f"declares {space!r} as its {name} space; it must be {kinds}")
        if isinstance(space, Box):
            for side in ("low", "high"):
                size = np.size(getattr(space, side))
                _refuse(
                    env, size not in (1, space.size), f"gives {size} numbers as {name}.{side} of {space.size} entries"
                )
    limit = env.max_episode_steps
    _refuse(
        env, not isinstance(limit, int) or limit < 1, f"has max_episode_steps {limit!r}; it must be a positive integer"
    )
    _try("__hash__", env, lambda: hash(env))  # it is a constant of the compiled program


def _described(tree: Any) -> dict[str, str]:
    """Every leaf of a pytree by its path: dtype and shape."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path) or "itself": f"{jnp.asarray(leaf).dtype}{jnp.shape(leaf)}" for path, leaf in leaves
    }


def _check_step(env: JaxEnv, state: State, action: Array, key: PRNGKeyArray) -> tuple[State, Array, Array]:
    """One step: three things, the state of the same structure as before, two scalars."""
    outcome = _try("step", env, lambda: env.step(state, action, key))
    _refuse(
        env, not isinstance(outcome, tuple) or len(outcome) != 3, "must return (state, reward, terminated) from step"
    )
    following, reward, terminated = outcome
    before, after = _described(state), _described(following)
    for path in before | after:
        change = f"{before.get(path, 'absent')} to {after.get(path, 'absent')}"
        _refuse(env, before.get(path) != after.get(path), f"changes its state's leaf {path} from {change} in a step")
    _refuse(env, not _alike(state, following), "returns a state of another structure from step than from reset")
    reward, terminated = jnp.asarray(reward), jnp.asarray(terminated)
    scalar = jnp.issubdtype(reward.dtype, jnp.floating) and reward.shape == ()
    _refuse(env, not scalar, f"gives a reward of {reward.dtype}{reward.shape}; it must be one float")
    flag = terminated.dtype == jnp.bool_ and terminated.shape == ()
    _refuse(env, not flag, f"gives terminated as {terminated.dtype}{terminated.shape}; it must be one bool")
    return following, reward, terminated


def _check_observation(env: JaxEnv, state: State, when: str) -> None:
    """An observation is a member of the observation space."""
    seen = np.asarray(_try("observe", env, lambda: env.observe(state)))
    space = env.observation
    declared = f"{space.dtype}{space.shape}"
    differs = seen.shape != space.shape or str(seen.dtype) != space.dtype
    _refuse(env, differs, f"observes {seen.dtype}{seen.shape} {when}, but declares {declared}")
    _refuse(env, not np.all(np.isfinite(seen)), f"observes a number that is not finite {when}")
    low, high = (np.asarray(bound, seen.dtype).ravel() for bound in (space.low, space.high))
    outside = np.flatnonzero((seen.ravel() < low) | (seen.ravel() > high))
    if outside.size:
        at = int(outside[0])
        bounds = [float(np.broadcast_to(bound, space.size)[at]) for bound in (low, high)]
        _refuse(env, True, f"observes {seen.ravel()[at]} in entry {at} {when}, outside its bounds {bounds}")


def _check_pure(env: JaxEnv, name: str, function: Callable[..., Any], *arguments: Any) -> None:
    """The same arguments give the same result, twice in Python and once compiled, and are left as they were."""
    before = jax.tree.map(np.array, [a for a in arguments if not _is_key(a)])
    first = _try(name, env, lambda: function(*arguments))
    second = _try(name, env, lambda: function(*arguments))
    compiled = _try(f"{name} under jax.jit", env, lambda: jax.jit(function)(*arguments))
    again = _try(f"{name} under jax.jit", env, lambda: jax.jit(function)(*arguments))
    after = jax.tree.map(np.array, [a for a in arguments if not _is_key(a)])
    _refuse(
        env, not _equal(before, after, exact=True), f"writes into the arguments of {name}; return a new state instead"
    )
    hint = "it must depend on its arguments alone (draw from the key, keep nothing on self)"
    _refuse(env, not _equal(first, second, exact=True), f"gives two results of {name} for the same arguments; {hint}")
    same = _equal(first, compiled, exact=False) and _equal(compiled, again, exact=True)
    _refuse(env, not same, f"gives another result of {name} when compiled; {hint}")


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _alike(one: Any, other: Any) -> bool:
    """Two pytrees have the same structure."""
    structures: tuple[Any, Any] = (jax.tree.structure(one), jax.tree.structure(other))
    return bool(structures[0] == structures[1])


def _equal(one: Any, other: Any, exact: bool) -> bool:
    """Two pytrees agree: to the bit, or (compiled code may round elsewhere) closely."""
    if not _alike(one, other):
        return False
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
    plain = [(jax.random.key_data(a), jax.random.key_data(b)) if _is_key(a) else (a, b) for a, b in pairs]
    if exact:
        return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in plain)
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in plain)


def _check_batch(env: JaxEnv, key: PRNGKeyArray) -> None:
    """A batch of three gives what each gives alone."""
    keys = jax.random.split(key, 3)

    def one(key: PRNGKeyArray) -> Any:
        state = env.reset(key)
        state, reward, terminated = env.step(state, sample(env.action, key), key)
        return env.observe(state), reward, terminated

    batch = _try("step under jax.vmap", env, lambda: jax.jit(jax.vmap(one))(keys))
    for i in range(3):
        alone = _try("step", env, lambda i=i: one(keys[i]))  # type: ignore[misc]
        member = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
        _refuse(env, not _equal(alone, member, exact=False), "gives other results in a batch than alone")
