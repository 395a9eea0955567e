"""The arena's pages: seasons, policies, matches, logging in, submitting."""

# No `from __future__ import annotations`: FastAPI reads annotations that name what is local to a function.

import math
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from rewardlab.arena import models, rating
from rewardlab.arena.api import COOKIE, completed_upload, replay_file, seen_match, seen_version
from rewardlab.arena.boards import Boards, pool_table
from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.place import Place
from rewardlab.arena.shelf import hash_file
from rewardlab.arena.store.accounts import Caller
from rewardlab.web.site import Site, chart

SESSION_DAYS = 30.0
ON_A_PAGE = 50
MOST_REPLAY = 1 << 28
SHADES = 6
VIEWER = Path(__file__).parent / "cogs"
VIEWER_FILES = {place.name for place in VIEWER.iterdir() if place.suffix in (".html", ".js", ".css", ".svg")}
Shown = Annotated[int, Query(ge=0, le=1_000_000)]


def router(place: Place, boards: Boards, site: Site) -> APIRouter:
    """All pages of the arena."""
    pages = APIRouter(include_in_schema=False)

    def who(request: Request) -> Caller | None:
        """Who looks; an old cookie is nobody."""
        secret = request.cookies.get(COOKIE)
        request.state.caller = place.accounts.caller(secret) if secret else None
        found: Caller | None = request.state.caller
        return found

    def must(request: Request) -> Caller:
        """Somebody whose token may change things, on a form of our own."""
        caller = who(request)
        if caller is None:
            raise ArenaError("Log in first.", 401)
        same_site(request)
        if not caller.may("play"):
            raise ArenaError(f"This login's scope is {caller.scope}: it may look and change nothing.", 403)
        return caller

    looks, logged_in = Depends(who), Depends(must)

    @pages.get("/seasons")
    def seasons(request: Request, _: Annotated[Any, looks]) -> Response:
        found = [(held, boards.entries(held.row.name)[:3]) for held in place.seasons.all()]
        return site.page(request, "seasons.html", seasons=found, jobs=place.jobs.counts())

    @pages.get("/seasons/{name}")
    def season(request: Request, name: str, _: Annotated[Any, looks], start: Shown = 0) -> Response:
        held = place.seasons.get(name)
        entries = boards.entries(name)
        results = place.seasons.results(held.row.id, held.season.leaderboard_pool)
        names = {entry.policy.id: f"{entry.policy.name}:v{entry.policy.version}" for entry in entries}
        best = [entry.policy.id for entry in entries[:8]]
        lines = rating.history(results)
        return site.page(
            request,
            "season.html",
            held=held,
            season=held.season,
            entries=entries,
            pools=pool_table(held, place.seasons),
            grid=grid(results, [entry.policy.id for entry in entries[:40]]),
            names=names,
            history=chart([(names[p], lines[p]) for p in best if p in lines], "matches played", "score"),
            matches=place.seasons.matches(held.row.id, most=ON_A_PAGE, offset=start),
            start=start,
            step=ON_A_PAGE,
        )

    @pages.get("/policies/{version_id}")
    def policy(
        request: Request, version_id: str, caller: Annotated[Caller | None, looks], start: Shown = 0
    ) -> Response:
        version, user, own = seen_version(place, version_id, caller)
        siblings = [v for v, _ in place.policies.find(user.id, version.name) if own or v.status == "accepted"]
        return site.page(
            request,
            "policy.html",
            version=version,
            user=user,
            own=own,
            siblings=siblings,
            members=place.seasons.memberships([version_id]),
            matches=place.seasons.matches(version_id=version_id, most=ON_A_PAGE, offset=start),
            start=start,
            step=ON_A_PAGE,
        )

    @pages.get("/matches/{match_id}")
    def match(request: Request, match_id: str, caller: Annotated[Caller | None, looks]) -> Response:
        return site.page(request, "match.html", match=seen_match(place, match_id, caller))

    @pages.get("/matches/{match_id}/replay/episode")
    def opening(match_id: str) -> Response:
        """What the viewer asks first: the file's header, as bytes that were checked when they were written."""
        text = _replay(replay_file(place, match_id))
        head = text[: text.index(b',"frames":')] + b"}"
        body = b'{"header":' + head + b',"live":false,"autostart":false,"speed":10}'
        return Response(body, media_type="application/json")

    @pages.get("/matches/{match_id}/replay/frames")
    def frames(match_id: str, since: Annotated[int, Query(alias="from", ge=0, le=1_000_000)] = 0) -> Response:
        import json

        document = json.loads(_replay(replay_file(place, match_id)))
        found = document["frames"]
        answer = {"frames": found[since:], "summary": document["summary"], "total": len(found)}
        return Response(json.dumps(answer, separators=(",", ":")), media_type="application/json")

    @pages.get("/matches/{match_id}/replay/{name:path}")
    def viewer(match_id: str, name: str) -> Response:
        """The viewer's own files, below a match that has a replay."""
        replay_file(place, match_id)
        wanted = name or "index.html"
        if wanted not in VIEWER_FILES:
            raise missing("file", wanted)
        return FileResponse(VIEWER / wanted)

    @pages.get("/login")
    def login_page(request: Request, _: Annotated[Any, looks], back: str = "/me") -> Response:
        return site.page(request, "login.html", back=_own_path(back), problem="")

    @pages.post("/login")
    def login(
        request: Request,
        back: Annotated[str, Form(max_length=500)] = "/me",
        name: Annotated[str, Form(max_length=100)] = "",
        password: Annotated[str, Form(max_length=1000)] = "",
        token: Annotated[str, Form(max_length=200)] = "",
    ) -> Response:
        same_site(request)
        who(request)
        try:
            secret = _session(place, name, password, token)
        except ArenaError as error:
            return site.page(request, "login.html", error.status, back=_own_path(back), problem=str(error))
        answer = RedirectResponse(_own_path(back), 303)
        secure = request.url.scheme == "https"
        age = int(SESSION_DAYS * 86400)
        answer.set_cookie(COOKIE, secret, max_age=age, httponly=True, samesite="strict", secure=secure)
        return answer

    @pages.post("/logout")
    def logout(request: Request) -> Response:
        same_site(request)
        if caller := who(request):
            place.accounts.revoke(caller.token_id, caller.user_id, caller.name)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
        return answer

    @pages.get("/device")
    def device_page(request: Request, caller: Annotated[Caller | None, looks], code: str = "") -> Response:
        if caller is None:
            return RedirectResponse(f"/login?back={quote(f'/device?code={quote(code)}')}", 303)
        return site.page(request, "device.html", code=code[:20], problem="", done=False)

    @pages.post("/device")
    def device(
        request: Request, caller: Annotated[Caller, logged_in], code: Annotated[str, Form(max_length=40)]
    ) -> Response:
        try:
            place.accounts.confirm_device(code, caller.user_id, caller.name)
        except ArenaError as error:
            return site.page(request, "device.html", error.status, code=code, problem=str(error), done=False)
        return site.page(request, "device.html", code=code, problem="", done=True)

    @pages.get("/me")
    def me(request: Request, caller: Annotated[Caller | None, looks]) -> Response:
        if caller is None:
            return RedirectResponse("/login", 303)
        versions = [version for version, _ in place.policies.find(caller.user_id, most=200)]
        members = defaultdict(list)
        for member in place.seasons.memberships([version.id for version in versions]):
            members[member["version_id"]].append(member)
        user = place.accounts.user(caller.name)
        tokens = [token for token in place.accounts.tokens(user) if token.revoked is None]
        return site.page(request, "me.html", versions=versions, members=members, tokens=tokens)

    @pages.post("/me/tokens/{token_id}/revoke")
    def revoke(token_id: str, caller: Annotated[Caller, logged_in]) -> Response:
        place.accounts.revoke(token_id, caller.user_id, caller.name)
        return RedirectResponse("/me", 303)

    @pages.get("/submit")
    def submit_page(request: Request, caller: Annotated[Caller | None, looks]) -> Response:
        if caller is None:
            return RedirectResponse("/login?back=/submit", 303)
        return _submit_page(request, "")

    def _submit_page(request: Request, problem: str, status: int = 200) -> Response:
        open_ = [held for held in place.seasons.all() if held.takes_entries]
        most = place.quotas.bytes_each >> 20
        return site.page(request, "submit.html", status, seasons=open_, problem=problem, most=most)

    @pages.post("/submit")
    async def submit(request: Request, caller: Annotated[Caller, logged_in]) -> Response:
        """The form is read here, once we know whose it is: nobody else's bytes are taken in."""
        async with request.form(max_files=1, max_fields=4, max_part_size=1000) as form:
            name, season, bundle = (form.get(key, "") for key in ("name", "season", "bundle"))
            try:
                if not isinstance(bundle, UploadFile) or not isinstance(name, str) or not isinstance(season, str):
                    raise ArenaError("Choose a bundle: a zip with policy_spec.json in it.")
                version = await run_in_threadpool(_take, place, caller, bundle, name, season or None)
            except ArenaError as error:
                return await run_in_threadpool(_submit_page, request, str(error), error.status)
        return RedirectResponse(f"/policies/{version.id}", 303)

    @pages.post("/policies/{version_id}/submit")
    def enter(
        version_id: str,
        caller: Annotated[Caller, logged_in],
        season: Annotated[str, Form(max_length=200)],
    ) -> Response:
        place.seasons.submit(caller, version_id, season)
        return RedirectResponse(f"/policies/{version_id}", 303)

    return pages


def same_site(request: Request) -> None:
    """A form comes from our own page, or is refused: another site's has another origin."""
    origin = request.headers.get("origin")
    if origin is None or urlsplit(origin).netloc != request.headers.get("host"):
        raise ArenaError("This form came from another site.", 403)


def grid(results: Sequence[rating.Match], policies: Sequence[str]) -> list[dict[str, Any]]:
    """Row policy beside column policy: the row's mean score per cog, weighted by share, and a shade for it."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for match in results:
        cogs = sum(side.cogs for side in match)
        for side in match:
            for other in match:
                if other is not side:
                    cell = sums[side.policy, other.policy]
                    cell[0] += side.score * side.cogs / cogs
                    cell[1] += side.cogs / cogs
                    cell[2] += 1
    means = {pair: total / weight for pair, (total, weight, _) in sums.items()}
    low, high = min(means.values(), default=0.0), max(means.values(), default=1.0)
    rows = []
    for row in policies:
        cells = []
        for column in policies:
            mean = means.get((row, column))
            share = 0.0 if mean is None or high <= low else (mean - low) / (high - low)
            shade = min(SHADES - 1, math.floor(share * SHADES))
            cells.append({"other": column, "mean": mean, "count": int(sums[row, column][2]), "shade": shade})
        rows.append({"policy": row, "cells": cells})
    return rows


def _session(place: Place, name: str, password: str, token: str) -> str:
    """The secret of a browser's session: a new token of its own, so that logging out ends it alone."""
    if token.strip():
        caller = place.accounts.caller(token.strip())
        if caller is None:
            raise ArenaError("This token is unknown, revoked or expired.", 401)
        user, scope, days = place.accounts.user(caller.name), caller.scope, caller.days_left
    else:
        user, scope, days = place.accounts.by_password(name, password), "play", SESSION_DAYS
    return place.accounts.make_token(user, "browser", scope, min(days, SESSION_DAYS))


def _take(place: Place, caller: Caller, bundle: UploadFile, name: str, season: str | None) -> models.Uploaded:
    """A bundle from the form."""
    incoming = place.root / "incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=incoming, delete=False) as file:
        path, size = Path(file.name), 0
        try:
            while chunk := bundle.file.read(1 << 20):
                size += len(chunk)
                if size > place.quotas.bytes_each:
                    raise ArenaError(f"The bundle is larger than {place.quotas.bytes_each >> 20} MiB.", 413)
                file.write(chunk)
            file.close()
            if not size:
                raise ArenaError("Choose a bundle: a zip with policy_spec.json in it.")
            upload_id, key = place.policies.start_upload(caller)
            sha256 = hash_file(path)
            place.policies.receive(upload_id, key, size, sha256)
            place.shelf.put(f"bundles/{sha256}.zip", path)
        finally:
            path.unlink(missing_ok=True)
    return completed_upload(place, caller, models.UploadDone(upload_id=upload_id, name=name, season=season))


def _own_path(back: str) -> str:
    """A path of ours; anything else would lead away."""
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/me"


@lru_cache(maxsize=8)
def _unpacked(path: Path, _changed: int) -> bytes:
    return zlib.decompressobj().decompress(path.read_bytes(), MOST_REPLAY)


def _replay(path: Path) -> bytes:
    return _unpacked(path, path.stat().st_mtime_ns)
