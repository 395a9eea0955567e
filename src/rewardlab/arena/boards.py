"""Leaderboards as they are asked for: computed when something was played, and not more often than is cheap."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

from rewardlab.arena import rating
from rewardlab.arena.models import LeaderboardEntry, PolicyRef
from rewardlab.arena.store.seasons import Held, Seasons

FRESH = 1.0  # seconds
COST = 10.0  # an answer is kept ten times as long as it took


@dataclass
class _Kept:
    until: float
    stamp: tuple[int, int]
    entries: list[LeaderboardEntry]
    body: bytes


class Boards:
    """The leaderboards of all seasons, kept for a moment."""

    def __init__(self, seasons: Seasons) -> None:
        self.seasons = seasons
        self._kept: dict[tuple[str, bool], _Kept] = {}
        self._lock = threading.Lock()

    def fresh(self, season: str, hidden: bool = False) -> bytes | None:
        """The JSON of a leaderboard if it is new enough; for the path that is asked most."""
        kept = self._kept.get((season, hidden))
        return kept.body if kept is not None and time.monotonic() < kept.until else None

    def entries(self, season: str, hidden: bool = False) -> list[LeaderboardEntry]:
        """The lines of a leaderboard."""
        return self._get(season, hidden).entries

    def body(self, season: str, hidden: bool = False) -> bytes:
        """The same as JSON."""
        return self._get(season, hidden).body

    def _get(self, season: str, hidden: bool) -> _Kept:
        with self._lock:  # many ask at once: one computes
            key, now = (season, hidden), time.monotonic()
            kept = self._kept.get(key)
            if kept is not None and now < kept.until:
                return kept
            held = self.seasons.get(season)
            stamp = self.seasons.stamp(held.row.id)
            if kept is None or kept.stamp != stamp:
                entries = self._compute(held, hidden)
                kept = _Kept(0.0, stamp, entries, _json(entries))
                self._kept[key] = kept
            kept.until = time.monotonic() + max(FRESH, COST * (time.monotonic() - now))
            return kept

    def _compute(self, held: Held, hidden: bool) -> list[LeaderboardEntry]:
        pool = held.season.leaderboard_pool
        known = {v.id: (v, user) for v, user, _ in self.seasons.members(held.row.id)}
        found: list[LeaderboardEntry] = []
        for line in rating.leaderboard(self.seasons.results(held.row.id, pool)):
            version, user = known[line.policy]
            if version.hidden and not hidden:
                continue
            found.append(
                LeaderboardEntry(
                    rank=len(found) + 1,
                    policy=PolicyRef(id=version.id, name=version.name, version=version.version),
                    user=user.name,
                    score=line.score,
                    score_error=line.error if math.isfinite(line.error) else None,
                    matches=line.matches,
                    rating=line.rating,
                    rating_uncertainty=line.uncertainty,
                    value_over_replacement=line.value,
                )
            )
        return found


def _json(entries: list[LeaderboardEntry]) -> bytes:
    return b"[" + b",".join(entry.model_dump_json().encode() for entry in entries) + b"]"


def pool_table(held: Held, seasons: Seasons) -> dict[str, Any]:
    """Each pool of a season with its members and its matches by state."""
    progress = seasons.progress(held.row.id)
    members: dict[str, dict[str, int]] = {}
    for _, _, member in seasons.members(held.row.id):
        states = members.setdefault(member.pool, {})
        states[member.status] = states.get(member.status, 0) + 1
    return {
        name: {"pool": pool, "members": members.get(name, {}), "matches": progress.get(name, {})}
        for name, pool in held.season.pools.items()
    }
