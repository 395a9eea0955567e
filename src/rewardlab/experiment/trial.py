"""A trial: the sessions of one spec, trained as one program, recorded, scored, resumable to the bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab import algos
from rewardlab.algos.base import Algorithm
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import make, spaces
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.experiment import hosts, metrics
from rewardlab.experiment.evaluate import Evaluator
from rewardlab.experiment.host import HostLoop
from rewardlab.experiment.record import RunFolder, SessionTable, load_tree, read_meta, save_tree, write_json
from rewardlab.experiment.session import Best, Plan, Runner, ScanLoop, Seen
from rewardlab.spec import Spec, SpecError

CHUNK_SECONDS = 0.5  # how long the program runs between two looks at the clock
# the columns of the seeds' tables, in their order; what an algorithm logs besides comes after them
COLUMNS: tuple[str, ...] = ("epi", "t", "opt_step", "frame", "total_reward", "total_reward_ma")
COLUMNS += ("loss", "lr", "explore_var", "entropy_coef", "entropy", "grad_norm")


class TrainingError(RuntimeError):
    """Training went wrong in a way that no later step can mend."""


class Chunk(NamedTuple):
    """What happened since the last one: which segments, what they saw, how long they took."""

    first: int
    segments: int
    seen: Seen
    seconds: float
    opt_step: Any = 0  # gradient steps before it, per session; None where a resume does not know


@dataclass
class Trial:
    """A spec made ready to run: environments, algorithm, loop, and the state of its sessions."""

    spec: Spec
    loop: ScanLoop | HostLoop
    algorithm: Algorithm
    runner: Runner
    segment: int = 0
    opt_step: Any = 0  # gradient steps so far, per session; None right after a resume
    inexact: tuple[str, ...] = ()  # why it does not go on exactly as if it had never stopped

    @classmethod
    def create(cls, spec: Spec) -> Trial:
        """A trial at its start."""
        sessions = spec.meta.max_session
        env = make(spec.env, sessions, spec.meta.seed)
        algorithm = algos.make(spec, *spaces(env))
        if isinstance(env, HostEnv) and not hosts.alone():
            env.close()
            raise SpecError(f"{spec.env.name} lives outside JAX, where one process steps it: leave out --coordinator")
        loop = ScanLoop(spec, algorithm, env) if isinstance(env, VectorEnv) else HostLoop(spec, algorithm, env)
        return cls(spec, loop, algorithm, loop.start(session_keys(spec)))

    @classmethod
    def restore(cls, spec: Spec, folder: RunFolder) -> Trial:
        """A trial as its last checkpoint left it; at its start if there is none yet."""
        trial = cls.create(spec)
        if not folder.checkpoint_path.exists():
            return trial
        template = trial.loop.template(trial.runner, folder.checkpoint_path)
        whole = bool(read_meta(folder.checkpoint_path)["whole"])
        if not whole:
            template = forget_replay(template)
        runner, meta = load_tree(folder.checkpoint_path, template)
        trial.segment, trial.opt_step = int(meta["segment"]), None
        if not whole:
            runner = runner._replace(agent=runner.agent._replace(memory=trial.runner.agent.memory))
            trial.loop.memory_start = trial.segment * trial.loop.plan.frames
        trial.runner, exact = trial.loop.thaw(runner)
        trial.inexact += () if whole else ("the replay memory was not saved (meta.save_replay)",)
        trial.inexact += () if exact else ("the simulators' state cannot be saved, so their episodes began anew",)
        return trial

    @property
    def frame(self) -> int:
        """Frames that each session has seen."""
        return min(self.segment * self.loop.plan.frames, self.spec.env.max_frame)

    @property
    def done(self) -> bool:
        """Whether nothing is left to run."""
        return self.segment >= self.loop.plan.segments

    def march(self, goal: int | None = None) -> Iterator[Chunk]:
        """Run to the end, or to the segment `goal`, chunk by chunk. Chunks end where an evaluation is due; how long
        they are otherwise changes nothing but how often somebody may look."""
        count, goal = 1, self.loop.plan.segments if goal is None else goal
        while self.segment < goal:
            first, begun = self.segment, time.perf_counter()
            stop = self.next_evaluation() if self.spec.meta.rigorous_eval else goal
            count = hosts.leaders(max(1, min(count, stop - first, goal - first, ScanLoop.capacity)))
            self.runner, seen = self.loop.advance(self.runner, first, count)
            self.segment += count
            seconds = time.perf_counter() - begun
            before, self.opt_step = self.opt_step, np.asarray(seen.metrics["opt_step"])[:, -1]
            yield Chunk(first, count, seen, seconds, before)
            count = min(2 * count, max(1, int(count * CHUNK_SECONDS / max(seconds, 1e-6))))

    def next_evaluation(self) -> int:
        """The segment at whose end the next evaluation is due."""
        per_segment, every = self.loop.plan.frames, self.spec.meta.eval_frequency
        due = (self.segment * per_segment // every + 1) * every
        return min(-(-due // per_segment), self.loop.plan.segments)

    def save(self, folder: RunFolder) -> None:
        """Everything, so that a resume is exact; without the replay where the spec says so."""
        whole = self.spec.meta.save_replay or not hasattr(self.runner.agent, "memory")
        runner = self.loop.freeze(self.runner if whole else forget_replay(self.runner))
        meta = {"segment": self.segment, "frame": self.frame, "whole": int(whole)}
        if hosts.leads():
            save_tree(folder.checkpoint_path, runner, meta)


def session_keys(spec: Spec) -> Any:
    """The randomness of each session: from the spec's seed and the session's number."""
    return jax.vmap(lambda i: jax.random.fold_in(jax.random.key(spec.meta.seed), i))(jnp.arange(spec.meta.max_session))


def forget_replay(runner: Runner) -> Runner:
    """A runner without what its memory holds."""
    return runner._replace(agent=runner.agent._replace(memory=None))


def rows_of(plan: Plan, chunk: Chunk) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The log checkpoints in a chunk, per session, as columns."""
    steps = plan.rows(chunk.first, chunk.segments)
    segment = steps // (plan.iterations * plan.horizon)
    t = chunk.first * plan.iterations * plan.horizon + steps + 1
    sessions = chunk.seen.total_reward.shape[0]
    made = []
    for s in range(sessions):
        logged = {name: np.asarray(x[s])[segment] for name, x in chunk.seen.metrics.items()}
        columns: dict[str, np.ndarray[Any, Any]] = {
            "epi": np.asarray(chunk.seen.episodes[s]).reshape(-1)[steps],
            "t": t,
            "opt_step": logged.pop("opt_step"),
            "frame": t * plan.num_envs,
            "total_reward": np.asarray(chunk.seen.total_reward[s]).reshape(-1)[steps],
            "total_reward_ma": np.full(len(steps), np.nan, np.float32),  # filled by the table's keeper
        }
        blank = np.full(len(steps), np.nan, np.float32)
        columns |= {name: logged.pop(name, blank) for name in COLUMNS if name not in columns}
        made.append(columns | dict(sorted(logged.items())))
    return made


def not_finite(chunk: Chunk) -> dict[int, tuple[str, float, int]]:
    """The sessions in which a loss or gradient is not a number: which, what it is instead, in which segment first.
    A segment that learned nothing (a replay memory is filling, once more after a resume without it) has no loss."""
    after = np.asarray(chunk.seen.metrics["opt_step"])
    before = after[:, :1] if chunk.opt_step is None else np.broadcast_to(chunk.opt_step, len(after))[:, None]
    learned = np.diff(after, axis=1, prepend=before) > 0
    found: dict[int, tuple[str, float, int]] = {}
    for name in ("loss", "grad_norm"):
        values = chunk.seen.metrics.get(name)
        if values is not None:
            for session, segment in np.argwhere(learned & ~np.isfinite(values)):
                found.setdefault(int(session), (name, float(values[session, segment]), int(segment)))
    return found


def check_finite(trial: Trial, chunk: Chunk) -> None:
    """A loss that is not a number is an error, not a row in a table."""
    for session, (name, value, segment) in not_finite(chunk).items():
        frame = (chunk.first + segment + 1) * trial.loop.plan.frames
        raise TrainingError(
            f"session {session}: {name} is {value} at frame {frame}; the run stops here. "
            f"Lower the learning rate (-s agent.net.optim_spec.lr=…) or clip the gradient "
            f"(-s agent.net.clip_grad_val=0.5)."
        )


@dataclass
class Recorder:
    """Writes a trial down: tables, checkpoints, the best policies, and at the end its metrics."""

    trial: Trial
    folder: RunFolder
    train: list[SessionTable] = field(default_factory=list)
    eval: list[SessionTable] = field(default_factory=list)
    evaluator: Evaluator | None = None
    timings: list[dict[str, Any]] = field(default_factory=list)
    warm: bool = False  # whether this process has compiled the program
    saved: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        spec = self.trial.spec
        sessions = range(spec.meta.max_session)
        self.train = [self._table(s, "train") for s in sessions]
        self.eval = [self._table(s, "eval") for s in sessions]
        self.timings = self.folder.read_timings()
        if spec.meta.rigorous_eval:
            self.evaluator = Evaluator(spec, self.trial.algorithm, self.trial.loop.session.lens)

    def _table(self, session: int, mode: Any) -> SessionTable:
        """The table so far, up to where the trial stands."""
        path = self.folder.session_df_path(session, mode)
        if not path.exists() or self.trial.segment == 0:
            return SessionTable()
        table = SessionTable.read(path)
        table.keep(int(np.sum(table.columns["frame"] <= self.trial.frame)) if len(table) else 0)
        return table

    def take(self, chunk: Chunk) -> None:
        """Note a chunk."""
        check_finite(self.trial, chunk)
        every = self.trial.spec.meta.eval_frequency
        for s, columns in enumerate(rows_of(self.trial.loop.plan, chunk)):
            table = self.train[s]
            history = np.concatenate([table.columns.get("total_reward", np.zeros(0)), columns["total_reward"]])
            columns["total_reward_ma"] = metrics.moving_average(history)[len(table) :].astype(np.float32)
            table.extend(columns)
            if self.evaluator is None:  # without an evaluation of its own, what training saw stands for it
                due = columns["frame"] // every > (columns["frame"] - self.trial.spec.meta.log_frequency) // every
                self.eval[s].extend({name: x[due] for name, x in columns.items()})
        if self.evaluator is not None and (self.trial.frame % every < self.trial.loop.plan.frames or self.trial.done):
            self._evaluate(self.evaluator)
        timing = {"frame": self.trial.frame, "frames": self.frames_of(chunk), "seconds": chunk.seconds}
        self.timings.append(timing | {"compiled": not self.warm})
        self.folder.append_timing(self.timings[-1])
        self.warm = True
        if hosts.leaders(time.perf_counter() - self.saved > self.trial.spec.meta.checkpoint_seconds):
            self.save()

    def frames_of(self, chunk: Chunk) -> int:
        """Frames of all sessions in a chunk."""
        return chunk.segments * self.trial.loop.plan.frames * self.trial.spec.meta.max_session

    def _evaluate(self, evaluator: Evaluator) -> None:
        algorithm, runner = self.trial.algorithm, self.trial.runner
        policies = hosts.whole((jax.vmap(algorithm.policy)(runner.agent), runner.lens.obs))
        if not hosts.leads():
            return
        returns = evaluator.returns(policies, self.trial.frame)
        for s, table in enumerate(self.eval):
            row = {name: column[-1] for name, column in self.train[s].columns.items()}
            score = np.float32(returns[s].mean())
            history = np.append(table.columns.get("total_reward", np.zeros(0)), score)
            table.append(row | {"total_reward": score, "total_reward_ma": metrics.moving_average(history)[-1]})

    def save(self) -> None:
        """Tables first, then the checkpoint: a resume trims tables that are ahead of it."""
        best = hosts.whole(self.trial.runner.best)
        if hosts.leads():
            self._write(best)
        self.trial.save(self.folder)
        self.saved = time.perf_counter()

    def _write(self, best: Best) -> None:
        """The tables, and each session's best policy."""
        for s in range(len(self.train)):
            self.train[s].write(self.folder.session_df_path(s, "train"))
            self.eval[s].write(self.folder.session_df_path(s, "eval"))
        for s in range(len(self.train)):
            policy = jax.tree.map(lambda x, s=s: np.asarray(x[s]), best.policy)
            meta = {"session": s, "frame": int(best.frame[s]), "total_reward_ma": float(best.score[s])}
            save_tree(self.folder.best_policy_path(s), policy, meta)

    def close(self) -> None:
        """End the environments."""
        self.trial.loop.close()
        if self.evaluator is not None:
            self.evaluator.close()

    def finish(self) -> dict[str, Any]:
        """The metrics of the sessions and of the trial, computed from the tables."""
        self.save()
        if not hosts.leads():
            return {}
        baseline = metrics.random_baseline(self.trial.spec.env.name)
        sessions = [metrics.session_metrics(table.columns, baseline) for table in self.train]
        for s, table in enumerate(self.eval):
            write_json(self.folder.session_metrics_path(s, "train"), sessions[s])
            if len(table):  # a run shorter than meta.eval_frequency was never evaluated
                evaluated = metrics.session_metrics(table.columns, baseline)
                write_json(self.folder.session_metrics_path(s, "eval"), evaluated)
        result = metrics.trial_metrics(sessions, speed(self.timings))
        write_json(self.folder.trial_metrics_path, result)
        return result


def speed(timings: list[dict[str, Any]]) -> float:
    """Frames per second of all sessions together, without the chunks in which a process compiled."""
    counted = [row for row in timings if not row["compiled"]] or timings
    return float(sum(row["frames"] for row in counted) / max(sum(row["seconds"] for row in counted), 1e-9))


Watch = Callable[[Recorder, Chunk], bool]  # shown every chunk; False asks the trial to stop here


def run_trial(trial: Trial, folder: RunFolder, watch: Watch | None = None) -> dict[str, Any] | None:
    """Train to the end and return the metrics, or None if the watcher asked to stop: then a checkpoint is saved."""
    recorder = Recorder(trial, folder)
    try:
        if trial.segment == 0:
            recorder.save()
        for chunk in trial.march():
            recorder.take(chunk)
            if hosts.anyone(watch is not None and not watch(recorder, chunk)) and not trial.done:
                recorder.save()
                return None
        return recorder.finish()
    finally:
        recorder.close()


def check(spec: Spec) -> None:
    """Raises what `Trial.create` would raise, without compiling anything."""
    env = make(spec.env, spec.meta.max_session, spec.meta.seed)
    try:
        algos.make(spec, *spaces(env))
    finally:
        if isinstance(env, HostEnv):
            env.close()
