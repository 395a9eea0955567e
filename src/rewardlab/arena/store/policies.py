"""Uploads and policy versions: in quarantine until they were seen to play."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.store.accounts import Caller, hash_of, note
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.tables import Job, Upload, User, Version

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
REFERENCE = re.compile(r"(?P<name>[^:]+)(?::v(?P<version>[1-9]\d{0,8}))?")
DAY = 86400.0


@dataclass(frozen=True)
class Quotas:
    """How much a user may upload."""

    bytes_each: int = 64 << 20
    per_day: int = 200
    versions: int = 2000
    bytes_all: int = 4 << 30


class Policies:
    """Everything about what was uploaded."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self.database, self.quotas = database, quotas

    def start_upload(self, caller: Caller) -> tuple[str, str]:
        """(id, key) of a place for a bundle's bytes, if the user may upload one more."""
        key = secrets.token_urlsafe(24)
        with self.database.write() as session:
            _take_turns(session, caller.user_id)
            since = time.time() - DAY
            mine = select(func.count()).select_from(Upload).where(Upload.user_id == caller.user_id)
            if (session.scalar(mine.where(Upload.created > since)) or 0) >= self.quotas.per_day:
                raise ArenaError(
                    f"You have uploaded {self.quotas.per_day} times in 24 hours: that is all for now.", 429
                )
            held = select(func.count()).select_from(Version).where(Version.user_id == caller.user_id)
            if (count := session.scalar(held) or 0) >= self.quotas.versions:
                raise ArenaError(f"You hold {count} versions: your quota is used up.", 429)
            self._check_room(session, caller.user_id, 1)
            upload = Upload(user_id=caller.user_id, key_hash=hash_of(key))
            session.add(upload)
            session.flush()
            return upload.id, key

    def expects(self, upload_id: str, key: str) -> None:
        """Whether bytes may come here; an upload without its key is not there."""
        with self.database.read() as session:
            _keyed(session, upload_id, key)

    def receive(self, upload_id: str, key: str, size: int, sha256: str) -> None:
        """The bytes of an upload are here; they come once, and count from now on."""
        with self.database.write() as session:
            owner = _keyed(session, upload_id, key).user_id
            _take_turns(session, owner)
            session.expire_all()
            upload = _keyed(session, upload_id, key)
            if upload.sha256 is not None:
                raise ArenaError("The bytes of this upload are here already: start another.", 409)
            self._check_room(session, owner, size)
            upload.size, upload.sha256 = size, sha256

    def _check_room(self, session: Session, user_id: str, size: int) -> None:
        """Whether so many more bytes fit into the user's share."""
        held = session.scalar(select(func.sum(Upload.size)).where(Upload.user_id == user_id)) or 0
        if held + size > self.quotas.bytes_all:
            raise ArenaError(f"You have sent {held} bytes in all: your quota is used up.", 429)

    def complete(self, upload_id: str, caller: Caller, name: str, season: str | None) -> Version:
        """A new version in quarantine; its validation is a job for a worker."""
        check_name(name)
        with self.database.write() as session:
            _take_turns(session, caller.user_id)
            upload = _own_upload(session, upload_id, caller)
            if upload.sha256 is None or upload.size is None:
                raise ArenaError("The bytes of this upload have not come.", 409)
            if upload.version_id is not None:
                raise ArenaError("This upload is complete already: start another.", 409)
            last = select(func.max(Version.version)).where(Version.user_id == caller.user_id, Version.name == name)
            number = (session.scalar(last) or 0) + 1
            version = Version(
                user_id=caller.user_id, name=name, version=number, sha256=upload.sha256, size=upload.size, season=season
            )
            session.add(version)
            session.flush()
            upload.version_id = version.id
            session.add(Job(kind="validation", subject=version.id, priority=_rank(session, caller.user_id)))
            note(session, caller.name, "policy.upload", f"{name}:v{number}", upload.sha256)
            return version

    def version(self, version_id: str) -> tuple[Version, User]:
        """A version and whose it is."""
        with self.database.read() as session:
            return of_id(session, version_id)

    def mine(self, caller: Caller, reference: str) -> Version:
        """The caller's version `NAME` (the latest accepted one) or `NAME:vN`."""
        match = REFERENCE.fullmatch(reference)
        if match is None:
            raise ArenaError(f"{reference!r} is not of the form NAME or NAME:vN.")
        with self.database.read() as session:
            query = select(Version).where(Version.user_id == caller.user_id, Version.name == match["name"])
            found = session.scalars(query.order_by(Version.version.desc())).all()
            if not found:
                own = select(Version.name).where(Version.user_id == caller.user_id).distinct()
                raise missing("policy of yours", match["name"], session.scalars(own).all())
        if match["version"] is None:
            return next((v for v in found if v.status == "accepted"), found[0])
        for version in found:
            if version.version == int(match["version"]):
                return version
        raise ArenaError(f"{match['name']} has no version v{match['version']}; the latest is v{found[0].version}.", 404)

    def find(
        self,
        user_id: str | None = None,
        name: str | None = None,
        number: int | None = None,
        most: int = 100,
        offset: int = 0,
    ) -> list[tuple[Version, User]]:
        """Versions, the newest first: a user's own, or everybody's accepted ones."""
        query = select(Version, User).join(User, User.id == Version.user_id)
        if user_id is not None:
            query = query.where(Version.user_id == user_id)
        else:
            query = query.where(Version.status == "accepted", Version.hidden.is_(False))
        if name is not None:
            query = query.where(Version.name == name)
        if number is not None:
            query = query.where(Version.version == number)
        query = query.order_by(Version.created.desc(), Version.id).limit(most).offset(offset)
        with self.database.read() as session:
            return [(version, user) for version, user in session.execute(query)]

    def hide(self, version_id: str, hidden: bool, actor: str) -> None:
        """Take a version from the pages, or show it again; what it played stays."""
        with self.database.write() as session:
            version, _ = of_id(session, version_id)
            version.hidden = hidden
            note(session, actor, "policy.hide" if hidden else "policy.show", version_id)


def of_id(session: Session, version_id: str, to_change: bool = False) -> tuple[Version, User]:
    """A version and whose it is; a 404 without one. Who changes it has it alone until the end."""
    query = select(Version, User).join(User, User.id == Version.user_id).where(Version.id == version_id)
    query = query.with_for_update(of=Version) if to_change else query
    found = session.execute(query).first()
    if found is None:
        raise missing("policy version", version_id)
    return found[0], found[1]


def check_name(name: str) -> None:
    """A policy's name is plain: it stands in pages, commands and files."""
    if not NAME.fullmatch(name):
        raise ArenaError(f"The policy name {name[:80]!r} must be letters, digits, '.', '_' or '-', 64 at most.")


def _rank(session: Session, user_id: str) -> float:
    """A person's first trial comes before all matches, for somebody waits; the next ones fall behind, for others do."""
    waiting = select(func.count()).select_from(Job).join(Version, Version.id == Job.subject)
    waiting = waiting.where(Version.user_id == user_id, Job.status.in_(("pending", "leased")))
    return (session.scalar(waiting) or 0) / 2 - 1


def _take_turns(session: Session, user_id: str) -> None:
    """One after another for each user: what is counted here must not change until it is used."""
    session.scalar(select(User.id).where(User.id == user_id).with_for_update())


def _keyed(session: Session, upload_id: str, key: str) -> Upload:
    upload = session.get(Upload, upload_id)
    if upload is None or not secrets.compare_digest(upload.key_hash, hash_of(key)):
        raise missing("upload", upload_id)
    return upload


def _own_upload(session: Session, upload_id: str, caller: Caller) -> Upload:
    upload = session.get(Upload, upload_id)
    if upload is None or upload.user_id != caller.user_id:
        raise missing("upload", upload_id)
    return upload
