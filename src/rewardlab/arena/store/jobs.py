"""Work that is done once: leased, kept alive, finished by who still holds the lease, given to another if it died."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, Update, func, or_, select, update
from sqlalchemy.orm import Session

from rewardlab.arena.store.database import Database
from rewardlab.arena.store.tables import Job, MatchRow, Membership, Version, new_id

MOST_ATTEMPTS = 3
MOST_LOG = 20_000


@dataclass(frozen=True)
class Lease:
    """A job in somebody's hands."""

    job_id: str
    secret: str
    kind: str
    subject: str
    attempt: int


class Jobs:
    """The queue in the database. Nothing but its transactions keeps workers apart."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def lease(self, worker: str, seconds: float) -> Lease | None:
        """The next job: one that waits, or one whose worker has not been heard of."""
        now = time.time()
        free = or_(Job.status == "pending", (Job.status == "leased") & (Job.until < now))
        query = select(Job).where(free).order_by(Job.priority, Job.created, Job.id).limit(1)
        with self.database.read() as session:
            if session.scalar(query) is None:
                return None  # looking costs no turn among the writers
        with self.database.write() as session:
            job = session.scalar(query.with_for_update(skip_locked=True))
            if job is None:
                return None
            if job.attempts >= MOST_ATTEMPTS:
                job.log = _joined(job.log, f"attempt {job.attempts}: {job.worker} was not heard of again")
                give_up(session, job)
                return None  # the next call looks further
            job.status, job.lease, job.until, job.worker = "leased", new_id(), now + seconds, worker[:64]
            if job.attempts:
                job.log = _joined(job.log, f"attempt {job.attempts} ended without a word; {worker} takes over")
            job.attempts += 1
            if job.kind == "match":
                session.execute(update(MatchRow).where(MatchRow.id == job.subject).values(status="running"))
            return Lease(job.id, job.lease, job.kind, job.subject, job.attempts)

    def keep(self, lease: Lease, seconds: float) -> bool:
        """Say that the work goes on; False if it was given to another."""
        with self.database.write() as session:
            held = update(Job).where(Job.id == lease.job_id, Job.lease == lease.secret, Job.status == "leased")
            return changed(session, held.values(until=time.time() + seconds))

    def fail(self, lease: Lease, log: str) -> None:
        """An attempt ended in an error: another one, or set aside with its log."""
        with self.database.write() as session:
            job = held_by(session, lease)
            if job is None:
                return
            job.log = _joined(job.log, f"attempt {job.attempts}: {log}")
            if job.attempts >= MOST_ATTEMPTS:
                give_up(session, job)
            else:
                job.status, job.lease, job.until = "pending", None, None
                if job.kind == "match":
                    session.execute(update(MatchRow).where(MatchRow.id == job.subject).values(status="pending"))

    def retry(self, subject: str) -> bool:
        """Give a match that was set aside three more attempts."""
        with self.database.write() as session:
            again = update(Job).where(Job.subject == subject, Job.status == "failed")
            found = changed(session, again.values(status="pending", attempts=0, lease=None, until=None))
            if found:
                session.execute(update(MatchRow).where(MatchRow.id == subject).values(status="pending"))
            return found

    def counts(self) -> dict[str, int]:
        """How many jobs there are in each state."""
        with self.database.read() as session:
            rows = session.execute(select(Job.status, func.count()).group_by(Job.status)).all()
            return {row[0]: row[1] for row in rows}

    def failed(self) -> Sequence[Job]:
        """Jobs that were set aside."""
        with self.database.read() as session:
            return session.scalars(select(Job).where(Job.status == "failed").order_by(Job.created)).all()


def held_by(session: Session, lease: Lease) -> Job | None:
    """The job of a lease that still holds; what is done under any other lease counts for nothing."""
    query = select(Job).where(Job.id == lease.job_id, Job.lease == lease.secret, Job.status == "leased")
    return session.scalar(query.with_for_update())


def changed(session: Session, statement: Update) -> bool:
    """Whether an update found anything to change."""
    return bool(cast("CursorResult[Any]", session.execute(statement)).rowcount)


def done(job: Job) -> None:
    """The work is done and its results are in this same transaction."""
    job.status, job.lease, job.until = "done", None, None


def give_up(session: Session, job: Job) -> None:
    """Set a job aside; its match has failed, its version stays out."""
    job.status, job.lease, job.until = "failed", None, None
    if job.kind == "match":
        values = {"status": "failed", "log": job.log, "finished": time.time()}
        session.execute(update(MatchRow).where(MatchRow.id == job.subject).values(**values))
    else:
        reason = f"It could not be tried in {job.attempts} attempts; the arena's admin has the log."
        session.execute(update(Version).where(Version.id == job.subject).values(status="refused", reason=reason))


def active_members(session: Session, season_id: str, pool: str) -> list[str]:
    """The versions that play in a pool now."""
    query = select(Membership.version_id).where(
        Membership.season_id == season_id, Membership.pool == pool, Membership.status == "active"
    )
    return list(session.scalars(query.order_by(Membership.created, Membership.id)))


def _joined(log: str, line: str) -> str:
    return (f"{log}\n{line}" if log else line)[-MOST_LOG:]
