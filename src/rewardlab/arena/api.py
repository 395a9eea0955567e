"""The JSON API: under /api/v1, and under the original's own paths."""

# No `from __future__ import annotations`: FastAPI reads annotations that name what is local to a function.

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from rewardlab.arena import models
from rewardlab.arena.boards import Boards
from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.place import Place
from rewardlab.arena.season import Season
from rewardlab.arena.store.accounts import Caller
from rewardlab.arena.store.seasons import Held
from rewardlab.arena.store.tables import User, Version

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.Told} for status in (400, 401, 403, 404, 405, 409, 410, 413, 422, 428, 429, 503)
}
COOKIE = "rewardlab_session"
POLL_SECONDS = 2.0
Count = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]
Text = Annotated[str | None, Query(max_length=200)]


def secret_of(request: Request, x_auth_token: str | None, authorization: str | None) -> str | None:
    """The token of a request: a header of the original's, a bearer, or a browser's cookie."""
    if x_auth_token:
        return x_auth_token
    if authorization and authorization.lower().startswith("bearer "):
        return authorization[7:].strip()
    return request.cookies.get(COOKIE)


def router(place: Place, boards: Boards) -> APIRouter:
    """All of its paths."""
    api = APIRouter(responses=ERRORS)

    def known(
        request: Request,
        x_auth_token: Annotated[str | None, Header()] = None,
        authorization: Annotated[str | None, Header()] = None,
    ) -> Caller | None:
        """Who asks; a token that is not valid is an error, none is nobody."""
        secret = secret_of(request, x_auth_token, authorization)
        if secret is None:
            return None
        caller = place.accounts.caller(secret)
        if caller is None:
            raise ArenaError("This token is unknown, revoked or expired: log in again.", 401)
        return caller

    def needs(scope: str) -> Callable[..., Caller]:
        def check(caller: Annotated[Caller | None, Depends(known)]) -> Caller:
            if caller is None:
                raise ArenaError("Log in first: this needs a token (X-Auth-Token).", 401)
            if not caller.may(scope):
                raise ArenaError(f"This token's scope is {caller.scope}; {scope} is needed.", 403)
            return caller

        return check

    reader, player = Depends(needs("read")), Depends(needs("play"))

    @api.get("/health")
    def health() -> dict[str, str]:
        """Whether the server and its database answer."""
        place.jobs.counts()
        return {"status": "ok"}

    @api.get("/whoami")
    def whoami(caller: Annotated[Caller, reader]) -> models.Me:
        """Who the token belongs to."""
        return models.Me(user=caller.name, role=caller.role, scope=caller.scope)

    @api.post("/auth/device")
    def start_device(request: Request) -> models.DeviceStarted:
        """Begin a login that a person confirms in the browser."""
        secret, code, seconds = place.accounts.start_device()
        url = f"{str(request.base_url).rstrip('/')}/device?code={code}"
        return models.DeviceStarted(
            device_code=secret, user_code=code, verification_url=url, interval=POLL_SECONDS, expires_in=seconds
        )

    @api.post("/auth/device/token")
    def finish_device(body: models.DeviceCode) -> models.TokenMade:
        """The token once the person has confirmed; 428 before."""
        user = place.accounts.finish_device(body.device_code)
        if user is None:
            raise ArenaError("Not confirmed yet.", 428)
        return models.TokenMade(token=place.accounts.make_token(user, "login"), user=user.name)

    @api.get("/tournament/seasons")
    def seasons() -> list[models.SeasonInfo]:
        """All seasons."""
        return [_season(held) for held in place.seasons.all()]

    @api.get("/tournament/seasons/{season}")
    def season(season: str) -> models.SeasonInfo:
        """One season."""
        return _season(place.seasons.get(season))

    @api.get("/tournament/seasons/{season}/versions")
    def season_versions(season: str) -> list[models.SeasonVersion]:
        """Its versions: one."""
        place.seasons.get(season)
        return [models.SeasonVersion(version=1, canonical=True)]

    @api.get("/tournament/seasons/{season}/leaderboard", response_model=list[models.LeaderboardEntry])
    async def leaderboard(season: str, include_hidden: bool = False) -> Response:
        """The policies of the leaderboard pool, the best first."""
        body = boards.fresh(season, include_hidden)
        if body is None:
            body = await run_in_threadpool(boards.body, season, include_hidden)
        return Response(body, media_type="application/json")

    @api.get("/tournament/seasons/{season}/policies")
    def season_policies(
        season: str,
        caller: Annotated[Caller | None, Depends(known)],
        mine: bool = False,
        include_hidden: bool = False,
    ) -> list[models.SeasonPolicy]:
        """Who is in a season."""
        if mine and caller is None:
            raise ArenaError("Log in first: yours are asked for.", 401)
        held = place.seasons.get(season)
        found: dict[str, tuple[Version, User]] = {}
        for version, user, _ in place.seasons.members(held.row.id):
            if (not mine or (caller and user.id == caller.user_id)) and (include_hidden or not version.hidden):
                found[version.id] = (version, user)
        pools: dict[str, list[models.PoolMembership]] = {}
        for member in place.seasons.memberships(list(found)):
            if member["season"] == season:
                pools.setdefault(member["version_id"], []).append(models.PoolMembership(**member))
        return [
            models.SeasonPolicy(policy=_ref(version), user=user.name, pools=pools.get(version.id, []))
            for version, user in found.values()
        ]

    @api.get("/tournament/seasons/{season}/matches")
    def season_matches(
        season: str, pool: Text = None, policy: Text = None, status: Text = None, limit: Count = 50, offset: Offset = 0
    ) -> list[models.MatchInfo]:
        """Its matches, the latest first."""
        held = place.seasons.get(season)
        rows = place.seasons.matches(held.row.id, policy, pool, status, limit, offset)
        return [models.MatchInfo(**row) for row in rows]

    @api.get("/tournament/seasons/{season}/progress")
    def season_progress(season: str) -> dict[str, dict[str, int]]:
        """Matches of each pool by state."""
        return place.seasons.progress(place.seasons.get(season).row.id)

    @api.post("/tournament/seasons/{season}/submissions")
    def submit(season: str, body: models.Submission, caller: Annotated[Caller, player]) -> models.Submitted:
        """Enter a version of the caller's own."""
        return models.Submitted(pools=place.seasons.submit(caller, body.policy_version_id, season))

    @api.get("/tournament/configs/{config_id}")
    def pool_config(config_id: str) -> dict[str, Any]:
        """How a pool is played."""
        name, _, pool = config_id.partition(":")
        season: Season = place.seasons.get(name).season
        if pool not in season.pools:
            raise missing("pool", pool, season.pools)
        return dataclasses.asdict(season.pools[pool]) | {"mission": season.mission, "cogs": season.cogs}

    @api.get("/tournament/my-memberships")
    def my_memberships(caller: Annotated[Caller, reader]) -> list[models.PoolMembership]:
        """The pools of all the caller's versions."""
        own = [version.id for version, _ in place.policies.find(caller.user_id, most=2000)]
        return [models.PoolMembership(**member) for member in place.seasons.memberships(own)]

    @api.get("/tournament/policies/{version_id}/memberships")
    def memberships(version_id: str, caller: Annotated[Caller | None, Depends(known)]) -> list[models.PoolMembership]:
        """The pools of a version."""
        seen_version(place, version_id, caller)
        return [models.PoolMembership(**member) for member in place.seasons.memberships([version_id])]

    @api.get("/tournament/matches/{match_id}")
    def match(match_id: str, caller: Annotated[Caller | None, Depends(known)]) -> models.MatchDetail:
        """A match; what its policies printed is for their owners."""
        return models.MatchDetail(**seen_match(place, match_id, caller))

    @api.get("/tournament/matches/{match_id}/replay", response_class=FileResponse)
    def replay(match_id: str) -> FileResponse:
        """The replay file of a match."""
        return FileResponse(replay_file(place, match_id), media_type="application/octet-stream")

    @api.get("/stats/policy-versions")
    def policy_versions(
        caller: Annotated[Caller | None, Depends(known)],
        mine: bool = False,
        name_exact: Text = None,
        version: Annotated[int | None, Query(ge=1, le=10**9)] = None,
        limit: Count = 100,
        offset: Offset = 0,
    ) -> models.PolicyVersions:
        """Versions, the newest first: the caller's own, or everybody's accepted ones."""
        if mine and caller is None:
            raise ArenaError("Log in first: yours are asked for.", 401)
        owner = caller.user_id if mine and caller else None
        rows = place.policies.find(owner, name_exact, version, limit, offset)
        return models.PolicyVersions(entries=[_version(*row, seen=mine) for row in rows])

    @api.get("/stats/policy-versions/{version_id}")
    def policy_version(version_id: str, caller: Annotated[Caller | None, Depends(known)]) -> models.PolicyVersion:
        """A version; one that is not accepted is there for its owner only."""
        version, user, own = seen_version(place, version_id, caller)
        return _version(version, user, seen=own)

    @api.post("/stats/policies/submit/presigned-url")
    def start_upload(request: Request, caller: Annotated[Caller, player]) -> models.UploadStarted:
        """A place for a bundle's bytes."""
        upload_id, key = place.policies.start_upload(caller)
        url = f"{str(request.base_url).rstrip('/')}/api/v1/stats/policies/submit/bytes/{upload_id}?key={key}"
        return models.UploadStarted(upload_url=url, upload_id=upload_id)

    @api.put("/stats/policies/submit/bytes/{upload_id}", status_code=204)
    async def take_bytes(upload_id: str, key: Annotated[str, Query(max_length=64)], request: Request) -> None:
        """The bytes themselves, counted as they come."""
        await run_in_threadpool(place.policies.expects, upload_id, key)
        incoming = place.root / "incoming"
        incoming.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=incoming, delete=False) as file:
            path = Path(file.name)
            try:
                size, sha256 = await _receive(request, file, place.quotas.bytes_each)
                file.close()
                await run_in_threadpool(place.policies.receive, upload_id, key, size, sha256)
                await run_in_threadpool(place.shelf.put, f"bundles/{sha256}.zip", path)
            finally:
                path.unlink(missing_ok=True)

    @api.post("/stats/policies/submit/complete")
    def complete(body: models.UploadDone, caller: Annotated[Caller, player]) -> models.Uploaded:
        """Make a version of what came; it is tried before anything else happens with it."""
        return completed_upload(place, caller, body)

    return api


def completed_upload(place: Place, caller: Caller, body: models.UploadDone) -> models.Uploaded:
    """A new version in quarantine, for a season that is there and open if one is named."""
    pools = None
    if body.season is not None:
        held = place.seasons.get(body.season)
        if not held.takes_entries:
            raise ArenaError(f"The season {body.season} is closed to entries.", 409)
        pools = [held.season.entry_pool]
    version = place.policies.complete(body.upload_id, caller, body.name, body.season)
    return models.Uploaded(
        id=version.id, name=version.name, version=version.version, status=version.status, pools=pools
    )


async def _receive(request: Request, file: Any, most: int) -> tuple[int, str]:
    """The body into a file: its size and hash. Too much of it ends at once."""
    told = request.headers.get("content-length", "")
    too_much = ArenaError(f"The bundle is larger than {most >> 20} MiB.", 413)
    if told.isdigit() and int(told) > most:
        raise too_much
    size, digest = 0, hashlib.sha256()
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise too_much
        digest.update(chunk)
        file.write(chunk)
    if size == 0:
        raise ArenaError("The bundle is empty.")
    return size, digest.hexdigest()


def seen_version(place: Place, version_id: str, caller: Caller | None) -> tuple[Version, User, bool]:
    """A version, whose it is, and whether the caller may see all of it; to others it is there once accepted."""
    version, user = place.policies.version(version_id)
    own = caller is not None and (caller.user_id == user.id or caller.role == "admin")
    if not own and (version.status != "accepted" or version.hidden):
        raise missing("policy version", version_id)
    return version, user, own


def seen_match(place: Place, match_id: str, caller: Caller | None) -> dict[str, Any]:
    """A match as the caller may see it."""
    found = place.seasons.match(match_id)
    if caller is not None and caller.role == "admin":
        return found
    played = caller is not None and caller.name in {p["user"] for p in found["players"]}
    told = played and found["status"] == "completed"  # the log of one that failed is the arena's own
    return found if told else {**found, "log": ""}


def replay_file(place: Place, match_id: str) -> Path:
    """The replay of a match; a 404 where there is none."""
    if not place.seasons.match(match_id)["has_replay"]:
        raise missing("replay of match", match_id)
    return place.shelf.get(f"replays/{match_id}.json.z")


def _season(held: Held) -> models.SeasonInfo:
    season = held.season
    return models.SeasonInfo(
        name=season.name,
        version=1,
        canonical=True,
        summary=season.summary,
        status="open" if held.takes_entries else "closed" if held.row.status == "open" else held.row.status,
        entry_pool=season.entry_pool,
        leaderboard_pool=season.leaderboard_pool,
        is_default=held.row.is_default,
        closes=season.closes,
        pools=[
            models.PoolInfo(name=name, description=pool.description, config_id=f"{season.name}:{name}")
            for name, pool in season.pools.items()
        ],
    )


def _ref(version: Version) -> models.PolicyRef:
    return models.PolicyRef(id=version.id, name=version.name, version=version.version)


def _version(version: Version, user: User, seen: bool) -> models.PolicyVersion:
    return models.PolicyVersion(
        id=version.id,
        name=version.name,
        version=version.version,
        user=user.name,
        status=version.status,
        kind=version.kind,
        reason=version.reason if seen else "",
        season=version.season if seen else None,
        size=version.size,
        created_at=version.created,
    )
