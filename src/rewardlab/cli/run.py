"""What `rewardlab run` and `rewardlab verify` do; imported only when they are called, because it brings JAX."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loguru import logger

from rewardlab.cli.follow import pushed
from rewardlab.cli.hosts import announce
from rewardlab.cli.hub import hub_url, open_hub
from rewardlab.cli.progress import Progress
from rewardlab.envs import playground
from rewardlab.envs.make import settled
from rewardlab.experiment import dev, device
from rewardlab.experiment.loggers import Loggers, check_loggers
from rewardlab.experiment.metrics import trial_line
from rewardlab.experiment.record import RecordError, RunFolder, first_difference, provenance
from rewardlab.experiment.replay import enjoy
from rewardlab.experiment.trial import Chunk, Recorder, Trial, run_trial
from rewardlab.plots.launch import draw_apart
from rewardlab.spec import Spec, SpecError, dump, from_dict, load, near

MODES = ("train", "dev", "search", "enjoy")
FORMAT = "{time:YYYY-MM-DD HH:mm:ss} | {level} | {message}"


class Interrupted(SystemExit):
    """Stopped by a signal, with everything saved."""


def cache_folder() -> Path | None:
    """Where compiled programs are kept: JAX_COMPILATION_CACHE_DIR, or rewardlab under XDG_CACHE_HOME."""
    if named := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home) / "rewardlab" / "xla" if home else None


def prepare() -> None:
    """Tell the rest what the environment's variables say: they are read here and nowhere else."""
    device.prepare(cache_folder())
    if named := os.environ.get("REWARDLAB_MENAGERIE"):
        playground.menagerie = Path(named)


def split(what: Sequence[str]) -> tuple[list[str], str]:
    """The words of the command line as (file and name, or name alone) and mode."""
    words = list(what)
    if len(words) > 1 and words[-1].partition("@")[0] in MODES:
        return words[:-1], words[-1]
    if len(words) > 3:
        raise SpecError(f"too many words: {' '.join(words)}; the form is [SPEC_FILE] SPEC_NAME [MODE]")
    if len(words) == 3 or (len(words) == 2 and not Path(words[0]).suffix):  # a file has an ending, a name has none
        nearest = near(words[-1], MODES)
        hint = (
            f"did you mean {nearest}?"
            if nearest
            else f"there are {', '.join(MODES)}, train@latest, train@DIR, enjoy@DIR"
        )
        raise SpecError(f"the mode {words[-1]!r} is unknown; {hint}")
    return words, "train"


def run(
    what: Sequence[str],
    settings: Sequence[str],
    data: Path,
    render: bool,
    episodes: int,
    engine: str | None = None,
    address: str | None = None,
    push: bool = False,
    hub: str | None = None,
    log: Sequence[str] = (),
) -> None:
    """Run a spec in a mode."""
    check_loggers(log)
    words, mode = split(what)
    kind, _, where = mode.partition("@")
    if kind != "search" and (engine or address):
        raise SpecError("--engine and --address belong to the mode search")
    prepare()
    if kind == "enjoy":
        logger.remove()
        for line in enjoy(where or data, words[-1], render, episodes):
            print(line, flush=True)
        return
    sent_to = hub_url(hub) if push else None
    if where == "hub":
        where = str(fetch_unfinished(words[-1], hub, data) or "")
    if kind in ("train", "search") and where:
        searching = kind == "search"
        folder = RunFolder.latest(words[-1], data, searching) if where == "latest" else RunFolder.open(where)
        if folder.is_search and not searching:
            raise SpecError(f"{where} is a search: go on with rewardlab run {folder.spec_name} search@{where}")
        if settings:
            raise SpecError("a resumed run keeps its spec: leave out -s, or start a new run")
        if searching:
            from rewardlab.cli import search

            search.resume(load(folder.spec_path, folder.spec_name), folder, address, sent_to)
            return
        train(from_dict(folder.read_spec(), folder.spec_name), folder, resume=True, hub=sent_to, log=log)
        return
    spec = settled(load(words[0], words[1] if len(words) > 1 else None, settings=settings))
    for note in spec.notes:
        print(f"note: {note}", file=sys.stderr)
    if kind == "search":
        from rewardlab.cli import search

        search.search(spec, data, engine, address, sent_to)
        return
    if kind == "dev":
        spec = dev.shorten(spec)
    announce(spec)
    trial = Trial.create(spec)  # a spec that cannot run leaves no folder behind
    folder = RunFolder.create(spec.name, data)
    folder.write_specs(dump(spec), provenance(spec.meta.seed))
    train(spec, folder, trial=trial, check=kind == "dev", hub=sent_to, log=log)
    if kind == "dev" and render:
        for line in enjoy(folder.path, spec.name, True, 1):
            print(line, flush=True)


def fetch_unfinished(spec_name: str, hub: str | None, data: Path) -> Path | None:
    """The newest run of a spec that the hub holds and that is not finished; here it is, if it is here already."""
    from rewardlab.hub.transfer import matching, pull

    store = open_hub(hub)
    for name in sorted(matching(store, f"{spec_name}_20*"), reverse=True):
        if (data / name).exists():
            path = data / name
        else:
            path = pull(store, name, data, lambda text: print(text, file=sys.stderr))
        return None if RunFolder.open(path).trial_metrics_path.exists() else path
    return None


def train(
    spec: Spec,
    folder: RunFolder,
    trial: Trial | None = None,
    resume: bool = False,
    check: bool = False,
    hub: str | None = None,
    log: Sequence[str] = (),
) -> None:
    """Train to the end, or to the first Ctrl-C."""
    with folder.lock(), pushed(folder.path, hub), log_to(folder):
        if trial is None:
            announce(spec, folder)
            trial = Trial.restore(spec, folder)
        logger.info(f"SLM-Lab: Running {spec.name} in {folder.path}/")
        if resume:
            logger.info(f"resuming at frame {trial.frame}")
            for reason in trial.inexact:
                logger.warning(f"this resume is not exact: {reason}")
        if trial.segment == 0:
            folder.write_specs(dump(spec), provenance(spec.meta.seed))
        before = dev.weights(trial) if check else None
        loggers = Loggers([*spec.meta.loggers, *log], spec, folder, trial.frame)
        with stoppable() as asked, Progress(trial) as progress:

            def watch(recorder: Recorder, chunk: Chunk) -> bool:
                progress.show(recorder, chunk)
                loggers.show(recorder.train)
                return not asked

            result = run_trial(trial, folder, watch)
        loggers.close(None if result is None else result["scalar"])
        if result is None:
            logger.warning(f"stopped at frame {trial.frame}, checkpoint saved; to go on:")
            logger.warning(f"rewardlab run {spec.name} train@{folder.path}")
            raise Interrupted(128 + (asked or [signal.SIGTERM])[0])  # another process may have been asked
        if before is not None:
            for line in dev.check(trial, before, folder):
                logger.info(line)
        for s in range(spec.meta.max_session):
            logger.info(f"Session {s} done")
        logger.info(trial_line(result))
        logger.info(f"Trial {folder.trial} done")
        drawing = draw_apart(folder.path)
        if spec.meta.film:
            film(spec, folder)
        if hub is not None:
            drawing.wait()  # the graphs are to be pushed as well


def film(spec: Spec, folder: RunFolder) -> None:
    """Episodes of the best policy as a movie; a run is no worse for a machine that cannot draw."""
    try:
        for line in enjoy(folder.path, spec.name, True, spec.meta.film):
            logger.info(line)
    except (SpecError, RecordError) as error:
        logger.warning(f"not filmed: {error}")


@contextmanager
def log_to(folder: RunFolder) -> Iterator[None]:
    """Log lines on stdout, where the seeds' scripts look for them, and in the run folder."""
    logger.remove()
    logger.add(sys.stdout, format=FORMAT, level="INFO")
    kept = logger.add(folder.path / "log" / f"{folder.stem}.log", format=FORMAT, level="INFO")
    try:
        yield
    finally:
        logger.remove(kept)


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """The first Ctrl-C or SIGTERM is noted in the list and asks for a checkpoint; the second stops at once."""
    asked: list[int] = []

    def note(number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        print("\nstopping: saving a checkpoint (once more to stop at once)", file=sys.stderr, flush=True)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def verify(path: Path, tolerance: float) -> None:
    """Run again in a temporary folder and compare."""
    device.prepare(cache_folder())
    folder = RunFolder.open(path)
    spec = from_dict(folder.read_spec(), folder.spec_name)
    if not folder.trial_metrics_path.exists():
        raise RecordError(f"{path} is not finished: resume it with rewardlab run {spec.name} train@{path}")
    now, then = provenance(spec.meta.seed), folder.read_run()
    for part in ("versions", "device", "machine"):
        for name, value in now[part].items():
            if then.get(part, {}).get(name) != value:
                print(f"note: {name} was {then.get(part, {}).get(name)}, is {value} here", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        again = RunFolder.create(spec.name, Path(temporary))
        trial = Trial.create(spec)
        again.write_specs(dump(spec), now)
        with stoppable() as asked, Progress(trial) as progress:

            def watch(recorder: Recorder, chunk: Chunk) -> bool:
                progress.show(recorder, chunk)
                return not asked

            if run_trial(trial, again, watch) is None:
                raise Interrupted(128 + asked[0])
        difference = first_difference(folder.path, again.path)
    if difference is None:
        print("identical")
        return
    verdict = "within tolerance" if difference.within(tolerance) else "different"
    print(f"{verdict}: {difference}")
    if verdict == "different":
        raise SystemExit(1)
