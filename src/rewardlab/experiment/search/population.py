"""The population engine: all trials of a rung are one program, halved on the device.

Trials whose specs differ in numbers alone share a program: its algorithm has a leading axis, one entry per session of
each trial. Trials that differ in a size or a name (widths, an optimiser) form a group with a program of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rewardlab import algos
from rewardlab.algos.base import Algorithm
from rewardlab.envs.make import make, spaces
from rewardlab.envs.wrappers import VectorEnv
from rewardlab.experiment.record import load_tree, read_meta, save_tree
from rewardlab.experiment.search.rungs import promoted, rungs
from rewardlab.experiment.search.study import Study
from rewardlab.experiment.session import Runner, ScanLoop, Session
from rewardlab.experiment.trial import CHUNK_SECONDS, Chunk, not_finite, rows_of, session_keys
from rewardlab.spec import Spec, SpecError

Stopped = Callable[[], bool]  # asked between two chunks
LEAST = 8  # lanes of a program that is not made narrower: they cost less than compiling another


class SearchError(RuntimeError):
    """A search that cannot go on."""


@dataclass
class Group:
    """Trials that are one program, and the state of their sessions: a lane each."""

    specs: dict[int, Spec]
    algorithms: dict[int, Algorithm]
    env: VectorEnv
    segment: int = 0
    width: int = 0  # lanes of the program
    ready: dict[int, Future[ScanLoop]] = field(default_factory=dict)  # programs by width that are made ahead
    loop: ScanLoop | None = None
    runner: Runner | None = None

    @property
    def trials(self) -> list[int]:
        """Those that still run."""
        return list(self.specs)

    @property
    def first(self) -> Spec:
        """A spec that stands for what all have in common."""
        return next(iter(self.specs.values()))

    @property
    def sessions(self) -> int:
        """Of each trial."""
        return self.first.meta.max_session

    def lanes(self) -> list[tuple[int, int]]:
        """Trial and session of each lane; the last ones may repeat the first, to fill the program's width."""
        own = [(trial, session) for trial in self.specs for session in range(self.sessions)]
        return own + [own[i % len(own)] for i in range(self.width - len(own))]

    def fit(self) -> None:
        """The width for the trials that still run."""
        self.width = width_for(len(self.specs) * self.sessions, self.width)

    def build(self) -> ScanLoop:
        """The program of the trials that still run: the one at hand, if it has the right width."""
        population = self.population()
        if self.loop is None or self.loop.lanes != self.width:
            made = self.ready.get(self.width)
            self.loop = self.program(population, self.width) if made is None else made.result()
        self.loop.algorithm = population
        return self.loop

    def population(self) -> Algorithm:
        """The algorithms of all lanes as one, their numbers stacked."""
        stacked: Algorithm = jax.tree.map(lambda *xs: jnp.stack(xs), *(self.algorithms[t] for t, _ in self.lanes()))
        return stacked

    def program(self, population: Algorithm, width: int) -> ScanLoop:
        """A program for so many lanes."""
        return ScanLoop(self.first, self.algorithms[self.trials[0]], self.env, width, population)

    def make_ahead(self, widths: Sequence[int], pool: ThreadPoolExecutor) -> None:
        """Compile the programs of later rungs beside the first one: it takes longer than to run them."""
        spec, population = self.first, self.population()

        def make(width: int) -> ScanLoop:
            loop = self.program(jax.tree.map(lambda x: x[:width], population), width)
            loop.compile(session_keys(spec)[np.zeros(width, int)])
            return loop

        self.ready = {width: pool.submit(make, width) for width in dict.fromkeys(widths) if width < self.width}

    def start(self) -> None:
        """All sessions at their beginning, each with the randomness that `train` would give it."""
        self.fit()
        keys = session_keys(self.first)
        self.runner = self.build().start(keys[np.array([session for _, session in self.lanes()])])

    def keep(self, trials: Sequence[int]) -> None:
        """Go on with some of the trials: their lanes are gathered on the device."""
        before = self.lanes()
        self.specs = {trial: self.specs[trial] for trial in trials}
        if not trials:
            self.runner = self.loop = None
            return
        self.fit()
        index = jnp.array([before.index(lane) for lane in self.lanes()])
        gathered = jax.tree.map(lambda x: jnp.take(x, index, axis=0), jax.device_put(self.runner, jax.devices()[0]))
        self.runner = self.build().place(gathered)


def width_for(count: int, before: int) -> int:
    """How wide a program of so many lanes is: a multiple of the devices, and no narrower than pays."""
    devices = len(jax.local_devices())
    needed = count + (-count % devices if count > 1 else 0)
    return max(needed, min(before, LEAST + -LEAST % devices))


def groups_of(study: Study, trials: Sequence[int]) -> list[Group]:
    """The trials by what their programs have in common; one that cannot run has crashed, and says why."""
    found: dict[Any, Group] = {}
    for trial in trials:
        try:
            spec = study.trial_spec(trial)
            env = make(spec.env, 1, spec.meta.seed)
            if not isinstance(env, VectorEnv):
                raise SearchError(f"{spec.env.name} lives outside JAX, where trials are no population: --engine ray")
            algorithm = algos.make(spec, *spaces(env))
        except SpecError as error:
            study.end(trial, "crashed", str(error))
            continue
        numbers, rest = eqx.partition(algorithm, eqx.is_array)
        shapes = [(x.shape, str(x.dtype)) for x in jax.tree.leaves(numbers)]
        gamma = Session(spec, algorithm).lens.gamma if spec.env.normalize_reward else None
        key = repr((jax.tree.structure(numbers), rest, shapes, gamma, spec.env, spec.meta))
        group = found.setdefault(key, Group({}, {}, env))
        group.specs[trial], group.algorithms[trial] = spec, algorithm
    return list(found.values())


class Population:
    """A search by successive halving, all trials of a rung side by side."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.path: Path = study.folder.path / "model" / f"{study.folder.spec_name}_search_ckpt-last.safetensors"
        self.saved = time.perf_counter()
        self.passed = 0  # rungs at which trials were compared already
        left = [t for t, o in study.outcomes.items() if o.status in ("waiting", "running")]
        self.groups = groups_of(study, left)
        if self.path.exists():
            self._restore()
        else:
            for group in self.groups:
                group.start()

    def run(self, stopped: Stopped) -> Iterator[str]:
        """To the end, or until asked to stop; yields lines on how it goes. The study is saved in both cases."""
        spec = self.study.spec
        stops = [*rungs(spec.meta.search_scheduler, spec.env.max_frame), spec.env.max_frame]
        with ThreadPoolExecutor(1) as pool:
            if len(self.groups) == 1:  # of several, nobody knows which will go on
                self.groups[0].make_ahead(list(self._widths(len(stops) - 1 - self.passed)), pool)
            for rung in stops[self.passed :]:
                for group in self.groups:
                    for chunk in self._march(group, rung):
                        yield self._take(group, chunk)
                        if stopped():
                            self.save()
                            pool.shutdown(cancel_futures=True)
                            return
                yield self._compare(rung, rung == spec.env.max_frame)
                self.passed += 1
                self.save()
        self.study.finish()
        self.path.unlink(missing_ok=True)

    def _widths(self, rungs_left: int) -> Iterator[int]:
        """How wide the only group's program will be after each rung, if no trial crashes."""
        group, scheduler = self.groups[0], self.study.spec.meta.search_scheduler
        count, width = len(group.trials), group.width
        for _ in range(rungs_left if scheduler else 0):
            count = max(1, count // scheduler.reduction_factor) if scheduler else count
            width = width_for(count * group.sessions, width)
            yield width

    def _march(self, group: Group, rung: int) -> Iterator[Chunk]:
        """One group up to a rung, chunk by chunk."""
        count = 1
        while group.loop is not None and group.runner is not None:
            goal = -(-min(rung, group.first.env.max_frame) // group.loop.plan.frames)
            if group.segment >= goal:
                return
            first, begun = group.segment, time.perf_counter()
            count = max(1, min(count, goal - first, ScanLoop.capacity))
            group.runner, seen = group.loop.advance(group.runner, first, count)
            group.segment += count
            seconds = time.perf_counter() - begun
            yield Chunk(first, count, seen, seconds)
            count = min(2 * count, max(1, int(count * CHUNK_SECONDS / max(seconds, 1e-6))))

    def _take(self, group: Group, chunk: Chunk) -> str:
        """Note what the lanes saw; a trial in which something is not a number has crashed, the others go on."""
        assert group.loop is not None
        lanes = group.lanes()
        wrong = not_finite(chunk)
        columns = rows_of(group.loop.plan, chunk)
        by_trial: dict[int, list[Any]] = {}
        for lane in range(len(group.trials) * group.sessions):
            by_trial.setdefault(lanes[lane][0], []).append(columns[lane])
        for trial, sessions in by_trial.items():
            if self.study.outcomes[trial].status != "crashed":
                self.study.note(trial, sessions)
        for lane, (name, value, segment) in sorted(wrong.items()):
            trial, session = lanes[lane]
            if self.study.outcomes[trial].status != "crashed":
                frame = (chunk.first + segment + 1) * group.loop.plan.frames
                self.study.end(trial, "crashed", f"session {session}: {name} is {value} at frame {frame}")
        if time.perf_counter() - self.saved > self.study.spec.meta.checkpoint_seconds:
            self.save()
        frame = min(group.segment * group.loop.plan.frames, group.first.env.max_frame)
        return f"{len(group.trials)} trials at frame {frame}"

    def _compare(self, rung: int, last: bool) -> str:
        """Which trials go on from a rung: of all that still run, whatever their group."""
        study = self.study
        running = [trial for group in self.groups for trial in group.trials]
        alive = {t: study.score(t) for t in running if study.outcomes[t].status != "crashed"}
        factor = study.spec.meta.search_scheduler.reduction_factor if study.spec.meta.search_scheduler else 1
        if last:
            ended = [t for t in alive if study.outcomes[t].status != "stopped"]
            for trial in ended:
                study.end(trial, "finished")
            kept: list[int] = []
        else:
            kept = promoted(alive, factor) if alive else []
            for trial in alive:
                if trial not in kept:
                    study.end(trial, "stopped")
        for group in self.groups:
            group.keep([trial for trial in group.trials if trial in kept])
        self.groups = [group for group in self.groups if group.trials]
        best = max(alive.values(), default=float("nan"), key=lambda s: -np.inf if np.isnan(s) else s)
        goes = "done" if last else f"{len(kept)} of {len(running)} trials go on"
        return f"frame {rung}: {goes}, best total_reward_ma {best:.2f}"

    def save(self) -> None:
        """Tables, then one checkpoint of all groups with the outcomes that belong to it, then the readable state."""
        self.study.save()
        tree = {f"group{i}": group.runner for i, group in enumerate(self.groups)}
        outcomes = {str(t): vars(o) for t, o in self.study.outcomes.items()}
        groups = [{"trials": group.trials, "segment": group.segment, "width": group.width} for group in self.groups]
        save_tree(
            self.path, tree, {"state": json.dumps({"passed": self.passed, "groups": groups, "outcomes": outcomes})}
        )
        self.saved = time.perf_counter()

    def _restore(self) -> None:
        """Every group as the checkpoint left it."""
        state = json.loads(str(read_meta(self.path)["state"]))
        for trial, outcome in state["outcomes"].items():
            self.study.outcomes[int(trial)] = type(self.study.outcomes[int(trial)])(**outcome)
        self.passed = state["passed"]
        groups = []
        for told in state["groups"]:
            (group,) = groups_of(self.study, told["trials"])
            group.width, group.segment = told["width"], told["segment"]
            group.start()  # a template of the right shapes
            groups.append(group)
        tree, _ = load_tree(self.path, {f"group{i}": group.runner for i, group in enumerate(groups)})
        for i, group in enumerate(groups):
            assert group.loop is not None
            group.runner = group.loop.place(tree[f"group{i}"])
        for trial, outcome in self.study.outcomes.items():
            self.study.trim(trial, outcome.frame)
        self.groups = groups
