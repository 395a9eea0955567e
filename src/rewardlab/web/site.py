"""How pages are made: templates that escape everything, one look, one navigation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

HERE = Path(__file__).parent
STATIC = HERE / "static"
COLOURS = 8  # lines of a chart that can be told apart


class Site:
    """The pages' templates, with the words that all of them need."""

    def __init__(self, sections: Sequence[tuple[str, str]]) -> None:
        self.sections = list(sections)
        self.templates = Environment(
            loader=PackageLoader("rewardlab.web"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters |= {"figure": figure, "moment": moment, "part": lambda text: quote(str(text), safe="")}

    def page(self, request: Request, template: str, status_code: int = 200, **context: Any) -> HTMLResponse:
        """A page; `caller` is who looks, where somebody is logged in."""
        context = {"caller": getattr(request.state, "caller", None), "refresh": None, **context}
        context |= {"sections": self.sections, "path": request.url.path}
        return HTMLResponse(self.templates.get_template(template).render(**context), status_code)

    def error(self, request: Request, sentence: str, status: int) -> Response:
        """An error as a page."""
        return self.page(request, "error.html", status, sentence=sentence, status=status)


def figure(value: Any, digits: int = 2) -> str:
    """A number for a table."""
    if value is None or value != value:
        return "–"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{int(value):,}"
    return f"{value:,.{digits}f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2e}"


def moment(seconds: float | None) -> str:
    """A time for people, in UTC."""
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def chart(lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], across: str, up: str) -> dict[str, Any] | None:
    """What the chart template draws: paths in a box of 640 × 240, with a few marks on both axes."""
    points = [point for _, line in lines for point in line if point[1] == point[1]]
    if len({x for x, _ in points}) < 2:
        return None
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points)
    if high <= low:
        high = low + 1.0

    def place(x: float, y: float) -> str:
        return f"{48 + 584 * (x - left) / (right - left):.1f},{216 - 204 * (y - low) / (high - low):.1f}"

    drawn = [
        {"name": name, "colour": i % COLOURS, "points": " ".join(place(x, y) for x, y in line if y == y)}
        for i, (name, line) in enumerate(lines)
    ]
    ups = [(216 - 204 * k / 4, short(low + (high - low) * k / 4)) for k in range(5)]
    acrosses = [(48 + 584 * k / 4, short(left + (right - left) * k / 4)) for k in range(5)]
    return {"lines": drawn, "ups": ups, "acrosses": acrosses, "across": across, "up": up}


def short(value: float) -> str:
    """A number for an axis: 1.2M, 30k, 7."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
