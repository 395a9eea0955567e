"""Measuring a policy: whole episodes in environments of its own, with no exploration and nothing learned."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Policy
from rewardlab.envs.base import Space, TimeStep
from rewardlab.envs.classic import CLASSIC
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import backend_of, make
from rewardlab.envs.playground import PREFIX
from rewardlab.envs.wrappers import Lens, LensSettings, VectorEnv, spread
from rewardlab.maths.normalize import RunningStats
from rewardlab.nets.heads import to_env_action
from rewardlab.nets.recurrent import recalled
from rewardlab.spec import EnvSpec, Spec, SpecError

Saved = tuple[Policy, RunningStats | None]  # a policy and the statistics of what it has seen, as `Best` holds them
STEPS = 100_000  # how far an episode is followed in an environment without a time limit
EVALUATION = 2**31 - 2  # sets the randomness of evaluation apart from that of training


def decide(
    algorithm: Algorithm, lens: LensSettings, saved: Saved, obs: Array, memory: Any, key: PRNGKeyArray
) -> tuple[Array, Any]:
    """What a policy does at observations [N, …], and what it remembers from then on."""
    policy, stats = saved
    seen = recalled(lens.look(Lens(stats, None, None), obs), memory)
    after = None if memory is None else algorithm.remember(policy, seen)
    return algorithm.play(policy, seen, key), after


def choose(
    algorithm: Algorithm, lens: LensSettings, action: Space, saved: Saved, obs: Array, memory: Any, key: PRNGKeyArray
) -> tuple[Array, Any]:
    """The same, with the action as the environment takes it."""
    chosen, after = decide(algorithm, lens, saved, obs, memory, key)
    return to_env_action(chosen, action), after


class Evaluator:
    """Plays `meta.rigorous_eval` whole episodes per session, each in a fresh environment."""

    def __init__(self, spec: Spec, algorithm: Algorithm, lens: LensSettings) -> None:
        self.algorithm, self.seed = algorithm, spec.meta.seed
        self.sessions, self.count = spec.meta.max_session, spec.meta.rigorous_eval
        self.env = make(dataclasses.replace(spec.env, num_envs=self.count), self.sessions, self.seed)
        self._choose = functools.partial(choose, lens=lens, action=self.env.action)
        self._act = jax.jit(jax.vmap(self._act_one, (None, 0, 0, 0, 0, None)))
        self._blank: Any = jax.vmap(lambda saved: algorithm.blank(saved[0], self.count))
        self._play = jax.jit(self._play_all)

    def returns(self, policies: Saved, frame: int) -> np.ndarray[Any, Any]:
        """The undiscounted, unclipped return of each session's episodes [sessions, episodes]: a function of the
        policies, the spec's seed and the frame."""
        policies = jax.device_put(policies, jax.local_devices()[0])  # training may have them spread over several
        base = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), EVALUATION), frame % 2**32)
        keys = jax.vmap(lambda i: jax.random.fold_in(base, i))(jnp.arange(self.sessions))
        if isinstance(self.env, VectorEnv):
            return np.asarray(self._play(self.algorithm, policies, keys))
        return self._play_on_host(self.env, policies, keys, frame)

    def close(self) -> None:
        """End the environments."""
        if isinstance(self.env, HostEnv):
            self.env.close()

    def _act_one(
        self, algorithm: Algorithm, saved: Saved, obs: Array, memory: Any, key: PRNGKeyArray, t: Array
    ) -> tuple[Array, Any]:
        return self._choose(algorithm, saved=saved, obs=obs, memory=memory, key=jax.random.fold_in(key, t))

    def _play_on_host(self, env: HostEnv, policies: Saved, keys: PRNGKeyArray, frame: int) -> np.ndarray[Any, Any]:
        """Until the first episode of every copy has ended; copies that are done early play on unseen."""
        obs = env.reset(int(np.random.SeedSequence((self.seed, EVALUATION, frame)).generate_state(1)[0]))
        total, running, memory = np.zeros(env.num_envs), np.ones(env.num_envs, bool), self._blank(policies)
        for t in range(env.max_episode_steps or STEPS):
            by_session = obs.reshape(self.sessions, self.count, *obs.shape[1:])
            chosen, memory = self._act(self.algorithm, policies, by_session, memory, keys, np.int32(t))
            actions = np.asarray(chosen)
            step: Any = env.step(actions.reshape(env.num_envs, *actions.shape[2:]))
            total += np.where(running, step.reward, 0.0)
            running &= ~step.ended
            if not running.any():
                break
            obs = step.obs
        return total.reshape(self.sessions, self.count).astype(np.float32)

    def _play_all(self, algorithm: Algorithm, policies: Saved, keys: PRNGKeyArray) -> Array:
        """All sessions in one loop, which ends with the last episode; episodes that end earlier stand still."""
        vector: Any = self.env
        env = vector.env

        def start(key: PRNGKeyArray) -> Any:
            return jax.vmap(env.reset)(jax.random.split(key, self.count))

        def step(saved: Saved, key: PRNGKeyArray, state: Any, memory: Any, running: Array, t: Array) -> Any:
            act_key, env_key = jax.random.split(jax.random.fold_in(key, t + 1))
            obs = jax.vmap(env.observe)(state)
            actions, memory = self._choose(algorithm, saved=saved, obs=obs, memory=memory, key=act_key)
            new, reward, terminated = jax.vmap(env.step)(state, actions, jax.random.split(env_key, self.count))
            state = jax.tree.map(lambda x, y: jnp.where(spread(running, x), x, y), new, state)
            return state, memory, jnp.where(running, reward, 0.0), running & ~terminated

        def body(carry: Any) -> Any:
            t, state, memory, total, running = carry
            every = jax.vmap(step, (0, 0, 0, 0, 0, None))
            state, memory, reward, running = every(policies, keys, state, memory, running, t)
            return t + 1, state, memory, total + reward, running

        shape = self.sessions, self.count
        fresh = jax.vmap(start)(keys), self._blank(policies)
        carry = jnp.zeros((), jnp.int32), *fresh, jnp.zeros(shape), jnp.ones(shape, bool)
        *_, total, _ = jax.lax.while_loop(lambda c: (c[0] < vector.max_t) & c[-1].any(), body, carry)
        return total


class Played(NamedTuple):
    """One step of an episode that is watched; `frame` shows where the action was chosen."""

    obs: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]
    reward: float
    done: bool
    frame: np.ndarray[Any, Any] | None


def play_episodes(
    spec: Spec, act: Callable[[Any], Any], episodes: int, seed: int, render: bool = False
) -> Iterator[Played]:
    """Whole episodes one after the other in one environment; `act` gives the policy's action at one observation.

    A classic environment is played in its Gymnasium original, which can draw: the physics are the same."""
    env = _alone(spec.env, seed, render)
    to_env = jax.jit(functools.partial(to_env_action, space=env.action))
    try:
        obs, left = env.reset(), episodes
        while left > 0:
            frame = _frame(env) if render else None
            action = np.asarray(to_env(np.asarray(act(obs[0]))[None]))
            step: Any = env.step(action)
            done = bool(step.ended[0])
            left -= done
            yield Played(obs[0], action[0], float(step.reward[0]), done, frame)
            obs = step.obs
    finally:
        env.close()


def _alone(env: EnvSpec, seed: int, render: bool) -> HostEnv | _JaxOnHost:
    """One copy of an environment to be watched."""
    env = dataclasses.replace(env, num_envs=1)
    backend = backend_of(env)
    if backend == "jax" and env.name not in CLASSIC:
        if render:
            raise SpecError(f"{env.name} lives in JAX and has no Gymnasium original that could draw it.")
        made: Any = make(env, 1, seed)
        return _JaxOnHost(made, seed)
    drawn = {"render_mode": "rgb_array"} if render else {}
    if backend == "ale" or env.name.startswith(PREFIX):
        return HostEnv(env.name, 1, seed, env.max_t, backend, **env.kwargs, **drawn)
    return HostEnv(env.name, 1, seed, env.max_t, **{**env.kwargs, "vectorization": "sync", **drawn})


def _frame(env: HostEnv | _JaxOnHost) -> Any:
    """The environment as an image."""
    try:
        return env.render_frame()
    except gym.error.DependencyNotInstalled as error:
        raise SpecError('Drawing needs a package that is not installed: pip install "rewardlab[render]".') from error
    except Exception as error:
        if not type(error).__module__.startswith(("mujoco", "glfw", "OpenGL")):
            raise
        raise SpecError(
            f"This machine cannot draw: {type(error).__name__}. Without a screen MUJOCO_GL=egl (a GPU) or "
            "MUJOCO_GL=osmesa (Debian's libosmesa6) draws off screen."
        ) from error


class _JaxOnHost:
    """A JAX environment stepped from Python, as a `HostEnv` is."""

    def __init__(self, env: VectorEnv, seed: int) -> None:
        self.action = env.action
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
        self._noise = jax.jit(lambda key: (jax.tree.map(lambda x: x[0], env.noise(key, 1)), env.ready(key)))
        self._key, self._t = jax.random.key(seed), 0
        self._state: Any = None

    def reset(self) -> np.ndarray[Any, Any]:
        """Begin an episode."""
        self._state, obs = self._reset(self._key)
        return np.asarray(obs)

    def step(self, actions: np.ndarray[Any, Any]) -> TimeStep:
        """One step."""
        self._t += 1
        noise = self._noise(jax.random.fold_in(self._key, self._t))
        self._state, step = self._step(self._state, actions, *noise)
        seen: Any = map(np.asarray, step)
        return TimeStep(*seen)

    def render_frame(self) -> None:
        """Nothing can be drawn."""

    def close(self) -> None:
        """Nothing to end."""
