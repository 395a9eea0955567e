"""The loop: act, step, learn. Pure functions of one session, mapped over the sessions of a trial; driven by `scan`
where the environment lives in JAX (`ScanLoop`) and by Python where it does not (`HostLoop`, host.py).

A loop does not log, plot or save. It advances, and what it has seen comes back as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock, Metrics
from rewardlab.envs.base import TimeStep
from rewardlab.envs.wrappers import Lens, LensSettings, Tracker, VectorEnv
from rewardlab.experiment import hosts
from rewardlab.experiment.device import data_mesh, session_mesh
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import to_env_action
from rewardlab.nets.recurrent import Recalled, forget, recalled
from rewardlab.spec import Spec

CACHED = (
    8  # sessions that a CPU core steps together: what the small nets and replays of so many hold stays in its cache
)
WINDOW = 100  # checkpoints in the moving average, as the seeds define the score


class Best(NamedTuple):
    """The policy with the highest moving average so far; `recent` holds the returns of the last segments."""

    score: Float[Array, ""]
    frame: Int[Array, ""]
    policy: Any
    recent: Float[Array, W]


class Runner(NamedTuple):
    """Everything of one session that changes: what a checkpoint must hold."""

    key: PRNGKeyArray
    agent: Any
    env: Any
    obs: Array
    lens: Lens
    tracker: Tracker
    best: Best


class Seen(NamedTuple):
    """What a segment saw: per vector step the mean last return and the episodes so far, and the metrics' means."""

    total_reward: Array
    episodes: Array
    metrics: Metrics


@dataclass(frozen=True)
class Plan:
    """How a run divides into iterations (one rollout and one `learn`) and segments (the least that is run at once)."""

    horizon: int
    num_envs: int
    max_frame: int
    log_frequency: int

    @property
    def frames_per_iteration(self) -> int:
        """Frames of one session between two calls of `learn`."""
        return self.horizon * self.num_envs

    @property
    def iterations(self) -> int:
        """Iterations per segment: as many as fit between two log checkpoints, one at the least."""
        return max(1, self.log_frequency // self.frames_per_iteration)

    @property
    def frames(self) -> int:
        """Frames per segment."""
        return self.iterations * self.frames_per_iteration

    @property
    def segments(self) -> int:
        """Segments in the whole run: the last may reach past `max_frame`, its rows do not."""
        return math.ceil(self.max_frame / self.frames)

    @property
    def window(self) -> int:
        """Segments that hold the last 100 log checkpoints."""
        return max(1, round(WINDOW * self.log_frequency / self.frames))

    def rows(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """Which vector steps of segments `first` … `first + count − 1` are log checkpoints, counted from the first."""
        steps = np.arange(count * self.iterations * self.horizon)
        before = first * self.frames + steps * self.num_envs
        after = before + self.num_envs
        crossed = after // self.log_frequency > before // self.log_frequency
        return steps[crossed & (after <= self.max_frame)]


def of_segment(metrics: Metrics) -> Metrics:
    """The means of what the iterations of a segment logged, and how far they came."""
    return {name: x[-1] if name == "opt_step" else jnp.nanmean(x, 0) for name, x in metrics.items()}


def strongly_typed(x: Array) -> Array:
    """The same array with its dtype for good: a weakly typed one changes it in the first step, which compiles twice."""
    return x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jax.lax.convert_element_type(x, x.dtype)


class Session:
    """The pure functions of one session."""

    def __init__(self, spec: Spec, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.plan = Plan(algorithm.horizon, spec.env.num_envs, spec.env.max_frame, spec.meta.log_frequency)
        env = spec.env
        gamma = float(getattr(algorithm, "gamma", 0.99))
        shape = algorithm.observation.shape
        self.lens = LensSettings(env.normalize_obs, env.normalize_reward, env.clip_obs, env.clip_reward, shape, gamma)

    def start(self, algorithm: Algorithm, key: PRNGKeyArray, env: Any, obs: Array) -> Runner:
        """A fresh session in environments that stand at `obs`."""
        agent = algorithm.init(jax.random.fold_in(key, 0))
        lens = self.lens.create(self.plan.num_envs)
        if lens.obs is not None:
            lens = lens._replace(obs=lens.obs.update(obs.reshape(obs.shape[0], *self.lens.shape)))
        # copied, so that no two parts of a runner share a buffer and all of it can be given back to the next step
        policy = jax.tree.map(jnp.copy, (algorithm.policy(agent), lens.obs))
        memory = algorithm.blank(policy[0], self.plan.num_envs)
        recent = jnp.full(self.plan.window, jnp.nan)
        best = Best(jnp.asarray(-jnp.inf), jnp.zeros((), jnp.int32), policy, recent)
        tracker = Tracker.create(self.plan.num_envs)
        runner = Runner(key, agent, env, recalled(self.lens.look(lens, obs), memory), lens, tracker, best)
        typed: Runner = jax.tree.map(strongly_typed, runner)
        return typed

    def clock(self, iteration: Int[Array, ""], memory_start: Int[Array, ""]) -> Clock:
        """The time at the start of an iteration."""
        return Clock(iteration, iteration * self.plan.frames_per_iteration, memory_start)

    def keys(self, runner: Runner, iteration: Int[Array, ""]) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """The randomness of an iteration, for the rollout and for learning: made of the session's key and time."""
        rollout, learn = jax.random.split(jax.random.fold_in(runner.key, iteration + 1))
        return rollout, learn

    def remember(self, algorithm: Algorithm, agent: Any, obs: Any) -> Any:
        """What a policy remembers after looking at observations; None if it remembers nothing."""
        return algorithm.remember(algorithm.policy(agent), obs) if isinstance(obs, Recalled) else None

    def perceive(
        self, runner: Runner, action: Array, extras: dict[str, Array], memory: Any, step: TimeStep
    ) -> tuple[Runner, Transition]:
        """What the learner makes of a step."""
        lens, reward = self.lens.learn(runner.lens, step)
        done = step.terminated | step.truncated
        obs = recalled(self.lens.look(lens, step.obs), forget(memory, done))
        next_obs = recalled(self.lens.look(lens, step.next_obs), memory)
        transition = Transition(runner.obs, action, reward, step.terminated, step.truncated, next_obs, extras)
        tracker = runner.tracker.update(step.reward, step.ended)
        return runner._replace(obs=obs, lens=lens, tracker=tracker), transition

    def remember_best(self, algorithm: Algorithm, runner: Runner, segment: Int[Array, ""]) -> Runner:
        """The best policy so far, this one included."""
        best = runner.best
        recent = best.recent.at[segment % self.plan.window].set(runner.tracker.total_reward)
        score = jnp.nanmean(recent)
        better = score >= best.score  # NaN is never better
        policy = (algorithm.policy(runner.agent), runner.lens.obs)
        policy = jax.tree.map(lambda new, old: jnp.where(better, new, old), policy, best.policy)
        frame = jnp.where(better, (segment + 1) * self.plan.frames, best.frame)
        return runner._replace(best=Best(jnp.where(better, score, best.score), frame, policy, recent))


def group_size(sessions: int) -> int:
    """The largest part of at most `CACHED` that divides the sessions evenly; all of them if it is a small one."""
    size = max(n for n in range(1, min(CACHED, sessions) + 1) if sessions % n == 0)
    return size if 2 * size >= CACHED else sessions


class ScanLoop:
    """Drives environments that live in JAX: many segments in one compiled program. In a `population` each session has
    an algorithm of its own: one with a leading axis on its numbers."""

    capacity = 64  # segments whose output one call can hold

    def __init__(
        self,
        spec: Spec,
        algorithm: Algorithm,
        env: VectorEnv,
        sessions: int | None = None,
        population: Algorithm | None = None,
    ) -> None:
        self.algorithm, self.env = population or algorithm, env
        self.session = Session(spec, algorithm)
        self.plan = self.session.plan
        self.memory_start = 0
        self.lanes = sessions or spec.meta.max_session
        self.distributed = spec.meta.distributed
        self.mesh = data_mesh(spec.env.num_envs) if self.distributed else session_mesh(self.lanes)
        one, each, second = P(), P("sessions"), P(None, "sessions")
        self._own = None if population is None else 0  # the axis on which the algorithm differs by session
        learner = one if population is None else each
        start = jax.vmap(self._start_one, in_axes=(self._own, 0))
        self._start = jax.jit(self._spread(start, (learner, each), each))
        advance = self._spread(self._in_turns, (learner, each, one, one, one), (each, second))
        self._advance: Any = jax.jit(advance, donate_argnums=1)

    def _spread(self, function: Callable[..., Any], given: Any, result: Any) -> Callable[..., Any]:
        """The function of all sessions, run for a share of them on each device; distributed, the compiler spreads it,
        led by where the environments lie."""
        if self.distributed:
            return function
        return jax.shard_map(function, mesh=self.mesh, in_specs=given, out_specs=result, check_vma=False)

    def start(self, keys: PRNGKeyArray) -> Runner:
        """Fresh sessions, one per key."""
        if self.distributed:
            return self.place(self._start(self.algorithm, keys))
        if not hosts.alone():
            keys = hosts.spread(keys, NamedSharding(self.mesh, P("sessions")))
        runner: Runner = self._start(self.algorithm, keys)
        return runner

    def compile(self, keys: PRNGKeyArray) -> None:
        """Compile what `advance` runs, for as many sessions as keys, before there is a runner."""
        where = NamedSharding(self.mesh, P("sessions"))
        shapes = jax.eval_shape(self._start, self.algorithm, keys)
        runner = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), shapes)
        number = jax.ShapeDtypeStruct((), jnp.int32)
        self._advance = self._advance.lower(self.algorithm, runner, number, number, number).compile()

    def place(self, runner: Runner) -> Runner:
        """A runner read from a checkpoint, laid out over the devices: a share of the sessions on each, or, distributed,
        a share of the environments and all of the learner."""
        if not self.distributed:
            placed: Runner = hosts.spread(runner, NamedSharding(self.mesh, P("sessions")))
            return placed
        everywhere, shared = NamedSharding(self.mesh, P()), NamedSharding(self.mesh, P(None, "data"))
        where = jax.tree.map(lambda _: everywhere, runner)
        where = where._replace(env=jax.tree.map(lambda _: shared, runner.env))
        where = where._replace(
            obs=jax.tree.map(lambda _: shared, runner.obs), tracker=jax.tree.map(lambda _: shared, runner.tracker)
        )
        spread: Runner = hosts.spread(runner, where)
        return spread

    def advance(self, runner: Runner, segment: int, count: int) -> tuple[Runner, Seen]:
        """The sessions after `count` segments more, and what was seen: arrays [sessions, count, …]. The runner given is
        used up."""
        numbers = (jnp.asarray(n, jnp.int32) for n in (segment, count, self.memory_start))
        runner, seen = self._advance(self.algorithm, runner, *numbers)
        return runner, jax.tree.map(lambda x: np.asarray(x)[:count].swapaxes(0, 1), hosts.whole(seen))

    def close(self) -> None:
        """Nothing outside JAX was opened."""

    def freeze(self, runner: Runner) -> Runner:
        """The runner as a checkpoint holds it: the environments' states are in it already."""
        frozen: Runner = hosts.whole(runner)
        return frozen

    def template(self, runner: Runner, path: Path) -> Runner:
        """What a checkpoint is loaded into."""
        return runner

    def thaw(self, runner: Runner) -> tuple[Runner, bool]:
        """A runner from a checkpoint, and whether it goes on exactly as it would have."""
        return self.place(runner), True

    def _start_one(self, algorithm: Algorithm, key: PRNGKeyArray) -> Runner:
        env, obs = self.env.reset(jax.random.fold_in(key, 2**31 - 1))
        return self.session.start(algorithm, key, env, obs)

    def _iteration(
        self, algorithm: Algorithm, runner: Runner, iteration: Array, memory_start: Array
    ) -> tuple[Runner, Seen]:
        clock = self.session.clock(iteration, memory_start)
        rollout_key, learn_key = self.session.keys(runner, iteration)

        def one_step(runner: Runner, noise: tuple[Any, Any]) -> tuple[Runner, tuple[Transition, Tracker]]:
            action, extras = algorithm.act(runner.agent, runner.obs, clock, noise[0])
            memory = self.session.remember(algorithm, runner.agent, runner.obs)
            env, step = self.env.step(runner.env, to_env_action(action, self.env.action), noise[1], ready)
            runner, transition = self.session.perceive(runner._replace(env=env), action, extras, memory, step)
            return runner, (transition, runner.tracker)

        act_key, env_key = jax.random.split(rollout_key)
        noise = algorithm.noise(act_key, self.plan.horizon), self.env.noise(env_key, self.plan.horizon)
        ready = self.env.ready(env_key)
        runner, (rollout, tracker) = jax.lax.scan(one_step, runner, noise)
        agent, metrics = algorithm.learn(runner.agent, rollout, clock, learn_key)
        return runner._replace(agent=agent), Seen(tracker.total_reward, tracker.episodes.sum(-1), metrics)

    def _segment(
        self, algorithm: Algorithm, runner: Runner, segment: Array, memory_start: Array
    ) -> tuple[Runner, Seen]:
        each_session = jax.vmap(self._iteration, in_axes=(self._own, 0, None, None))

        def one(runner: Runner, i: Array) -> tuple[Runner, Seen]:
            return each_session(algorithm, runner, segment * self.plan.iterations + i, memory_start)

        runner, seen = jax.lax.scan(one, runner, jnp.arange(self.plan.iterations))
        sessions = seen.episodes.shape[1]
        by_session = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(sessions, -1), seen[:2])
        metrics = of_segment(seen.metrics)
        remember = jax.vmap(self.session.remember_best, in_axes=(self._own, 0, None))
        return remember(algorithm, runner, segment), Seen(by_session[0], by_session[1], metrics)

    def _in_turns(
        self, algorithm: Algorithm, runner: Runner, first: Array, count: Array, memory_start: Array
    ) -> tuple[Runner, Seen]:
        """On a CPU groups of sessions run one after another: more of them do not fit into a core's cache."""
        sessions = runner.tracker.last.shape[0]
        on_cpu = self.mesh.devices.flat[0].platform == "cpu" and not self.distributed
        size = group_size(sessions) if on_cpu else sessions
        if size == sessions:
            return self._many_segments(algorithm, runner, first, count, memory_start)

        def split(tree: Any) -> Any:
            return jax.tree.map(lambda x: x.reshape(sessions // size, size, *x.shape[1:]), tree)

        def one(group: tuple[Algorithm | None, Runner]) -> tuple[Runner, Seen]:
            own, runner = group
            return self._many_segments(own or algorithm, runner, first, count, memory_start)

        runner, seen = jax.lax.map(one, (None if self._own is None else split(algorithm), split(runner)))
        runner = jax.tree.map(lambda x: jax.lax.collapse(x, 0, 2), runner)
        return runner, jax.tree.map(lambda x: jax.lax.collapse(jnp.moveaxis(x, 0, 1), 1, 3), seen)

    def _many_segments(
        self, algorithm: Algorithm, runner: Runner, first: Array, count: Array, memory_start: Array
    ) -> tuple[Runner, Seen]:
        shapes = jax.eval_shape(self._segment, algorithm, runner, first, memory_start)[1]
        buffer = jax.tree.map(lambda s: jnp.zeros((self.capacity, *s.shape), s.dtype), shapes)

        def body(i: Array, carry: tuple[Runner, Seen]) -> tuple[Runner, Seen]:
            runner, buffer = carry
            runner, seen = self._segment(algorithm, runner, first + i, memory_start)
            write = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
            return runner, jax.tree.map(lambda b, x: write(b, x), buffer, seen)

        runner, seen = jax.lax.fori_loop(0, count, body, (runner, buffer))
        return runner, seen
