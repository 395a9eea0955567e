"""Seasons, who plays in them, their matches and what came of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.rating import Match, Side
from rewardlab.arena.season import Season, as_dict, season_of
from rewardlab.arena.store.accounts import Caller, note
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.jobs import Lease, done, held_by
from rewardlab.arena.store.policies import of_id
from rewardlab.arena.store.tables import MatchRow, Membership, Player, SeasonRow, User, Version

PlayerRow = tuple[Player, str, int, str]  # with the policy's name and version, and its user


@dataclass(frozen=True)
class Outcome:
    """What a worker says of a finished match."""

    scores: tuple[float, ...]  # per policy, mean reward per cog
    faults: tuple[dict[str, Any], ...]
    steps: int
    seconds: float
    statistics: dict[str, Any]
    log: str = ""
    replay: str | None = None


@dataclass(frozen=True)
class Held:
    """A season as it is stored, and as its file said it."""

    row: SeasonRow
    season: Season

    @property
    def takes_entries(self) -> bool:
        """Whether policies may still be submitted."""
        closes = self.season.closes_at
        return self.row.status == "open" and (closes is None or time.time() < closes)


class Seasons:
    """Everything about tournaments."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, season: Season, default: bool = False, actor: str = "admin") -> None:
        """A new season."""
        with self.database.write() as session:
            if session.scalar(select(SeasonRow).where(SeasonRow.name == season.name)):
                raise ArenaError(f"There is a season {season.name!r} already.", 409)
            session.add(SeasonRow(name=season.name, spec=as_dict(season), is_default=default))
            note(session, actor, "season.add", season.name)

    def all(self, hidden: bool = False) -> list[Held]:
        """All seasons, the default one first."""
        query = select(SeasonRow).order_by(SeasonRow.is_default.desc(), SeasonRow.created)
        with self.database.read() as session:
            rows = session.scalars(query if hidden else query.where(SeasonRow.hidden.is_(False))).all()
        return [_held(row) for row in rows]

    def get(self, name: str) -> Held:
        """A season by name."""
        with self.database.read() as session:
            return _held(season_row(session, name))

    def set_state(self, name: str, status: str | None = None, hidden: bool | None = None, actor: str = "admin") -> None:
        """Open or close a season to entries, finish it, hide or show it."""
        with self.database.write() as session:
            row = season_row(session, name)
            row.status = status or row.status
            row.hidden = row.hidden if hidden is None else hidden
            note(session, actor, "season.state", name, f"{row.status}{', hidden' if row.hidden else ''}")

    def submit(self, caller: Caller, version_id: str, name: str) -> list[str]:
        """Enter a version of the caller's own; the pools that it is in. In quarantine it enters once accepted."""
        with self.database.write() as session:
            held = _held(season_row(session, name))
            version, _ = of_id(session, version_id, to_change=True)
            if version.user_id != caller.user_id:
                raise missing("policy version of yours", version_id)
            check_open(held)
            if version.status == "refused":
                raise ArenaError(f"{version.name}:v{version.version} was refused: {version.reason}", 409)
            if version.status == "quarantine":
                if version.season is not None:
                    raise ArenaError(f"{version.name}:v{version.version} already waits to enter {version.season}.", 409)
                version.season = name
            else:
                enter(session, held, version)
            note(session, caller.name, "season.submit", name, version_id)
            return [held.season.entry_pool]

    def memberships(self, version_ids: Sequence[str]) -> list[dict[str, Any]]:
        """The pools of some versions, with how many of their matches are in which state."""
        with self.database.read() as session:
            query = select(Membership, SeasonRow.name).join(SeasonRow).where(Membership.version_id.in_(version_ids))
            rows = session.execute(query.order_by(Membership.created)).all()
            counts = (
                select(MatchRow.season_id, MatchRow.pool, Player.version_id, MatchRow.status, func.count())
                .join(Player, Player.match_id == MatchRow.id)
                .where(Player.version_id.in_(version_ids))
                .group_by(MatchRow.season_id, MatchRow.pool, Player.version_id, MatchRow.status)
            )
            states: dict[tuple[str, str, str], dict[str, int]] = {}
            for season_id, pool, version_id, status, count in session.execute(counts):
                states.setdefault((season_id, pool, version_id), {})[status] = count
        found = []
        for member, season in rows:
            state = states.get((member.season_id, member.pool, member.version_id), {})
            entry: dict[str, Any] = {"season": season, "version_id": member.version_id, "pool_name": member.pool}
            entry |= {"status": member.status, "active": member.status == "active"}
            entry |= {"completed": state.get("completed", 0), "failed": state.get("failed", 0)}
            found.append({**entry, "pending": state.get("pending", 0) + state.get("running", 0)})
        return found

    def members(self, season_id: str, pool: str | None = None) -> list[tuple[Version, User, Membership]]:
        """Who is in a season's pool, or in any of them."""
        query = select(Version, User, Membership).join(User, User.id == Version.user_id)
        query = query.join(Membership, Membership.version_id == Version.id).where(Membership.season_id == season_id)
        if pool is not None:
            query = query.where(Membership.pool == pool)
        with self.database.read() as session:
            return [(v, u, m) for v, u, m in session.execute(query.order_by(Membership.created))]

    def results(self, season_id: str, pool: str) -> list[Match]:
        """All completed matches of a pool, in the order in which they were planned."""
        with self.database.read() as session:
            return completed(session, season_id, pool)

    def stamp(self, season_id: str) -> tuple[int, int]:
        """How many matches are completed and how many policies hidden: a leaderboard is as old as these numbers."""
        played = select(func.count()).where(MatchRow.season_id == season_id, MatchRow.status == "completed")
        hidden = select(func.count(Version.id.distinct())).join(Membership, Membership.version_id == Version.id)
        hidden = hidden.where(Membership.season_id == season_id, Version.hidden)
        with self.database.read() as session:
            return session.scalar(played) or 0, session.scalar(hidden) or 0

    def progress(self, season_id: str) -> dict[str, dict[str, int]]:
        """Matches of each pool by state."""
        query = select(MatchRow.pool, MatchRow.status, func.count()).where(MatchRow.season_id == season_id)
        found: dict[str, dict[str, int]] = {}
        with self.database.read() as session:
            for pool, status, count in session.execute(query.group_by(MatchRow.pool, MatchRow.status)):
                found.setdefault(pool, {})[status] = count
        return found

    def matches(
        self,
        season_id: str | None = None,
        version_id: str | None = None,
        pool: str | None = None,
        status: str | None = None,
        most: int = 50,
        offset: int = 0,
    ) -> list[dict[str, Any]]:
        """Matches, the latest first, with their players."""
        query = select(MatchRow, SeasonRow.name).join(SeasonRow)
        if season_id is not None:
            query = query.where(MatchRow.season_id == season_id)
        if pool is not None:
            query = query.where(MatchRow.pool == pool)
        if status is not None:
            query = query.where(MatchRow.status == status)
        if version_id is not None:
            query = query.where(MatchRow.id.in_(select(Player.match_id).where(Player.version_id == version_id)))
        query = query.order_by(func.coalesce(MatchRow.finished, MatchRow.created).desc(), MatchRow.id)
        with self.database.read() as session:
            rows = session.execute(query.limit(most).offset(offset)).all()
            players = _players(session, [match.id for match, _ in rows])
        return [_match(match, season, players.get(match.id, [])) for match, season in rows]

    def match(self, match_id: str) -> dict[str, Any]:
        """One match with its job, its figures and its log."""
        with self.database.read() as session:
            found = session.execute(
                select(MatchRow, SeasonRow.name).join(SeasonRow).where(MatchRow.id == match_id)
            ).first()
            if found is None:
                raise missing("match", match_id)
            match, season = found
            entry = _match(match, season, _players(session, [match.id]).get(match.id, []))
        return {**entry, "job": match.spec, "result": match.result, "log": match.log}

    def record(self, lease: Lease, outcome: Outcome) -> bool:
        """Keep a match's outcome, in one transaction with the end of its job; False if the lease has been lost."""
        with self.database.write() as session:
            job = held_by(session, lease)
            if job is None:
                return False
            match = session.get_one(MatchRow, lease.subject)
            match.status, match.finished, match.seconds = "completed", time.time(), outcome.seconds
            match.result = {"steps": outcome.steps, "statistics": outcome.statistics}
            match.log, match.replay = outcome.log, outcome.replay
            for player in session.scalars(select(Player).where(Player.match_id == match.id)):
                player.score, player.faults = outcome.scores[player.seat], outcome.faults[player.seat]
            done(job)
            return True

    def record_validation(self, lease: Lease, kind: str | None, reason: str) -> bool:
        """A version was seen to play (no reason against it), or is refused; False if the lease has been lost."""
        with self.database.write() as session:
            job = held_by(session, lease)
            if job is None:
                return False
            version, user = of_id(session, lease.subject, to_change=True)
            version.kind, version.reason = kind, reason
            version.status = "refused" if reason else "accepted"
            note(session, "arena", f"policy.{version.status}", f"{user.name}/{version.name}:v{version.version}", reason)
            if version.status == "accepted" and version.season is not None:
                held = _held(season_row(session, version.season))
                if held.takes_entries:
                    enter(session, held, version)
                else:
                    version.reason = f"Accepted, but the season {version.season} had closed before."
            done(job)
            return True


def season_row(session: Session, name: str) -> SeasonRow:
    """A season by name; a 404 that names the nearest without one."""
    row = session.scalar(select(SeasonRow).where(SeasonRow.name == name))
    if row is None:
        raise missing("season", name, session.scalars(select(SeasonRow.name)).all())
    return row


def check_open(held: Held) -> None:
    """A season that takes no entries says so."""
    if not held.takes_entries:
        raise ArenaError(f"The season {held.row.name} is closed to entries.", 409)


def enter(session: Session, held: Held, version: Version) -> None:
    """Put an accepted version into the entry pool."""
    season, pool = held.row, held.season.entry_pool
    query = select(Membership).where(Membership.season_id == season.id, Membership.version_id == version.id)
    if session.scalar(query.limit(1)) is not None:
        raise ArenaError(f"{version.name}:v{version.version} is in the season {season.name} already.", 409)
    session.add(Membership(season_id=season.id, pool=pool, version_id=version.id))


def completed(session: Session, season_id: str, pool: str) -> list[Match]:
    """The completed matches of a pool in an order that does not depend on which worker was faster."""
    query = select(Player.match_id, Player.version_id, Player.cogs, Player.score).join(MatchRow)
    query = query.where(MatchRow.season_id == season_id, MatchRow.pool == pool, MatchRow.status == "completed")
    query = query.order_by(MatchRow.number, MatchRow.key, Player.seat)
    matches: dict[str, list[Side]] = {}
    for match_id, version_id, cogs, score in session.execute(query):
        matches.setdefault(match_id, []).append(Side(version_id, cogs, float(score or 0.0)))
    return list(matches.values())


def _held(row: SeasonRow) -> Held:
    return Held(row, season_of(row.spec))


def _players(session: Session, match_ids: Sequence[str]) -> dict[str, list[PlayerRow]]:
    query = select(Player, Version.name, Version.version, User.name).join(Version, Version.id == Player.version_id)
    query = query.join(User, User.id == Version.user_id).where(Player.match_id.in_(match_ids)).order_by(Player.seat)
    found: dict[str, list[PlayerRow]] = {}
    for player, name, version, user in session.execute(query):
        found.setdefault(player.match_id, []).append((player, name, version, user))
    return found


def _match(match: MatchRow, season: str, players: Sequence[PlayerRow]) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": match.id, "season": season, "pool": match.pool, "status": match.status}
    entry |= {"number": match.number, "created": match.created, "finished": match.finished, "seconds": match.seconds}
    entry["has_replay"] = match.replay is not None
    entry["players"] = [
        {
            "policy": {"id": player.version_id, "name": name, "version": version},
            "user": user,
            "cogs": player.cogs,
            "score": player.score,
            "faults": player.faults,
        }
        for player, name, version, user in players
    ]
    return entry
