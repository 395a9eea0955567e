"""The Ray engine: a process per trial, on this machine or a cluster; Optuna proposes, Tune's ASHA stops.

It means what the population engine means: the same ranges, rungs, score and trial specs. What differs is that Optuna
learns from the trials that have ended, and that trials are compared as they arrive.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.experiment import metrics
from rewardlab.experiment.search.points import point_at
from rewardlab.experiment.search.rungs import rungs
from rewardlab.experiment.search.study import SEED, Study
from rewardlab.spec import SearchRange, Spec, apply, dump, from_dict, parse_search

WORST = -1e30  # stands for "no episode has ended yet": schedulers and samplers want numbers
SCORE = "total_reward_ma"


class EngineError(RuntimeError):
    """Ray is not there, or a cluster does not answer."""


def train_one(config: Mapping[str, Any], told: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
    """One trial in a process of its own: reports at every rung and at the end; what goes wrong is reported too."""
    from rewardlab.experiment import device

    device.prepare(Path(told["cache"]) if told["cache"] else None)
    from rewardlab.experiment.trial import Trial, check_finite, rows_of

    base = from_dict(json.loads(told["spec"]), told["name"])
    ranges = parse_search(base.search)
    frame, trial = 0, None
    try:
        point = point_at(ranges, [quantile(given, config[given.path]) for given in ranges])
        spec = apply(base, {**point, "meta.seed": base.meta.seed + SEED})
        trial = Trial.create(spec)
        chunks: list[list[dict[str, Any]]] = []
        for rung in [*rungs(base.meta.search_scheduler, spec.env.max_frame), spec.env.max_frame]:
            goal = min(-(-rung // trial.loop.plan.frames), trial.loop.plan.segments)
            for chunk in trial.march(goal):
                check_finite(trial, chunk)
                chunks.append(rows_of(trial.loop.plan, chunk))
            frame = rung
            columns = joined(chunks)
            report({"frame": rung, SCORE: score(columns), "rows": columns, "crashed": ""})
    except Exception as error:  # whatever it is, it is this trial's own: the search goes on and tells it
        report({"frame": frame, SCORE: WORST, "rows": [], "crashed": f"{error}" or type(error).__name__})
    finally:
        if trial is not None:
            trial.loop.close()


def joined(chunks: list[list[dict[str, Any]]]) -> list[dict[str, list[float]]]:
    """The columns of all chunks, per session."""
    sessions = range(len(chunks[0]) if chunks else 0)
    return [{name: np.concatenate([c[s][name] for c in chunks]).tolist() for name in chunks[0][s]} for s in sessions]


def score(columns: list[dict[str, list[float]]]) -> float:
    """total_reward_ma at the last row, the mean over sessions."""
    ends = [metrics.moving_average(c["total_reward"])[-1] for c in columns if c["total_reward"]]
    return float(np.mean(ends)) if ends and not np.isnan(ends).any() else WORST


def quantile(given: SearchRange, drawn: Any) -> float:
    """Where in its range a proposal lies: choices are proposed by their number."""
    return (drawn + 0.5) / len(given.args) if given.kind == "choice" else float(drawn)


class Cluster:
    """A search through Ray Tune."""

    def __init__(self, study: Study, address: str | None, cache: Path | None) -> None:
        try:
            import optuna
            import ray
            from ray import tune
        except ImportError as error:
            raise EngineError('the engine ray needs: pip install "rewardlab[search]"') from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        logging.getLogger("ray.tune").setLevel(logging.ERROR)  # Tune misses tables of its own: the study writes them
        self.study, self.ray, self.tune, self.optuna = study, ray, tune, optuna
        self.store = study.folder.path.resolve() / "ray"
        self.told = {"spec": json.dumps(dump(study.spec)), "name": study.spec.name, "cache": str(cache or "")}
        shipped = {"py_modules": [str(Path(__file__).parents[2])]} if address else {}
        try:
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # the child becomes another program at once
            ray.init(
                logging_level=logging.ERROR,
                address=address or "local",
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                runtime_env=shipped,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EngineError(f"no Ray cluster answers at {address or 'this machine'}: {error}") from error

    def run(self) -> Iterator[str]:
        """To the end, or to a Ctrl-C, which Tune takes itself; the study is saved in both cases."""
        try:
            yield from self._collect(self._tuner().fit())
        finally:
            self.ray.shutdown()

    def _trainable(self) -> Any:
        told, report = self.told, self.tune.report

        def train(config: dict[str, Any]) -> None:
            train_one(config, told, report)

        resources = self.study.spec.meta.search_resources
        cpu, gpu = (resources.cpu, resources.gpu) if resources else (1.0, 0.0)
        return self.tune.with_resources(train, {"cpu": cpu, "gpu": gpu})

    def _tuner(self) -> Any:
        """A fresh search, or the one that lies in the folder."""
        from ray.tune.schedulers import ASHAScheduler
        from ray.tune.search.optuna import OptunaSearch

        path = self.store / "search"
        if self.tune.Tuner.can_restore(str(path)):
            return self.tune.Tuner.restore(str(path), self._trainable(), resume_unfinished=True)
        spec = self.study.spec
        search = OptunaSearch(self._space(spec), metric=SCORE, mode="max", seed=spec.meta.seed)
        halving, scheduler = spec.meta.search_scheduler, None
        if halving is not None:
            scheduler = ASHAScheduler(
                time_attr="frame",
                metric=SCORE,
                mode="max",
                max_t=spec.env.max_frame,
                grace_period=min(halving.grace_period, spec.env.max_frame),
                reduction_factor=halving.reduction_factor,
            )
        tuning = self.tune.TuneConfig(search_alg=search, scheduler=scheduler, num_samples=spec.meta.max_trial)
        running = self.tune.RunConfig(name="search", storage_path=str(self.store), verbose=0)
        return self.tune.Tuner(self._trainable(), tune_config=tuning, run_config=running)

    def _space(self, spec: Spec) -> dict[str, Any]:
        kinds = self.optuna.distributions
        return {
            given.path: kinds.IntDistribution(0, len(given.args) - 1)
            if given.kind == "choice"
            else kinds.FloatDistribution(0.0, 1.0)
            for given in parse_search(spec.search)
        }

    def _collect(self, results: Any) -> Iterator[str]:
        """What every trial reported, written down as the population engine does."""
        study = self.study
        ranges = parse_search(study.spec.search)
        for known in (study.points, study.outcomes, study.tables):
            known.clear()
        unfinished = study.spec.meta.max_trial
        for result in results:
            reported, config = result.metrics or {}, result.config or {}
            if not config:
                continue
            trial = len(study.points)
            study.add(trial, point_at(ranges, [quantile(given, config[given.path]) for given in ranges]))
            arrays = [{name: np.asarray(x) for name, x in columns.items()} for columns in reported.get("rows", [])]
            if arrays and len(arrays[0]["frame"]):
                study.note(trial, arrays)
            if reported.get("crashed") or result.error is not None:
                study.end(trial, "crashed", reported.get("crashed") or f"its process ended: {result.error}")
            elif reported.get("frame", 0) >= study.trial_spec(trial).env.max_frame:
                study.end(trial, "finished")
            elif reported.get("done"):
                study.end(trial, "stopped")
            unfinished -= study.outcomes[trial].status in ("crashed", "finished", "stopped")
        study.save()
        if unfinished:
            yield f"{unfinished} trials are still to run"
            return
        study.finish()
        yield f"{len(study.points)} trials done, best total_reward_ma {study.score(study.ranking()[0]):.2f}"
