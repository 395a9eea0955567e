"""The tables. Times are seconds since 1970, ids are random, JSON is JSON."""

from __future__ import annotations

import time
import uuid
from typing import Any

from sqlalchemy import JSON, Float, ForeignKey, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAME, ID, HASH = 64, 36, 64


def new_id() -> str:
    """An id that nobody can guess from another."""
    return str(uuid.uuid4())


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


def _key() -> Mapped[str]:
    return mapped_column(String(ID), primary_key=True, default=new_id)


def _to(table: str) -> Mapped[str]:
    return mapped_column(ForeignKey(f"{table}.id"), index=True)


def _created() -> Mapped[float]:
    return mapped_column(Float, default=time.time)


class User(Base):
    """Who may upload."""

    __tablename__ = "users"
    id: Mapped[str] = _key()
    name: Mapped[str] = mapped_column(String(NAME), unique=True)
    role: Mapped[str] = mapped_column(String(16), default="user")
    password_hash: Mapped[str | None] = mapped_column(String(255))
    disabled: Mapped[bool] = mapped_column(default=False)
    created: Mapped[float] = _created()


class Token(Base):
    """A secret that stands for a user; only its hash is here."""

    __tablename__ = "tokens"
    id: Mapped[str] = _key()
    user_id: Mapped[str] = _to("users")
    hash: Mapped[str] = mapped_column(String(HASH), unique=True)
    label: Mapped[str] = mapped_column(String(NAME), default="")
    scope: Mapped[str] = mapped_column(String(16), default="play")
    created: Mapped[float] = _created()
    expires: Mapped[float | None]
    revoked: Mapped[float | None]
    used: Mapped[float | None]


class DeviceCode(Base):
    """A login that waits for its person to confirm a short code in the browser."""

    __tablename__ = "device_codes"
    hash: Mapped[str] = mapped_column(String(HASH), primary_key=True)
    user_code: Mapped[str] = mapped_column(String(16), unique=True)
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    expires: Mapped[float]


class Audit(Base):
    """Who did what to what."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(Float, default=time.time, index=True)
    actor: Mapped[str] = mapped_column(String(NAME))
    action: Mapped[str] = mapped_column(String(NAME))
    subject: Mapped[str] = mapped_column(String(255))
    detail: Mapped[str] = mapped_column(Text, default="")


class Upload(Base):
    """A bundle on its way in: `size` and `sha256` once its bytes are here."""

    __tablename__ = "uploads"
    id: Mapped[str] = _key()
    user_id: Mapped[str] = _to("users")
    created: Mapped[float] = _created()
    key_hash: Mapped[str] = mapped_column(String(HASH))  # of the secret in the address that takes its bytes
    size: Mapped[int | None]
    sha256: Mapped[str | None] = mapped_column(String(HASH))
    version_id: Mapped[str | None] = mapped_column(ForeignKey("versions.id"))


class Version(Base):
    """A policy version: quarantine until it was seen to play, then accepted or refused."""

    __tablename__ = "versions"
    id: Mapped[str] = _key()
    user_id: Mapped[str] = _to("users")
    name: Mapped[str] = mapped_column(String(NAME), index=True)
    version: Mapped[int]
    sha256: Mapped[str] = mapped_column(String(HASH))
    size: Mapped[int]
    kind: Mapped[str | None] = mapped_column(String(16))  # weights, code: known once it was looked at
    status: Mapped[str] = mapped_column(String(16), default="quarantine")
    reason: Mapped[str] = mapped_column(Text, default="")
    season: Mapped[str | None] = mapped_column(String(NAME))  # entered there as soon as it is accepted
    hidden: Mapped[bool] = mapped_column(default=False)
    created: Mapped[float] = _created()
    __table_args__ = (UniqueConstraint("user_id", "name", "version"),)


class SeasonRow(Base):
    """A season, as its file said it."""

    __tablename__ = "seasons"
    id: Mapped[str] = _key()
    name: Mapped[str] = mapped_column(String(NAME), unique=True)
    spec: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16), default="open")  # open, closed to entries, finished
    hidden: Mapped[bool] = mapped_column(default=False)
    is_default: Mapped[bool] = mapped_column(default=False)
    created: Mapped[float] = _created()


class Membership(Base):
    """A policy version in a pool."""

    __tablename__ = "memberships"
    id: Mapped[str] = _key()
    season_id: Mapped[str] = _to("seasons")
    pool: Mapped[str] = mapped_column(String(NAME))
    version_id: Mapped[str] = _to("versions")
    status: Mapped[str] = mapped_column(String(16), default="active")  # active, promoted, retired, out
    created: Mapped[float] = _created()
    __table_args__ = (UniqueConstraint("season_id", "pool", "version_id"),)


class MatchRow(Base):
    """A match: its whole job, and what came of it."""

    __tablename__ = "matches"
    id: Mapped[str] = _key()
    season_id: Mapped[str] = _to("seasons")
    pool: Mapped[str] = mapped_column(String(NAME))
    key: Mapped[str] = mapped_column(String(255))
    number: Mapped[int]
    spec: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16), default="pending")  # pending, running, completed, failed
    created: Mapped[float] = _created()
    finished: Mapped[float | None]
    seconds: Mapped[float | None]
    result: Mapped[dict[str, Any] | None]
    log: Mapped[str] = mapped_column(Text, default="")
    replay: Mapped[str | None] = mapped_column(String(255))
    __table_args__ = (
        UniqueConstraint("season_id", "pool", "key"),
        Index("ix_matches_state", "season_id", "pool", "status"),
    )


class Player(Base):
    """One policy of a match."""

    __tablename__ = "players"
    match_id: Mapped[str] = mapped_column(ForeignKey("matches.id"), primary_key=True)
    seat: Mapped[int] = mapped_column(primary_key=True)
    version_id: Mapped[str] = _to("versions")
    cogs: Mapped[int]
    score: Mapped[float | None]
    faults: Mapped[dict[str, Any] | None]


class Job(Base):
    """Work that somebody must do once: a worker leases it, and only who still holds the lease may finish it."""

    __tablename__ = "jobs"
    id: Mapped[str] = _key()
    kind: Mapped[str] = mapped_column(String(16))  # match, validation
    subject: Mapped[str] = mapped_column(String(ID), unique=True)  # the match or the version
    priority: Mapped[float] = mapped_column(Float, default=0.0)  # the smallest first
    status: Mapped[str] = mapped_column(String(16), default="pending")  # pending, leased, done, failed
    attempts: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str] = mapped_column(String(NAME), default="")
    lease: Mapped[str | None] = mapped_column(String(ID))
    until: Mapped[float | None]
    created: Mapped[float] = _created()
    log: Mapped[str] = mapped_column(Text, default="")
    __table_args__ = (Index("ix_jobs_next", "status", "priority", "created"),)
