"""What the numbers of a table say about themselves: whether a run can have left them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardlab.experiment.table import Columns

ALIKE = 0.5  # of the rows of two sessions that may be the same, before one is a copy of the other


class Returns(NamedTuple):
    """The returns that an environment can give."""

    low: float
    high: float
    whole: bool = False  # whether every reward is a whole number


# by the environments' own definitions, at their usual time limits
RETURNS: Mapping[str, Returns] = {
    "CartPole-v1": Returns(1, 500, whole=True),  # one for each step
    "Acrobot-v1": Returns(-500, 0, whole=True),  # minus one for each step before the end
    "Pendulum-v1": Returns(-200 * (np.pi**2 + 0.1 * 8**2 + 0.001 * 2**2), 0),  # the highest cost in every step
    "ALE/Pong-v5": Returns(-21, 21, whole=True),
}


def checkpoints(num_envs: int, log_frequency: int, max_frame: int) -> NDArray[np.int64]:
    """The frames at which a run logs: the first vector step at or after each multiple of `log_frequency`."""
    due = np.arange(1, max_frame // log_frequency + 1) * log_frequency
    frames = -(-due // num_envs) * num_envs
    return np.asarray(frames[frames <= max_frame], np.int64)


def of_clock(table: Columns, num_envs: int, log_frequency: int, max_frame: int) -> Iterator[str]:
    """Frames, steps and counts go as a clock does."""
    frames, due = np.asarray(table["frame"]), checkpoints(num_envs, log_frequency, max_frame)
    odd = np.flatnonzero(frames != due) if len(frames) == len(due) else np.zeros(0, int)
    if odd.size:
        row = int(odd[0])
        yield f"row {row + 1} is at frame {frames[row]:g}, a run with {num_envs} environments logs at {due[row]}"
    if "t" in table and (np.asarray(table["t"]) * num_envs != frames).any():
        yield f"t times {num_envs} environments is not frame"
    for name in ("epi", "opt_step"):
        steps = np.diff(np.asarray(table[name], np.float64)) if name in table else np.zeros(0)
        back = np.flatnonzero(steps < 0)
        if back.size:
            yield f"{name} goes back in row {int(back[0]) + 2}"


def of_returns(table: Columns, env: str, num_envs: int) -> Iterator[str]:
    """Returns are those of the environment: numbers from the first on, in its range, sums of its rewards."""
    returns = np.asarray(table["total_reward"], np.float64)
    known = np.flatnonzero(~np.isnan(returns))
    if not known.size:
        yield "total_reward holds no number"
        return
    gaps = np.flatnonzero(~np.isfinite(returns[known[0] :]))
    if gaps.size:
        yield f"row {int(known[0] + gaps[0]) + 1} has no total_reward, and the rows before it have one"
    possible, seen = RETURNS.get(env), returns[known]
    if possible is None:
        return
    least, most = float(seen.min()), float(seen.max())
    if least < possible.low - 1e-3 or most > possible.high + 1e-3:
        outside = least if least < possible.low else most
        yield f"a return is {outside:g}, and {env} gives {possible.low:g} to {possible.high:g}"
    if possible.whole:
        counts = np.arange(1, num_envs + 1)[:, None]  # environments that have ended an episode so far
        sums = seen * counts
        odd = (np.abs(sums - np.round(sums)) > 2e-3 * counts).all(axis=0)
        if odd.any():
            row = int(known[np.argmax(odd)])
            told = f"{returns[row]:g}, which is no mean of up to {num_envs} whole returns"
            yield f"row {row + 1}: total_reward is {told}, and {env} gives whole ones"


def of_copies(tables: Sequence[Columns]) -> Iterator[str]:
    """Sessions of different seeds do not agree row for row in what they learn."""
    for (i, a), (j, b) in combinations(enumerate(tables), 2):
        for name in ("loss", "grad_norm", "total_reward"):
            if name not in a or name not in b or len(a[name]) != len(b[name]):
                continue
            x, y = np.asarray(a[name]), np.asarray(b[name])
            moving = np.flatnonzero((np.diff(x, prepend=np.nan) != 0) & ~np.isnan(x) & (x != 0))
            if len(moving) < 10 or (name == "total_reward" and "loss" in a):  # what is solved returns the same
                continue
            if np.mean(x[moving] == y[moving]) > ALIKE:
                yield f"sessions {i} and {j} have the same {name}: one is a copy of the other"
                break
