"""The one app: the boards of run folders always, an arena's API and pages where there is an arena."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles

from rewardlab.arena.api import COOKIE
from rewardlab.arena.limits import App
from rewardlab.arena.place import Place
from rewardlab.arena.server import Settings, make_app
from rewardlab.web import boards, pages
from rewardlab.web.site import STATIC, Site

ROOMS = (
    ("/seasons", "Seasons", "Tournaments of policies: leaderboards, matches, replays."),
    ("/benchmarks", "Benchmarks", "Scores of algorithms against their targets."),
    ("/speedruns", "Speedruns", "Language models: the shortest time to a target reward."),
    ("/runs", "Runs", "What was trained on this machine, with its curves."),
    ("/submit", "Submit", "Let a policy of your own compete."),
)
OF_AN_ARENA = ("Seasons", "Submit")


def whole_app(place: Place, data: Path, settings: Settings | None = None) -> App:
    """What `rewardlab arena serve` and `rewardlab board` serve."""
    arena = place.exists()
    rooms = [room for room in ROOMS if arena or room[1] not in OF_AN_ARENA]
    site = Site([(address, name) for address, name, _ in rooms])

    def add_pages(app: FastAPI) -> None:
        app.state.error_page = site.error
        app.include_router(boards.router(data, site))
        if arena:
            app.include_router(pages.router(place, app.state.boards, site))
        app.mount("/static", StaticFiles(directory=STATIC), name="static")

        @app.get("/", include_in_schema=False)
        def front(request: Request) -> Response:
            secret = request.cookies.get(COOKIE) if arena else None
            request.state.caller = place.accounts.caller(secret) if secret else None
            found = place.seasons.all()[:3] if arena else []
            leaders = [(held.row.name, next(iter(app.state.boards.entries(held.row.name)), None)) for held in found]
            return site.page(request, "front.html", rooms=rooms, leaders=leaders)

    return make_app(place if arena else None, settings, add_pages)
