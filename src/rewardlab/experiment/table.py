"""Session tables: columns of numbers as CSV, with the same numbers after reading and the same bytes after rewriting."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.files import RecordError, read_text, write_text_atomic

Columns = dict[str, NDArray[Any]]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer | np.bool_)


class SessionTable:
    """Rows of one session in one mode. A column whose first value is a whole number holds whole numbers only; every
    other column holds float32. Rows are turned to text once, so that writing a long table again stays cheap."""

    def __init__(self) -> None:
        self._whole: dict[str, bool] = {}
        self._values: dict[str, list[Any]] = {}
        self._lines: list[str] = []

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def columns(self) -> Columns:
        """Each column as an array: int64 or float32."""
        return {
            name: np.asarray(values, dtype=np.int64 if self._whole[name] else np.float32)
            for name, values in self._values.items()
        }

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; the first row names the columns, every further one must have the same names."""
        if not self._whole:
            self._values = {name: [] for name in row}
        elif row.keys() != self._whole.keys():
            odd = sorted(row.keys() ^ self._whole.keys())
            raise RecordError(f"A row with other columns than the table's: {', '.join(odd)}.")
        if not self._lines:
            self._whole = {name: _is_whole(row[name]) for name in self._values}
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and shows as inf
            values = {name: self._number(name, row[name], whole) for name, whole in self._whole.items()}
        for name, value in values.items():
            self._values[name].append(value)
        cells = ["" if value != value else str(value) for value in values.values()]  # NaN is an empty cell
        self._lines.append(_line(cells))

    def extend(self, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
        """Add many rows, given as columns of equal length."""
        names = list(columns)
        lists = [column.tolist() if isinstance(column, np.ndarray) else list(column) for column in columns.values()]
        for values in zip(*lists, strict=True):
            self.append(dict(zip(names, values, strict=True)))

    def keep(self, rows: int) -> None:
        """Forget all rows after the first `rows`: a resumed run starts from its checkpoint, not from the last log."""
        del self._lines[rows:]
        for values in self._values.values():
            del values[rows:]

    def write(self, path: Path) -> None:
        """The table as CSV, atomically."""
        write_text_atomic(path, _line(list(self._whole)) + "".join(self._lines))

    @classmethod
    def read(cls, path: Path) -> SessionTable:
        """The table that was written; writing it again gives the same bytes."""
        header, rows = read_cells(path)
        whole = [all(row[i].lstrip("-").isdigit() for row in rows) and bool(rows) for i in range(len(header))]
        table = cls()
        for number, row in enumerate(rows, start=1):
            try:
                values = [int(cell) if w else float(cell or "nan") for cell, w in zip(row, whole, strict=True)]
            except ValueError as error:
                raise RecordError(f"{path} is damaged in row {number}: {error}; resume the run.") from error
            table.append(dict(zip(header, values, strict=True)))
        if not rows:
            table._whole, table._values = dict.fromkeys(header, False), {name: [] for name in header}
        return table

    @staticmethod
    def _number(name: str, value: Any, whole: bool) -> Any:
        if whole:
            if not _is_whole(value):
                raise RecordError(f"Column {name} holds whole numbers; {value!r} is none.")
            return int(value)
        if isinstance(value, str):
            raise RecordError(f"Column {name} holds numbers; {value!r} is none.")
        return np.float32(np.nan if value is None else value)


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def read_cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV as text."""
    lines = list(csv.reader(io.StringIO(read_text(path))))
    if not lines:
        raise RecordError(f"{path} is damaged: it is empty; resume the run.")
    header, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise RecordError(
                f"{path} is damaged: row {number} has {len(row)} cells under {len(header)} columns; resume the run."
            )
    return header, rows


def read_columns(path: Path) -> Columns:
    """The columns of a session table on disk."""
    return SessionTable.read(path).columns
