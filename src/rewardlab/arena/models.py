"""What the JSON API takes and gives; the client reads its answers through the same models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Unknown keys in what is sent are errors."""

    model_config = ConfigDict(extra="forbid")


class PolicyRef(Model):
    """A policy version by name."""

    id: str
    name: str
    version: int


class PoolInfo(Model):
    """A pool of a season."""

    name: str
    description: str
    config_id: str


class SeasonInfo(Model):
    """A season."""

    name: str
    version: int
    canonical: bool
    summary: str
    status: str
    entry_pool: str
    leaderboard_pool: str
    is_default: bool
    closes: str | None
    pools: list[PoolInfo]


class SeasonVersion(Model):
    """A version of a season; a season has one."""

    version: int
    canonical: bool


class LeaderboardEntry(Model):
    """A line of a leaderboard."""

    rank: int
    policy: PolicyRef
    user: str
    score: float
    score_error: float | None = Field(description="half the width of the 95 % interval; null after one match")
    matches: int
    rating: float
    rating_uncertainty: float
    value_over_replacement: float | None


class PoolMembership(Model):
    """A version in a pool."""

    season: str
    version_id: str
    pool_name: str
    status: str
    active: bool
    completed: int
    failed: int
    pending: int


class SeasonPolicy(Model):
    """A version in a season, with its pools."""

    policy: PolicyRef
    user: str
    pools: list[PoolMembership]


class PolicyVersion(Model):
    """An uploaded version."""

    id: str
    name: str
    version: int
    user: str
    status: str
    kind: str | None
    reason: str
    season: str | None
    size: int
    created_at: float


class PolicyVersions(Model):
    """A list of them."""

    entries: list[PolicyVersion]


class UploadStarted(Model):
    """Where the bytes go."""

    upload_url: str
    upload_id: str


class UploadDone(Model):
    """The bytes are here: make a version of them."""

    upload_id: str = Field(max_length=64)
    name: str = Field(max_length=200)
    season: str | None = Field(default=None, max_length=200)


class Uploaded(Model):
    """The new version; it waits in quarantine."""

    id: str
    name: str
    version: int
    status: str
    pools: list[str] | None = None


class Submission(Model):
    """Enter a version into a season."""

    policy_version_id: str = Field(max_length=64)


class Submitted(Model):
    """The pools that it is in."""

    pools: list[str]


class MatchPlayer(Model):
    """One side of a match."""

    policy: PolicyRef
    user: str
    cogs: int
    score: float | None
    faults: dict[str, Any] | None


class MatchInfo(Model):
    """A match."""

    id: str
    season: str
    pool: str
    status: str
    number: int
    created: float
    finished: float | None
    seconds: float | None
    has_replay: bool
    players: list[MatchPlayer]


class MatchDetail(MatchInfo):
    """A match with its whole job and figures; its log is for its players."""

    job: dict[str, Any]
    result: dict[str, Any] | None
    log: str


class DeviceStarted(Model):
    """A login to be confirmed in a browser."""

    device_code: str
    user_code: str
    verification_url: str
    interval: float
    expires_in: float


class DeviceCode(Model):
    """Which login is asked for."""

    device_code: str = Field(max_length=200)


class TokenMade(Model):
    """A new token, shown once."""

    token: str
    user: str


class Me(Model):
    """Who the token belongs to."""

    user: str
    role: str
    scope: str


class Told(Model):
    """An error in a sentence."""

    detail: str
