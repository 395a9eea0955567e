"""Are two runs the same? Every cell of every CSV and every number of every checkpoint, with the first difference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.experiment.checkpoint import load_arrays
from rewardlab.experiment.table import read_cells


@dataclass(frozen=True)
class Difference:
    """The first place where two runs differ, and how far apart they are at their worst."""

    file: str  # relative to the run folders
    place: str  # "row 3, column loss", "params.w[0, 1]", or what is missing
    a: str
    b: str
    largest_absolute: float = math.inf  # over all numbers of all files; infinite where something is missing
    largest_relative: float = math.inf  # |a − b| / max(|a|, |b|)
    largest_scaled: float = math.inf  # |a − b| / max(1, |a|, |b|): relative for large numbers, absolute for small ones

    def within(self, tolerance: float) -> bool:
        """Whether every number agrees to `tolerance`, relative to its size but never finer than for 1."""
        return self.largest_scaled <= tolerance

    def __str__(self) -> str:
        return f"{self.file}, {self.place}: {self.a} against {self.b}"


def first_difference(folder_a: Path, folder_b: Path) -> Difference | None:
    """None when all session tables and checkpoints of two run folders hold the same bits."""
    names = sorted({*_names(folder_a), *_names(folder_b)})
    first: Difference | None = None
    for name in names:
        missing = _missing(name, "", (folder_a / name).exists(), (folder_b / name).exists())
        compare = _compare_tables if name.endswith(".csv") else _compare_checkpoints
        first = _merge(first, missing or compare(name, folder_a / name, folder_b / name))
    return first


def _names(folder: Path) -> list[str]:
    paths = [*folder.glob("info/*.csv"), *folder.glob("model/*.safetensors")]
    return [str(path.relative_to(folder)) for path in paths]


def _merge(first: Difference | None, then: Difference | None) -> Difference | None:
    """The place of the first difference with the worst distances of both."""
    if first is None or then is None:
        return first or then
    return replace(
        first,
        largest_absolute=max(first.largest_absolute, then.largest_absolute),
        largest_relative=max(first.largest_relative, then.largest_relative),
        largest_scaled=max(first.largest_scaled, then.largest_scaled),
    )


def _missing(file: str, place: str, in_a: bool, in_b: bool) -> Difference | None:
    if in_a and in_b:
        return None
    there, gone = "present", "missing"
    return Difference(file, place or "the file", there if in_a else gone, there if in_b else gone)


def _compare_tables(name: str, path_a: Path, path_b: Path) -> Difference | None:
    header_a, rows_a = read_cells(path_a)
    header_b, rows_b = read_cells(path_b)
    for column in [*header_a, *header_b]:
        if missing := _missing(name, f"column {column}", column in header_a, column in header_b):
            return missing
    first: Difference | None = None
    for number, (row_a, row_b) in enumerate(zip(rows_a, rows_b, strict=False), start=1):
        if header_a == header_b and row_a == row_b:
            continue
        cells_b = dict(zip(header_b, row_b, strict=True))
        for column, a in zip(header_a, row_a, strict=True):
            if a != (b := cells_b[column]):
                distances = _distances(np.float64(a or "nan"), np.float64(b or "nan"))
                first = _merge(first, Difference(name, f"row {number}, column {column}", a, b, *distances))
    if len(rows_a) != len(rows_b):
        first = _merge(first, Difference(name, "the number of rows", str(len(rows_a)), str(len(rows_b))))
    return first


def _compare_checkpoints(name: str, path_a: Path, path_b: Path) -> Difference | None:
    arrays_a, arrays_b = load_arrays(path_a)[0], load_arrays(path_b)[0]
    first: Difference | None = None
    for tensor in sorted({*arrays_a, *arrays_b}):
        difference = _missing(name, tensor, tensor in arrays_a, tensor in arrays_b)
        first = _merge(first, difference or _compare_arrays(name, tensor, arrays_a[tensor], arrays_b[tensor]))
    return first


def _compare_arrays(file: str, tensor: str, a: NDArray[Any], b: NDArray[Any]) -> Difference | None:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return Difference(file, tensor, f"{a.dtype} {list(a.shape)}", f"{b.dtype} {list(b.shape)}")
    size = a.dtype.itemsize
    bytes_a, bytes_b = (x.reshape(-1).view(np.uint8).reshape(-1, size) for x in (a, b))
    differing = np.flatnonzero((bytes_a != bytes_b).any(axis=1))
    if not differing.size:
        return None
    values_a, values_b = a.reshape(-1)[differing], b.reshape(-1)[differing]
    index = [int(i) for i in np.unravel_index(differing[0], a.shape)]
    place = f"{tensor}{index if index else ''}"
    return Difference(file, place, str(values_a[0]), str(values_b[0]), *_distances(values_a, values_b))


def _distances(a: Any, b: Any) -> tuple[float, float, float]:
    """The largest absolute, relative and scaled distance; a number against NaN is infinitely far."""
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    a, b = np.atleast_1d(a).astype(wide), np.atleast_1d(b).astype(wide)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        size = np.maximum(np.abs(a), np.abs(b))
        relative = np.where(absolute == 0, 0.0, absolute / size)
        scaled = absolute / np.maximum(1.0, np.where(absolute == 0, 1.0, size))
    worst = [float(np.where(np.isnan(x), np.inf, x).max()) for x in (absolute, relative, scaled)]
    return worst[0], worst[1], worst[2]
