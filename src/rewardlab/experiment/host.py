"""The loop for environments that step outside JAX: the same pure functions as `ScanLoop`, driven by Python.

A vector step costs one compiled call: what the learner makes of the last step and the choice of the next action are one
program. What is seen is written on the device and read once per segment.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from rewardlab.algos.base import Algorithm, Clock
from rewardlab.envs.base import TimeStep
from rewardlab.envs.host import HostEnv
from rewardlab.experiment import checkpoint
from rewardlab.experiment.session import Best, Runner, Seen, Session, of_segment
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import to_env_action
from rewardlab.nets.recurrent import Recalled, forget, recalled
from rewardlab.spec import Spec


class Iteration(NamedTuple):
    """What stays the same during a rollout."""

    clock: Clock
    noise: Any
    learn_key: PRNGKeyArray


class Tape(NamedTuple):
    """A rollout in the making: `t` steps of it are written."""

    t: Int[Array, ""]
    transition: Transition
    total_reward: Array
    episodes: Array


class Choice(NamedTuple):
    """Actions chosen and not yet stepped, and what the policy remembers from then on."""

    action: Array
    extras: dict[str, Array]
    memory: Any


# which of their parts have a sessions axis
EACH: Any = 0
SHARED: Any = None
FIXED = Iteration(clock=SHARED, noise=EACH, learn_key=EACH)
TAPE = Tape(t=SHARED, transition=EACH, total_reward=EACH, episodes=EACH)


def only(runner: Runner, *parts: str) -> Runner:
    """Some parts of a runner: a call is cheaper the less it is given, and what it does not get it cannot use up."""
    given: dict[str, Any] = {name: getattr(runner, name) if name in parts else None for name in Runner._fields}
    return Runner(**given)


class HostLoop:
    """Drives environments outside JAX: all copies of all sessions step together, session by session in order."""

    def __init__(self, spec: Spec, algorithm: Algorithm, env: HostEnv) -> None:
        self.algorithm, self.env = algorithm, env
        self.session = Session(spec, algorithm)
        self.plan = self.session.plan
        self.sessions = env.num_envs // spec.env.num_envs
        self.memory_start = 0
        self._seed = spec.meta.seed
        self._structure: Any = None  # of what `_step` gets as a flat list
        self._start = jax.jit(jax.vmap(self.session.start, (None, 0, None, 0)))
        self._reset = jax.jit(jax.vmap(self._reset_one))
        self._begin = jax.jit(jax.vmap(self._begin_one, (None, 0, None, None), (FIXED, TAPE, 0, 0)))
        self._step = jax.jit(self._step_all, donate_argnums=(1, 2, 3))
        self._blank = jax.jit(jax.vmap(self._blank_one, (None, 0, FIXED, TAPE)))
        learn = jax.vmap(self._learn_one, (None, 0, FIXED, 0, TAPE, 0, 0, 0))
        self._learn = jax.jit(learn, donate_argnums=(1, 3, 7))
        self._close = jax.jit(jax.vmap(self._close_one, (None, 0, 0, 0, None)), donate_argnums=2)

    def start(self, keys: PRNGKeyArray) -> Runner:
        """Fresh sessions, one per key."""
        runner: Runner = self._start(self.algorithm, keys, None, self._by_session(self.env.reset()))
        return runner

    def advance(self, runner: Runner, segment: int, count: int) -> tuple[Runner, Seen]:
        """The sessions after `count` segments more, and what was seen: arrays [sessions, count, …]. The runner given is
        used up."""
        seen = []
        for i in range(segment, segment + count):
            runner, one = self._segment(runner, i)
            seen.append(jax.device_get(one))
        return runner, jax.tree.map(lambda *xs: np.stack(xs, axis=1), *seen)

    def freeze(self, runner: Runner) -> Runner:
        """The runner as a checkpoint holds it: with the exact state of the simulators, where they can give it."""
        return runner._replace(env=self.env.snapshot())

    def template(self, runner: Runner, path: Path) -> Runner:
        """What a checkpoint is loaded into: how large a simulator's state is, only the file knows."""
        return runner._replace(env=checkpoint.blank_arrays(path, "env") or None)

    def thaw(self, runner: Runner) -> tuple[Runner, bool]:
        """A runner from a checkpoint, and whether it goes on exactly as it would have: where the simulators' state
        could not be saved, their episodes begin anew."""
        snapshot = runner.env
        runner = jax.device_put(runner._replace(env=None))
        if snapshot is not None:
            self.env.restore(snapshot)
            return runner, True
        # a seed of where the run stands, or every resume would play the run's first episodes again
        place = runner.obs, runner.tracker.episodes
        here = zlib.crc32(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(place)))
        seed = int(np.random.SeedSequence((self._seed, here)).generate_state(1)[0])
        return self._reset(runner, self._by_session(self.env.reset(seed))), False

    def close(self) -> None:
        """End the environments."""
        self.env.close()

    def _segment(self, runner: Runner, segment: int) -> tuple[Runner, Seen]:
        """One segment; what it saw is still on the device."""
        seen = None
        for i in range(self.plan.iterations):
            runner, seen = self._iteration(runner, segment * self.plan.iterations + i, seen)
        used = only(runner, "agent", "lens", "tracker")
        best, result = self._close(self.algorithm, used, runner.best, seen, np.int32(segment))
        return runner._replace(best=best), result

    def _iteration(self, runner: Runner, number: int, seen: Seen | None) -> tuple[Runner, Seen]:
        """A rollout, and learning from it."""
        algorithm, agent = self.algorithm, runner.agent
        now = np.int32(number), np.int32(self.memory_start)
        fixed, tape, choice, taken = self._begin(
            algorithm, only(runner, "key", "agent", "obs", "lens", "tracker"), *now
        )
        live = only(runner, "obs", "lens", "tracker")  # what a step changes
        # taken apart once per rollout: at every step it would take longer than the step
        constant, self._structure = jax.tree.flatten((algorithm, agent, fixed))
        for _ in range(self.plan.horizon - 1):
            outcome = self._play(taken)
            live, tape, choice, taken = self._step(constant, live, tape, choice, outcome)
        outcome = self._play(taken)
        if seen is None:
            seen = self._blank(algorithm, agent, fixed, tape)
        agent, live, seen = self._learn(algorithm, agent, fixed, live, tape, choice, outcome, seen)
        return live._replace(key=runner.key, agent=agent, best=runner.best), seen

    def _play(self, taken: Array) -> TimeStep:
        """One step of every environment."""
        actions = np.asarray(taken)
        outcome = self.env.step(actions.reshape(self.env.num_envs, *actions.shape[2:]))
        return TimeStep(*map(self._by_session, outcome))

    def _by_session(self, x: Any) -> Any:
        """An array [sessions · N, …] as [sessions, N, …]."""
        return x.reshape(self.sessions, self.plan.num_envs, *x.shape[1:])

    # What follows is compiled; one session is written.

    def _reset_one(self, runner: Runner, obs: Array) -> Runner:
        """A session whose episodes were given up for fresh ones that stand at `obs`."""
        lens = runner.lens
        if lens.obs is not None:
            lens = lens._replace(obs=lens.obs.update(obs.reshape(obs.shape[0], *self.session.lens.shape)))
        if lens.discounted is not None:
            lens = lens._replace(discounted=jnp.zeros_like(lens.discounted))
        tracker = runner.tracker._replace(running=jnp.zeros_like(runner.tracker.running))
        memory = runner.obs.memory if isinstance(runner.obs, Recalled) else None
        memory = forget(memory, jnp.ones(obs.shape[0], bool))
        obs = recalled(self.session.lens.look(lens, obs), memory)
        return runner._replace(obs=obs, lens=lens, tracker=tracker)

    def _begin_one(
        self, algorithm: Algorithm, runner: Runner, iteration: Array, memory_start: Array
    ) -> tuple[Iteration, Tape, Choice, Array]:
        """The randomness of an iteration, an empty tape, the first actions and what the environments are told."""
        horizon = self.plan.horizon
        rollout_key, learn_key = self.session.keys(runner, iteration)
        act_key, _ = jax.random.split(rollout_key)  # the other half is for environments that live in JAX
        noise = algorithm.noise(act_key, horizon)
        fixed = Iteration(self.session.clock(iteration, memory_start), noise, learn_key)
        start = jnp.zeros((), jnp.int32)
        choice, taken = self._choose(algorithm, runner.agent, runner.obs, fixed, start)
        transition = jax.eval_shape(self.session.perceive, runner, *choice, self._blank_outcome())[1]
        blank = jax.tree.map(lambda x: jnp.zeros((horizon, *x.shape), x.dtype), transition)
        return fixed, Tape(start, blank, jnp.zeros(horizon), jnp.zeros(horizon, jnp.int32)), choice, taken

    def _blank_outcome(self) -> TimeStep:
        """What one session's environments give in a step, in shape."""
        n, seen = self.plan.num_envs, self.env.observation
        obs, flag = jnp.zeros((n, *seen.shape), seen.dtype), jnp.zeros(n, bool)
        return TimeStep(obs, jnp.zeros(n), flag, flag, obs, flag)

    def _choose(self, algorithm: Algorithm, agent: Any, obs: Array, fixed: Iteration, t: Array) -> tuple[Choice, Array]:
        """The actions of step `t`, and as the environments take them."""
        noise = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, t, keepdims=False), fixed.noise)
        action, extras = algorithm.act(agent, obs, fixed.clock, noise)
        memory = self.session.remember(algorithm, agent, obs)
        return Choice(action, extras, memory), to_env_action(action, self.env.action)

    def _record(self, live: Runner, tape: Tape, choice: Choice, outcome: TimeStep) -> tuple[Runner, Tape]:
        """What the learner makes of a step, on the tape."""
        live, transition = self.session.perceive(live, *choice, outcome)
        new = transition, live.tracker.total_reward, live.tracker.episodes.sum()
        old = tape.transition, tape.total_reward, tape.episodes
        written = jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, tape.t, 0), old, new)
        return live, Tape(tape.t + 1, *written)

    def _step_all(
        self, constant: list[Array], live: Runner, tape: Tape, choice: Choice, outcome: TimeStep
    ) -> tuple[Runner, Tape, Choice, Array]:
        """A step of all sessions."""
        step = jax.vmap(self._step_one, (None, 0, FIXED, 0, TAPE, 0, 0), (0, TAPE, 0, 0))
        algorithm, agent, fixed = jax.tree.unflatten(self._structure, constant)
        after: Any = step(algorithm, agent, fixed, live, tape, choice, outcome)
        return after  # type: ignore[no-any-return]

    def _step_one(
        self,
        algorithm: Algorithm,
        agent: Any,
        fixed: Iteration,
        live: Runner,
        tape: Tape,
        choice: Choice,
        outcome: TimeStep,
    ) -> tuple[Runner, Tape, Choice, Array]:
        """The end of one step and the beginning of the next."""
        live, tape = self._record(live, tape, choice, outcome)
        return live, tape, *self._choose(algorithm, agent, live.obs, fixed, tape.t)

    def _blank_one(self, algorithm: Algorithm, agent: Any, fixed: Iteration, tape: Tape) -> Seen:
        """An empty sheet for what a segment sees."""
        learned = jax.eval_shape(algorithm.learn, agent, tape.transition, fixed.clock, fixed.learn_key)[1]
        iterations, steps = self.plan.iterations, self.plan.iterations * self.plan.horizon
        metrics = jax.tree.map(lambda x: jnp.zeros((iterations, *x.shape), x.dtype), learned)
        return Seen(jnp.zeros(steps), jnp.zeros(steps, jnp.int32), metrics)

    def _learn_one(
        self,
        algorithm: Algorithm,
        agent: Any,
        fixed: Iteration,
        live: Runner,
        tape: Tape,
        choice: Choice,
        outcome: TimeStep,
        seen: Seen,
    ) -> tuple[Any, Runner, Seen]:
        """The end of the last step of a rollout, and learning from it."""
        live, tape = self._record(live, tape, choice, outcome)
        agent, metrics = algorithm.learn(agent, tape.transition, fixed.clock, fixed.learn_key)
        i = fixed.clock.iteration % self.plan.iterations
        write, start = jax.lax.dynamic_update_slice_in_dim, i * self.plan.horizon
        total_reward = write(seen.total_reward, tape.total_reward, start, 0)
        episodes = write(seen.episodes, tape.episodes, start, 0)
        logged = {name: jax.lax.dynamic_update_index_in_dim(x, metrics[name], i, 0) for name, x in seen.metrics.items()}
        return agent, live, Seen(total_reward, episodes, logged)

    def _close_one(
        self, algorithm: Algorithm, runner: Runner, best: Best, seen: Seen, segment: Array
    ) -> tuple[Best, Seen]:
        """The end of a segment: the best policy so far, and the means of what was seen."""
        metrics = of_segment(seen.metrics)
        runner = self.session.remember_best(algorithm, runner._replace(best=best), segment)
        return runner.best, seen._replace(metrics=metrics)
