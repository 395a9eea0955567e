"""The speedrun board: which runs may stand on it, what their rows say, and which of two ways is faster.

A row is made from a run's metrics file alone; the file is kept beside the board, so every row can be checked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rewardlab.files import RecordError, read_json, read_text, write_text_atomic

WINDOW = 100
COLUMNS: tuple[str, ...] = (
    "Date",
    "Runner",
    "goal@step",
    "time_to_target",
    "run_id",
    "walltime",
    "final_reward",
    "algorithm",
)
COLUMNS += ("wandb", "Notes")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'|'.join('-' * (len(c) + 2) for c in COLUMNS)}|\n"
NEEDED = ("algorithm", "reward_history", "walltime_sec", "final_reward")
INTRO = """# Speedrun board

Time to a target reward: the first step at which the mean reward of the last 100 steps reaches it, and the seconds
until then (compiling included, model loading and warm-up not). Rules and commands: [llm.md](llm.md#the-speedrun-board).
Rows are written by `rewardlab speedrun append`; each run's metrics file is kept in `speedrun/`, and
`rewardlab speedrun verify` checks it.

## Records
"""


def rolling(history: Sequence[float]) -> float | None:
    """The mean of the last 100, None before there are so many."""
    return sum(history[-WINDOW:]) / WINDOW if len(history) >= WINDOW else None


def goal_step(history: Sequence[float], target: float | None) -> int | None:
    """The first step, from 1, at which the rolling mean reaches the target."""
    if target is None:
        return None
    for n in range(WINDOW, len(history) + 1):
        mean = rolling(history[:n])
        if mean is not None and mean >= target:
            return n
    return None


def read_run(path: Path) -> dict[str, Any]:
    """A metrics file that holds what a row needs."""
    if not path.is_file():
        raise RecordError(f"{path} not found: run with --speedrun first")
    run = read_json(path)
    missing = [name for name in NEEDED if not isinstance(run, Mapping) or run.get(name) is None]
    if missing:
        raise RecordError(f"{path} is no speedrun metrics file: it has no {', '.join(missing)}")
    return dict(run)


def problems(run: Mapping[str, Any]) -> list[str]:
    """Everything in a metrics file that does not follow from its own history."""
    found = []
    history = run["reward_history"]
    told = run.get("reward_100step_history")
    means = [rolling(history[: i + 1]) for i in range(len(history))]
    if told is not None and not _same(told, means):
        found.append("reward_100step_history is not the mean of the last 100 rewards")
    step = goal_step(history, run.get("target_reward"))
    if run.get("goal_reached_at_step") != step:
        found.append(f"goal_reached_at_step is {run.get('goal_reached_at_step')}, the history says {step}")
    times = run.get("seconds_at_step") or run.get("walltime_at_step") or []
    if len(times) != len(history):
        found.append(f"there are {len(history)} rewards and {len(times)} times")
    if any(b < a for a, b in pairwise(times)):
        found.append("time runs backwards")
    if step is not None and len(times) == len(history) and abs(times[step - 1] - run["goal_walltime_sec"]) > 1:
        found.append(f"goal_walltime_sec is {run['goal_walltime_sec']}, the history says {times[step - 1]}")
    if history and abs(history[-1] - run["final_reward"]) > 1e-9:
        found.append(f"final_reward is {run['final_reward']}, the history says {history[-1]}")
    if times and run["walltime_sec"] < times[-1] - 1:
        found.append("walltime_sec is less than the time of the last step")
    return found


def _same(told: Sequence[float | None], means: Sequence[float | None]) -> bool:
    def near(a: float | None, b: float | None) -> bool:
        return a is b if a is None or b is None else abs(a - b) < 1e-6

    return len(told) == len(means) and all(near(a, b) for a, b in zip(told, means, strict=True))


def duration(seconds: float | None) -> str:
    """4 h 44 min 49 sec."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" + (f" {rest} sec" if rest else "")
    return f"{minutes} min {rest} sec" if minutes else f"{rest} sec"


def cell(text: object) -> str:
    """Text that cannot leave its cell."""
    return " ".join(str(text).replace("\\", "\\\\").replace("|", "\\|").split())


def identity(run: Mapping[str, Any], path: Path) -> str:
    """What a run is known by: its W&B id, its own, or the name of its file."""
    return str(run.get("wandb_run_id") or run.get("run_id") or path.stem)


def row(run: Mapping[str, Any], path: Path, recorder: str, notes: str, wandb: bool) -> list[str]:
    """The ten cells of a run."""
    step, target = run.get("goal_reached_at_step"), run.get("target_reward")
    goal = "" if step is None else f"goal@step{step}" if target is None else f"goal({target:g})@step{step}"
    link = ""
    if wandb:
        try:
            link = f"[run](https://wandb.ai/{run['wandb_entity']}/{run['wandb_project']}/runs/{run['wandb_run_id']})"
        except KeyError as error:
            raise RecordError(f"{path} has no {error.args[0]}: leave out --include-wandb") from error
    name = identity(run, path)
    return [
        str(run.get("started", ""))[:10],
        recorder,
        goal,
        duration(run.get("goal_walltime_sec")),
        f"[{name}](speedrun/{name}.json)",
        duration(run["walltime_sec"]),
        f"{run['final_reward']:.4f}",
        str(run["algorithm"]),
        link,
        notes,
    ]


def append(path: Path, board: Path, recorder: str = "", notes: str = "", wandb: bool = False) -> str:
    """Put a run on the board; one whose file does not hold together, or that is there already, is refused."""
    run = read_run(path)
    if wrong := problems(run):
        raise RecordError(f"{path} does not hold together: {'; '.join(wrong)}")
    name = identity(run, path)
    if not re.fullmatch(r"[\w.\-]+", name):
        raise RecordError(f"the run's id {name!r} cannot name a file: rename {path}")
    kept = board.parent / "speedrun" / f"{name}.json"
    text = read_text(board) if board.is_file() else INTRO
    if f"(speedrun/{name}.json)" in text:
        raise RecordError(f"the run {name} is on {board} already")
    line = f"| {' | '.join(cell(c) if i != 4 else c for i, c in enumerate(row(run, path, recorder, notes, wandb)))} |"
    track = cell(run.get("track") or "other")
    text = insert(text, track, line)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(kept, read_text(path))
    write_text_atomic(board, text)
    return line


def insert(text: str, track: str, line: str) -> str:
    """The board with a row at the end of its track's table, which is made where it is missing."""
    if "## Records" not in text:
        raise RecordError("could not find the heading ## Records on the board")
    lines = text.rstrip("\n").split("\n")
    heading = f"### {track}"
    if heading not in lines:
        return "\n".join([*lines, "", heading, "", *HEAD.rstrip("\n").split("\n"), line]) + "\n"
    at = lines.index(heading) + 1
    while at < len(lines) and not lines[at].startswith("#"):
        at += 1
    while not lines[at - 1].startswith("|"):
        at -= 1
    return "\n".join([*lines[:at], line, *lines[at:]]) + "\n"


@dataclass(frozen=True)
class Row:
    """One line of the board."""

    track: str
    cells: dict[str, str]


def rows(board: Path) -> list[Row]:
    """Every row of the board with its track."""
    found, track = [], ""
    for line in read_text(board).splitlines() if board.is_file() else []:
        if line.startswith("### "):
            track = line[4:].strip()
        elif line.startswith("| ") and not line.startswith(f"| {COLUMNS[0]} "):
            cells = [c.strip().replace("\\|", "|").replace("\\\\", "\\") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) == len(COLUMNS):
                found.append(Row(track, dict(zip(COLUMNS, cells, strict=True))))
    return found


@dataclass(frozen=True)
class Comparison:
    """Whether the first runs reach the goal sooner than the second."""

    first: list[float]
    second: list[float]
    p_value: float

    @property
    def means(self) -> tuple[float, float]:
        """Seconds to the goal."""
        return sum(self.first) / len(self.first), sum(self.second) / len(self.second)


def compare(first: Sequence[Path], second: Sequence[Path], by: str = "goal_walltime_sec") -> Comparison:
    """Welch's t-test, one-sided: p is the chance of such a lead if there were none."""
    from scipy import stats

    sides = []
    runs = [(path, read_run(path)) for path in (*first, *second)]
    for what in ("target_reward", "track"):
        told = {json.dumps(run.get(what)) for _, run in runs}
        if len(told) > 1:
            raise RecordError(f"the runs do not compare: their {what} is {' and '.join(sorted(told))}")
    for chosen in (runs[: len(first)], runs[len(first) :]):
        for path, run in chosen:
            if run.get(by) is None:
                raise RecordError(f"{path} did not reach the goal, so it has no {by}")
        sides.append([float(run[by]) for _, run in chosen])
    if min(map(len, sides)) < 2:
        raise RecordError("each side needs two runs or more (with different seeds): one says nothing about chance")
    test = stats.ttest_ind(*sides, equal_var=False, alternative="less")
    return Comparison(sides[0], sides[1], float(test.pvalue))
