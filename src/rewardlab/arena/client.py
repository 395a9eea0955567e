"""What a person's program asks an arena: one method per question, answers as the API's own models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from rewardlab.arena import models
from rewardlab.arena.errors import ArenaError

API = "/api/v1"
T = TypeVar("T")


class Client:
    """A connection to one arena. `transport` replaces the network in tests."""

    def __init__(self, server: str, token: str | None = None, transport: httpx.BaseTransport | None = None) -> None:
        self.server = server.rstrip("/")
        headers = {"X-Auth-Token": token} if token else {}
        try:
            self._http = httpx.Client(base_url=self.server, headers=headers, timeout=60, transport=transport)
        except httpx.InvalidURL as error:
            raise ArenaError(
                f"{server!r} is no address of an arena, such as http://127.0.0.1:8000 ({error})."
            ) from error

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def me(self) -> models.Me:
        """Who the token belongs to."""
        return self._get("/whoami", models.Me)

    def login(self, show: Callable[[models.DeviceStarted], None], seconds: float) -> models.TokenMade:
        """A token, once the person has confirmed in the browser."""
        started = self._ask("POST", "/auth/device", models.DeviceStarted)
        show(started)
        deadline = time.monotonic() + min(seconds, started.expires_in)
        while time.monotonic() < deadline:
            try:
                return self._ask("POST", "/auth/device/token", models.TokenMade, {"device_code": started.device_code})
            except ArenaError as error:
                if error.status != 428:
                    raise
            time.sleep(started.interval)
        raise ArenaError(f"Nobody confirmed the code in {seconds:g} seconds: run the login again.", 408)

    def seasons(self) -> list[models.SeasonInfo]:
        """All seasons."""
        return self._get("/tournament/seasons", list[models.SeasonInfo])

    def season(self, name: str) -> models.SeasonInfo:
        """One season."""
        return self._get(f"/tournament/seasons/{_safe(name)}", models.SeasonInfo)

    def versions(self, name: str) -> list[models.SeasonVersion]:
        """Its versions."""
        return self._get(f"/tournament/seasons/{_safe(name)}/versions", list[models.SeasonVersion])

    def leaderboard(self, season: str) -> list[models.LeaderboardEntry]:
        """A season's leaderboard."""
        return self._get(f"/tournament/seasons/{_safe(season)}/leaderboard", list[models.LeaderboardEntry])

    def matches(self, season: str, policy: str | None, most: int) -> list[models.MatchInfo]:
        """A season's matches, the latest first."""
        query = {"limit": most} | ({"policy": policy} if policy else {})
        return self._get(f"/tournament/seasons/{_safe(season)}/matches", list[models.MatchInfo], query)

    def match(self, match_id: str) -> models.MatchDetail:
        """One match."""
        return self._get(f"/tournament/matches/{_safe(match_id)}", models.MatchDetail)

    def mine(self, name: str | None = None, version: int | None = None) -> list[models.PolicyVersion]:
        """The caller's own versions."""
        query: dict[str, Any] = {"mine": True, "limit": 500}
        query |= {"name_exact": name} if name else {}
        query |= {"version": version} if version else {}
        return self._get("/stats/policy-versions", models.PolicyVersions, query).entries

    def version(self, version_id: str) -> models.PolicyVersion:
        """One version."""
        return self._get(f"/stats/policy-versions/{_safe(version_id)}", models.PolicyVersion)

    def memberships(self) -> list[models.PoolMembership]:
        """The pools of the caller's versions."""
        return self._get("/tournament/my-memberships", list[models.PoolMembership])

    def upload(self, bundle: Path, name: str, season: str | None) -> models.Uploaded:
        """Send a bundle; the new version waits in quarantine."""
        started = self._ask("POST", "/stats/policies/submit/presigned-url", models.UploadStarted)
        with bundle.open("rb") as file:
            headers = {"Content-Length": str(bundle.stat().st_size), "Content-Type": "application/zip"}
            sent = self._send("PUT", started.upload_url, content=_chunks(file), headers=headers)
        _refuse(sent)
        body = {"upload_id": started.upload_id, "name": name, "season": season}
        return self._ask("POST", "/stats/policies/submit/complete", models.Uploaded, body)

    def submit(self, version_id: str, season: str) -> models.Submitted:
        """Enter a version into a season."""
        path = f"/tournament/seasons/{_safe(season)}/submissions"
        return self._ask("POST", path, models.Submitted, {"policy_version_id": version_id})

    def _get(self, path: str, kind: type[T], query: dict[str, Any] | None = None) -> T:
        return self._parsed(self._send("GET", API + path, params=query), kind)

    def _ask(self, method: str, path: str, kind: type[T], body: dict[str, Any] | None = None) -> T:
        return self._parsed(self._send(method, API + path, json=body or {}), kind)

    def _send(self, method: str, url: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, url, **options)
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise ArenaError(f"The arena at {self.server} does not answer: {why}.", 503) from error

    def _parsed(self, answer: httpx.Response, kind: type[T]) -> T:
        _refuse(answer)
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError as error:
            raise ArenaError(
                f"What answers at {self.server} is no arena that this program understands.", 502
            ) from error


def as_json(found: Any) -> Any:
    """Models as plain JSON."""
    if isinstance(found, list):
        return [as_json(one) for one in found]
    return found.model_dump() if isinstance(found, BaseModel) else found


def _refuse(answer: httpx.Response) -> None:
    if answer.is_success:
        return
    try:
        sentence = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = f"The arena answers {answer.status_code} {answer.reason_phrase}."
    raise ArenaError(sentence, answer.status_code)


def _safe(part: str) -> str:
    """A part of a path that stays one part."""
    from urllib.parse import quote

    return quote(part, safe="")


def _chunks(file: Any) -> Iterator[bytes]:
    while chunk := file.read(1 << 20):
        yield chunk
