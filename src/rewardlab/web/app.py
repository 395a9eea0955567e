"""The one app: an arena's API and pages where there is an arena, the boards of run folders always."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Response
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles

from rewardlab.arena.boards import Boards
from rewardlab.arena.limits import App
from rewardlab.arena.place import Place
from rewardlab.arena.server import Settings, make_app
from rewardlab.web import pages
from rewardlab.web.site import STATIC, Site


def whole_app(place: Place, data: Path, settings: Settings | None = None) -> App:
    """What `rewardlab arena serve` and `rewardlab board` serve."""
    site = Site([("/seasons", "Seasons"), ("/submit", "Submit")])

    def add_pages(app: FastAPI, place: Place, boards: Boards) -> None:
        app.state.error_page = site.error
        app.include_router(pages.router(place, boards, site))
        app.mount("/static", StaticFiles(directory=STATIC), name="static")

        @app.get("/", include_in_schema=False)
        def front() -> Response:
            return RedirectResponse("/seasons", 307)

    return make_app(place, settings, add_pages)
