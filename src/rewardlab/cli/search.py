"""What `rewardlab run … search` does: draw, run, rank; interrupted, it goes on where it stopped."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from loguru import logger

from rewardlab.cli.follow import pushed
from rewardlab.cli.run import Interrupted, cache_folder, log_to, stoppable
from rewardlab.experiment import device
from rewardlab.experiment.record import RunFolder, provenance
from rewardlab.experiment.search.advice import advice
from rewardlab.experiment.search.points import draw
from rewardlab.experiment.search.study import Study, best_path, ranking_path
from rewardlab.plots.launch import draw_apart
from rewardlab.spec import Spec, SpecError, dump, near, parse_search

ENGINES = ("population", "ray")
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the study writes the tables
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # started by `uv run`, every worker would make an environment of its own
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def choose_engine(spec: Spec, engine: str | None, address: str | None) -> str:
    """The engine asked for; without one, the population where the environment lives in JAX, else Ray."""
    from rewardlab.envs.make import backend_of

    if engine is not None and engine not in ENGINES:
        nearest = near(engine, ENGINES)
        hint = f"did you mean {nearest}?" if nearest else f"there are {', '.join(ENGINES)}"
        raise SpecError(f"the engine {engine!r} is unknown; {hint}")
    if address and engine == "population":
        raise SpecError("--address names a Ray cluster: it belongs to --engine ray")
    lives_in_jax = backend_of(spec.env) == "jax"
    if engine == "population" and not lives_in_jax:
        raise SpecError(f"{spec.env.name} lives outside JAX, where trials are no population: --engine ray")
    chosen = engine or ("population" if lives_in_jax and not address else "ray")
    if chosen == "ray" and importlib.util.find_spec("ray") is None:
        raise SpecError(f'a search of {spec.env.name} by Ray needs: pip install "rewardlab[search]"')
    return chosen


def search(spec: Spec, data: Path, engine: str | None, address: str | None, hub: str | None = None) -> None:
    """A new search."""
    ranges = parse_search(spec.search)
    if not ranges:
        raise SpecError(
            f"{spec.name} says not what to search: give it a search block, "
            f"such as search: {{agent.algorithm.gamma__uniform: [0.95, 0.999]}}"
        )
    chosen = choose_engine(spec, engine, address)
    for warning in advice(spec):
        print(f"note: {warning}", file=sys.stderr)
    folder = RunFolder.create(spec.name, data)
    study = Study(spec, folder, chosen)
    if chosen == "population":
        for trial, point in enumerate(draw(ranges, spec.meta.max_trial, spec.meta.seed)):
            study.add(trial, point)
    folder.write_specs(dump(spec), {**provenance(spec.meta.seed), "mode": "search"})
    study.save()
    go(study, address, hub)


def resume(spec: Spec, folder: RunFolder, address: str | None, hub: str | None = None) -> None:
    """A search that was interrupted."""
    if not folder.is_search:
        raise SpecError(f"{folder.path} is no search: resume it with rewardlab run {spec.name} train@{folder.path}")
    if best_path(folder).exists():
        raise SpecError(f"{folder.path} is finished: its best spec is {best_path(folder)}")
    go(Study.open(spec, folder), address, hub)


def go(study: Study, address: str | None, hub: str | None) -> None:
    """Run a study to its end, or to the first Ctrl-C."""
    folder, name = study.folder, study.spec.name
    with folder.lock(), pushed(folder.path, hub), log_to(folder):
        logger.info(f"SLM-Lab: Running {name} in {folder.path}/")
        logger.info(f"search by {study.engine}: {study.spec.meta.max_trial} trials, {len(study.spec.search)} ranges")
        asked: list[int] = []
        for line in events(study, address, asked):
            logger.info(line)
        if not ranking_path(folder).exists():
            logger.warning(f"stopped, saved; to go on: rewardlab run {name} search@{folder.path}")
            raise Interrupted(128 + (asked or [signal.SIGINT])[0])
        crashed = [t for t, o in study.outcomes.items() if o.status == "crashed"]
        for trial in crashed:
            logger.warning(f"trial {trial} crashed: {study.outcomes[trial].reason}")
        logger.info(f"ranking: {ranking_path(folder)}")
        if best_path(folder).exists():
            logger.info(f"best spec, to be confirmed: rewardlab run {best_path(folder)} {name} train")
        else:
            logger.warning("no trial reached a score: there is no best spec")
        drawing = draw_apart(folder.path, "search")
        if hub is not None:
            drawing.wait()


def events(study: Study, address: str | None, asked: list[int]) -> Iterator[str]:
    """The lines of whichever engine runs; the signal that stopped it, if one did, is noted."""
    if study.engine == "ray":
        from rewardlab.experiment.search.cluster import Cluster

        os.environ.update(QUIET)
        yield from Cluster(study, address, cache_folder()).run()
        return
    from rewardlab.experiment.search.population import Population

    device.prepare(cache_folder())
    with stoppable() as signals:
        for line in Population(study).run(lambda: bool(signals)):
            if line.startswith("frame "):
                yield line
            else:
                print(f"\r\x1b[2K{line}" if sys.stderr.isatty() else "", end="", file=sys.stderr, flush=True)
        asked += signals
