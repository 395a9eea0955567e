"""The app: JSON API, pages, limits; and how it is served, with workers beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rewardlab.arena.api import router
from rewardlab.arena.boards import Boards
from rewardlab.arena.bodies import Bodies
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.limits import App, Limiter, Rates
from rewardlab.arena.place import Place

API = "/api/v1"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
}
Next = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Settings:
    """How a server behaves towards the world."""

    rates: Rates = field(default_factory=Rates)


Pages = Callable[[FastAPI], None]


def make_app(place: Place | None, settings: Settings | None = None, pages: Pages | None = None) -> App:
    """The API of an arena, if there is one, the pages, and the limits around both."""
    settings = settings or Settings()
    app = FastAPI(
        title="RewardLab arena", version="1", openapi_url=f"{API}/openapi.json", docs_url=None, redoc_url=None
    )
    if place is not None:
        app.state.boards = Boards(place.seasons)
        api = router(place, app.state.boards)
        app.include_router(api, prefix=API)
        app.include_router(api, include_in_schema=False)
    if pages is not None:
        pages(app)
    _errors(app)
    return Limiter(Bodies(Guard(app), 0 if place is None else place.quotas.bytes_each), settings.rates)


class Guard:
    """Puts the safe headers on every answer."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on, and add to the answer's head."""

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in self.headers if h[0] not in there)]
            await send(message)

        await self.app(scope, receive, with_headers)


def _errors(app: FastAPI) -> None:
    """Every error is a sentence with its status; what is asked in the browser is answered as a page elsewhere."""

    def told(request: Request, sentence: str, status: int) -> Response:
        render = getattr(app.state, "error_page", None)
        if render is not None and "text/html" in request.headers.get("accept", ""):
            page: Response = render(request, sentence, status)
            return page
        return JSONResponse({"detail": sentence}, status)

    @app.exception_handler(ArenaError)
    async def arena_error(request: Request, error: ArenaError) -> Response:
        return told(request, str(error), error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return told(request, f"{where}: {first['msg']}", 422)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        sentence = "There is nothing here." if error.status_code == 404 else str(error.detail)
        answer = told(request, sentence, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(ClientDisconnect)
    async def gone(_request: Request, _error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody hears it

    @app.exception_handler(OperationalError)
    async def away(request: Request, _error: OperationalError) -> Response:
        return told(request, "The database does not answer: try again.", 503)

    @app.exception_handler(IntegrityError)
    async def at_once(request: Request, _error: IntegrityError) -> Response:
        return told(request, "Somebody did the same at the same moment: look again.", 409)

    @app.exception_handler(DataError)
    @app.exception_handler(UnicodeEncodeError)  # half of a surrogate pair
    async def no_text(request: Request, _error: Exception) -> Response:
        return told(request, "The request holds a text or number that cannot be stored.", 400)
