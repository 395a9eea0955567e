"""Results for people and for programs: tables, YAML, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def emit(content: Any, output: str | None) -> bool:
    """Write JSON or YAML alone on stdout, if that is what was asked for."""
    if output == "json":
        print(json.dumps(content, indent=2, allow_nan=False))
    elif output == "yaml":
        import yaml

        print(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), end="")
    return output is not None


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout, as wide as it needs to be where nobody watches."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", show_edge=False, pad_edge=False
    )
    cells = [[value if isinstance(value, str) else number(value) for value in row] for row in rows]
    for i, name in enumerate(columns):
        figures = bool(cells) and all(
            not isinstance(value, str) or _is_figure(value) for value in (r[i] for r in cells)
        )
        made.add_column(name, justify="right" if i and figures else "left", overflow="fold")
    for row in cells:
        made.add_row(*(Text(value) for value in row))
    width = None if sys.stdout.isatty() else 160
    console = Console(file=sys.stdout, width=width, highlight=False)
    console.print(made)
    console.print()


def _is_figure(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").replace("–", "").strip().isdigit() or text in (
        "–",
        "",
    )


def number(value: float | None) -> str:
    """A figure, not longer than it needs to be."""
    if value is None or value != value:
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.4f}"
