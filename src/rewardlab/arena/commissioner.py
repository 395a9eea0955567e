"""Who plays next, who is promoted, who is out: looks at a season and writes down the matches that it owes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rewardlab.arena import rating
from rewardlab.arena.schedule import Plan, plan
from rewardlab.arena.season import Pool, Season
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.jobs import active_members
from rewardlab.arena.store.seasons import Held, Seasons, completed, season_row
from rewardlab.arena.store.tables import Job, MatchRow, Membership, Player, SeasonRow, Version, new_id

Facts = tuple[bool, list[tuple[str, str, int]]]
WAITING = ("pending", "running")


def advance(database: Database, held: Held) -> int:
    """Bring a season as far as it goes without playing; how many matches were written down."""
    with database.write() as session:
        row = season_row(session, held.row.name)
        if not database.is_sqlite:  # two commissioners take turns, as SQLite's writers do anyway
            session.scalar(select(SeasonRow.id).where(SeasonRow.id == row.id).with_for_update())
        season, planned = held.season, 0
        for name, pool in season.pools.items():
            _move_on(session, held, name, pool)
        room = season.max_outstanding - _outstanding(session, row.id)
        for name, pool in season.pools.items():
            planned += _plan_pool(session, row.id, season, name, pool, room - planned)
        return planned


def advance_all(database: Database, idle: dict[str, Facts] | None = None) -> int:
    """All seasons that are not finished. `idle`: what they were when nothing was to be done; such ones rest."""
    idle, planned = {} if idle is None else idle, 0
    for held in Seasons(database).all(hidden=True):
        if held.row.status == "finished" or idle.get(held.row.id) == (facts := _facts(database, held)):
            continue
        idle[held.row.id] = facts
        planned += (count := advance(database, held))
        if count:
            del idle[held.row.id]
    return planned


def _facts(database: Database, held: Held) -> Facts:
    """All that a season's next step follows from, as numbers: members and matches of each pool by state."""
    members = select(Membership.pool, Membership.status, func.count()).where(Membership.season_id == held.row.id)
    matches = select(MatchRow.pool, MatchRow.status, func.count()).where(MatchRow.season_id == held.row.id)
    with database.read() as session:
        rows = [
            *session.execute(members.group_by(Membership.pool, Membership.status)),
            *session.execute(matches.group_by(MatchRow.pool, MatchRow.status)),
        ]
    return held.takes_entries, sorted((*row,) for row in rows)


def _outstanding(session: Session, season_id: str) -> int:
    query = select(MatchRow.id).where(MatchRow.season_id == season_id, MatchRow.status.in_(WAITING))
    return len(session.scalars(query).all())


def _plans(session: Session, season_id: str, pool: str) -> list[tuple[Plan, str]]:
    """All matches of a pool so far, with their states."""
    query = select(MatchRow.id, MatchRow.status, MatchRow.number, Player.version_id, Player.cogs).join(Player)
    query = query.where(MatchRow.season_id == season_id, MatchRow.pool == pool).order_by(MatchRow.id, Player.seat)
    found: dict[str, list[Any]] = {}
    for match_id, status, number, version, cogs in session.execute(query):
        entry = found.setdefault(match_id, [(), (), number, status])
        entry[0], entry[1] = (*entry[0], version), (*entry[1], cogs)
    return [(Plan(policies, cogs, number), status) for policies, cogs, number, status in found.values()]


def _plan_pool(session: Session, season_id: str, season: Season, name: str, pool: Pool, room: int) -> int:
    members = active_members(session, season_id, name)
    if room <= 0 or len(members) < (1 if pool.kind == "self_play" else 2):
        return 0
    so_far = [one for one, _ in _plans(session, season_id, name)]
    ratings = rating.rate(completed(session, season_id, name)) if pool.kind != "self_play" else {}
    chosen = plan(pool, season.cogs, members, so_far, rating.uncertainty(ratings, members), room)
    versions = {v.id: v for v in session.scalars(select(Version).where(Version.id.in_(members)))}
    for rank, one in enumerate(chosen):
        match_id = new_id()
        players = [_player(versions[policy]) for policy in one.policies]
        spec = {
            "mission": season.mission,
            "cogs": season.cogs,
            "steps": season.steps,
            "difficulty": season.difficulty,
            "variants": list(season.variants),
            "teams": pool.kind == "teams",
            "policies": players,
            "counts": list(one.cogs),
            "seed": season.seed + one.number,
            "timeout": season.action_timeout_ms / 1000,
            "replay": season.replays == "all",
        }
        fields = {"season_id": season_id, "pool": name, "key": one.key, "number": one.number, "spec": spec}
        session.add(MatchRow(id=match_id, **fields))
        session.flush()
        for seat, (policy, cogs) in enumerate(zip(one.policies, one.cogs, strict=True)):
            session.add(Player(match_id=match_id, seat=seat, version_id=policy, cogs=cogs))
        session.add(Job(kind="match", subject=match_id, priority=float(rank)))
    return len(chosen)


def _player(version: Version) -> dict[str, Any]:
    return {"id": version.id, "name": version.name, "version": version.version, "sha256": version.sha256}


def _move_on(session: Session, held: Held, name: str, pool: Pool) -> None:
    """Alone, out after too many failed matches, else promoted or retired; at the end of a stage the best go on."""
    active = active_members(session, held.row.id, name)
    if not active:
        return
    states: dict[str, Counter[str]] = {version: Counter() for version in active}
    for one, status in _plans(session, held.row.id, name):
        for version in one.policies:
            if version in states:
                states[version][status] += 1
    for version, count in states.items():
        if pool.kind == "self_play" and count["failed"] >= min(pool.failures, pool.matches):
            _set(session, held.row.id, name, version, "out")
    left = [member.version_id for member in _members(session, held.row.id, name) if member.status == "active"]
    scores = rating.weighted_scores(completed(session, held.row.id, name))
    if pool.kind == "self_play" and pool.threshold is not None:
        for version in left:
            if states[version]["completed"] + states[version]["failed"] >= pool.matches:
                _judge(session, held.row.id, name, pool, version, scores[version][0] >= pool.threshold)
    elif pool.keep is not None and not held.takes_entries and _played_out(session, held, name, pool, left):
        best = sorted(left, key=lambda v: (-scores[v][0] if v in scores else 0.0, v))[: pool.keep]
        for version in left:
            _judge(session, held.row.id, name, pool, version, version in best)


def _played_out(session: Session, held: Held, name: str, pool: Pool, active: list[str]) -> bool:
    """Whether a stage owes no further match, and nobody can come into it any more."""
    plans = _plans(session, held.row.id, name)
    if any(status in WAITING for _, status in plans):
        return False
    for other, source in held.season.pools.items():
        if source.promotes_to == name and active_members(session, held.row.id, other):
            return False
    return not plan(pool, held.season.cogs, active, [one for one, _ in plans], {}, 1)


def _judge(session: Session, season_id: str, name: str, pool: Pool, version: str, passes: bool) -> None:
    _set(session, season_id, name, version, "promoted" if passes else "retired")
    if passes and pool.promotes_to is not None:
        session.add(Membership(season_id=season_id, pool=pool.promotes_to, version_id=version))


def _set(session: Session, season_id: str, pool: str, version: str, status: str) -> None:
    member = next(member for member in _members(session, season_id, pool) if member.version_id == version)
    member.status = status


def _members(session: Session, season_id: str, pool: str) -> Sequence[Membership]:
    query = select(Membership).where(Membership.season_id == season_id, Membership.pool == pool)
    return session.scalars(query.order_by(Membership.created, Membership.id)).all()
