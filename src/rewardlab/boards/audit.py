"""The rules that admit a run to the benchmark board or refuse it: each one a function that says what is wrong."""

from __future__ import annotations

import functools
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.boards import plausible
from rewardlab.boards.benchmark import SETTINGS, Target, link_of, target_of
from rewardlab.experiment import metrics
from rewardlab.experiment.record import RunFolder, read_columns, read_json
from rewardlab.experiment.table import Columns
from rewardlab.spec import SpecError, dump, find, from_dict, load
from rewardlab.spec.text import parse

HOURS = 6.0
TOLERANCE = 1e-6  # of a scalar that is computed again from the same table
ROUNDING = 1e-4  # of a moving average that a table holds in single precision
# what a command line may set without making another run of it
FREE = (
    *("meta.checkpoint_seconds", "meta.loggers", "meta.save_replay", "meta.max_trial", "meta.search_resources"),
    *("meta.search_scheduler", "meta.eval_frequency", "meta.rigorous_eval", "meta.film"),
)
SHARED = 0.999  # of the frames that the timings must account for
PATIENCE = 10.0  # seconds for a link to answer


@dataclass(frozen=True)
class Evidence:
    """What the rules look at."""

    folder: RunFolder
    link: str | None = None

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """As it ran."""
        return self.folder.read_spec()

    @functools.cached_property
    def run(self) -> dict[str, Any]:
        """Where it comes from."""
        return self.folder.read_run()

    @functools.cached_property
    def target(self) -> Target | None:
        """The row that it answers."""
        return target_of(self.spec["env"]["name"], self.folder.spec_name)

    @functools.cached_property
    def tables(self) -> list[Columns]:
        """The sessions' training tables."""
        return [read_columns(self.folder.session_df_path(s, "train")) for s in self.folder.sessions()]

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """The settings that a Settings line names, and more."""
        return {**self.spec["meta"], **self.spec["env"]}


@dataclass(frozen=True)
class Problem:
    """What a rule has against a run."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def train_only(seen: Evidence) -> Iterator[str]:
    """Only `train` runs stand on the board: a search chooses the luckiest of many."""
    searched = list((seen.folder.path / "info").glob("*_experiment_df.csv")) or seen.run.get("mode") == "search"
    if searched:
        yield "this is a search: run its best spec with train, and add that run"


def a_row(seen: Evidence) -> Iterator[str]:
    """A run answers a row: its environment and its algorithm stand on the board."""
    if seen.target is None:
        yield f"no row of the board asks for {seen.folder.spec_name} on {seen.spec['env']['name']}"


def settings_line(seen: Evidence) -> Iterator[str]:
    """The Settings line of its environment is kept: max_frame, num_envs, max_session, log_frequency."""
    for name in SETTINGS if seen.target else ():
        asked = seen.target.settings[name] if seen.target else None
        if float(seen.given[name]) != float(asked or 0):
            yield f"{name} is {seen.given[name]}, the Settings line says {asked}"


def max_frame_variable(seen: Evidence) -> Iterator[str]:
    """A spec that serves several environments takes `max_frame` from outside: `${max_frame}`."""
    found = _spec_file(seen.folder.spec_name)
    if found is None:
        return
    document, marked = parse(found.read_text(encoding="utf-8"), found)
    places = {place for place, _, _ in marked.used_in(document[seen.folder.spec_name])}
    if "env.name" in places and "env.max_frame" not in places:
        yield f"{found.name} serves several environments and fixes max_frame: write max_frame: ${{max_frame}}"


def committed_spec(seen: Evidence) -> Iterator[str]:
    """The spec file holds what ran, so that anybody can run it again."""
    name, found = seen.folder.spec_name, _spec_file(seen.folder.spec_name)
    if found is None:
        yield f"no spec file holds {name}: add it to specs/"
        return
    document, marked = parse(found.read_text(encoding="utf-8"), found)
    uses = marked.used_in(document[name])
    variables = {key: _at(seen.spec, place) for place, key, _ in uses}
    try:
        now = dump(load(found, name, variables=variables))
        then = dump(from_dict(seen.spec, name))
    except SpecError as error:
        yield f"the spec cannot be compared with {found.name}: {error}"
        return
    for section in ("agent", "env", "meta"):
        for place, was, written in _differences(then[section], now[section], section):
            if place in FREE or (place == "env.backend" and written is None):  # what was installed where it ran
                continue
            yield f"{place} was {was}, {found.name} says {written}: commit the spec that ran"


def own_seed(seen: Evidence) -> Iterator[str]:
    """The randomness is the spec's: nobody chose a lucky one."""
    told, asked = seen.run.get("seed"), seen.given.get("seed", 0)
    if told != asked:
        yield f"it ran with the seed {told}, its spec says {asked}"
    whole = seen.folder.spec_path
    if whole.exists() and seen.folder.trial_spec_path != whole:
        asked_for = parse(whole.read_text(encoding="utf-8"), whole)[0].get(seen.folder.spec_name)
        if asked_for != seen.spec:
            yield f"{whole.name} and {seen.folder.trial_spec_path.name} differ: one was changed after the run"


def clean_tree(seen: Evidence) -> Iterator[str]:
    """The code is a commit: nothing uncommitted ran."""
    git = seen.run.get("git")
    if not git or not git.get("sha"):
        yield "it names no commit: run it from a git checkout"
    elif git.get("dirty"):
        yield f"the code differed from its commit {git['sha'][:9]}: commit, and run it again"


def all_sessions(seen: Evidence) -> Iterator[str]:
    """Every session came to the end, with every row."""
    asked, every = seen.given["max_session"], seen.given["log_frequency"]
    if len(seen.tables) != asked:
        yield f"{len(seen.tables)} of {asked} sessions have a table"
    if not seen.folder.trial_metrics_path.exists():
        yield f"it is not finished: rewardlab run {seen.folder.spec_name} train@{seen.folder.path}"
    for session, table in enumerate(seen.tables):
        frames = np.asarray(table["frame"])
        if not len(frames) or frames[-1] < seen.given["max_frame"] - every:
            yield f"session {session} ended at frame {frames[-1] if len(frames) else 0} of {seen.given['max_frame']}"
        elif len(frames) < seen.given["max_frame"] // every - 1 or (np.diff(frames) <= 0).any():
            yield f"session {session} has {len(frames)} rows where {seen.given['max_frame'] // every} are due"


def in_time(seen: Evidence) -> Iterator[str]:
    """A run takes less than six hours."""
    timings = seen.folder.read_timings()
    hours = sum(row["seconds"] for row in timings) / 3600
    if hours >= HOURS:
        yield f"it took {hours:.1f} hours, {HOURS:g} are allowed"
    frames, asked = sum(row["frames"] for row in timings), seen.given["max_frame"] * seen.given["max_session"]
    if frames < SHARED * asked:
        yield f"its timings account for {frames} of {asked} frames"


def own_numbers(seen: Evidence) -> Iterator[str]:
    """The numbers are computed again from the tables, and are the same."""
    for session, table in enumerate(seen.tables):
        again = metrics.moving_average(table["total_reward"])
        told = np.asarray(table["total_reward_ma"], np.float64)
        off = ~np.isclose(again, told, rtol=ROUNDING, atol=ROUNDING, equal_nan=True)
        if off.any():
            row = int(np.argmax(off))
            yield (
                f"session {session}, row {row + 1}: total_reward_ma is {told[row]:g}, "
                f"the rows above it give {again[row]:g}"
            )
    if not seen.folder.trial_metrics_path.exists() or not seen.tables:
        return
    stored = read_json(seen.folder.trial_metrics_path)["scalar"]
    baseline = metrics.random_baseline(seen.spec["env"]["name"])
    again_all = metrics.trial_metrics([metrics.session_metrics(t, baseline) for t in seen.tables])["scalar"]
    for name, value in again_all.items():
        kept = stored.get(name)
        kept = float("nan") if kept is None else float(kept)
        if name != "fps" and not np.isclose(kept, value, rtol=TOLERANCE, atol=1e-12, equal_nan=True):
            yield f"{name} is {kept:g} in the trial's metrics, the tables give {value:g}"


def possible_numbers(seen: Evidence) -> Iterator[str]:
    """The tables are such as a run in this environment can leave."""
    env, envs = seen.spec["env"]["name"], int(seen.given["num_envs"])
    for session, table in enumerate(seen.tables):
        clock = plausible.of_clock(table, envs, int(seen.given["log_frequency"]), int(seen.given["max_frame"]))
        for text in (*clock, *plausible.of_returns(table, env, envs)):
            yield f"session {session}: {text}"
    yield from plausible.of_copies(seen.tables)
    for session, table in enumerate(seen.tables):
        path = seen.folder.session_metrics_path(session, "train")
        if not path.exists():  # the board keeps none
            continue
        told = read_json(path)["scalar"]
        again = metrics.session_metrics(table, metrics.random_baseline(env))["scalar"]
        for name, value in again.items():
            kept = float("nan") if told.get(name) is None else float(told[name])
            if not np.isclose(kept, value, rtol=TOLERANCE, atol=1e-12, equal_nan=True):
                yield f"session {session}: {name} is {kept:g} in its metrics, its table gives {value:g}"
                break


def live_link(seen: Evidence) -> Iterator[str]:
    """The link to its data leads to it."""
    link = seen.link or link_of(seen.folder)
    if link is None:
        return
    if seen.folder.path.name not in link:
        yield f"{link} does not name {seen.folder.path.name}: {{folder}} in --link stands for it"
        return
    if not link.startswith(("http://", "https://")):
        if not Path(link.removeprefix("file://")).exists():
            yield f"{link} is not there: push the run first"
        return
    request = urllib.request.Request(link, method="HEAD", headers={"User-Agent": "rewardlab"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return
    except urllib.error.HTTPError as error:
        yield f"{link} answers {error.code}: push the run first"
    except (OSError, ValueError) as error:
        yield f"{link} does not answer ({getattr(error, 'reason', error)})"


Rule = Callable[[Evidence], Iterator[str]]
RULES: Mapping[str, Rule] = {
    "train": train_only,
    "row": a_row,
    "settings": settings_line,
    "max_frame": max_frame_variable,
    "spec": committed_spec,
    "seed": own_seed,
    "git": clean_tree,
    "sessions": all_sessions,
    "time": in_time,
    "numbers": own_numbers,
    "possible": possible_numbers,
    "link": live_link,
}


def audit(path: Path, link: str | None = None) -> list[Problem]:
    """All that the rules have against a run."""
    seen = Evidence(RunFolder.open(path), link)
    if any(train_only(seen)):  # what a search leaves is no trial: nothing else can be asked of it
        return [Problem("train", text) for text in train_only(seen)]
    return [Problem(name, text) for name, rule in RULES.items() for text in rule(seen)]


def audit_plot(manifest: Path, folders: Sequence[str], max_frames: Mapping[str, int]) -> Iterator[Problem]:
    """A plot of the board is made from exactly the folders in its table, all of the same max_frame."""
    drawn = json.loads(manifest.read_text(encoding="utf-8"))["folders"] if manifest.exists() else None
    if drawn is None:
        yield Problem("plot", f"{manifest.stem} has no plot: rewardlab bench table")
    elif sorted(drawn) != sorted(folders):
        odd = sorted({*drawn} ^ {*folders})
        yield Problem("plot", f"the plot of {manifest.stem} and its table differ by {', '.join(odd)}")
    if len({max_frames[folder] for folder in folders}) > 1:
        told = ", ".join(f"{folder} {max_frames[folder]}" for folder in folders)
        yield Problem("plot", f"the runs of {manifest.stem} differ in max_frame: {told}")


def _spec_file(name: str) -> Path | None:
    try:
        return find(name)
    except SpecError:
        return None


def _at(value: Any, place: str) -> Any:
    for part in place.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _differences(a: Any, b: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), f"{place}.{key}")
    elif a != b:
        yield place, a, b
