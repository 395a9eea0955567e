"""A season as its YAML says it: the game, the pools that policies pass through, and how they are scored."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml

from rewardlab.arena.errors import ArenaError, missing

KINDS = ("self_play", "pairs", "freeplay", "teams")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MOST_COGS = 20


@dataclass(frozen=True)
class Pool:
    """Policies that play each other under one scheme."""

    kind: (
        str  # self_play: alone; pairs: all pairs share the cogs; freeplay: whoever tells most; teams: whole teams meet
    )
    description: str = ""
    matches: int = 2  # self_play: matches of a policy; freeplay: matches that each policy plays
    threshold: float | None = None  # self_play: the mean score from which on a policy is promoted
    promotes_to: str | None = None  # where policies go from here
    keep: int | None = None  # a culling stage: so many of the best go on, once entries are closed and all is played
    splits: tuple[tuple[int, int], ...] = ((1, 3), (3, 1), (2, 2))  # pairs: cogs of the one and of the other
    seeds: int = 5  # pairs, teams: each meeting is played on so many maps
    failures: int = 3  # failed matches after which a policy is out


@dataclass(frozen=True)
class Season:
    """A tournament: policies enter the entry pool; the leaderboard is of the leaderboard pool."""

    name: str
    summary: str = ""
    mission: str | Mapping[str, Any] = "cogsguard_arena.basic"  # a name, or what a mission file may say
    cogs: int = 4
    steps: int | None = None
    difficulty: str | None = None
    variants: tuple[str, ...] = ()
    seed: int = 0  # meeting k of every pair is played on map and dice of seed + k
    action_timeout_ms: float = 250.0  # of policies with code; the others answer at once
    max_outstanding: int = 5  # matches that wait or are played, at any time
    replays: str = "all"  # all, none
    entry_pool: str = "qualifying"
    leaderboard_pool: str = "competition"
    closes: str | None = None  # until when policies may be submitted, as 2026-12-24T18:00:00Z
    pools: Mapping[str, Pool] = field(default_factory=dict)

    @property
    def closes_at(self) -> float | None:
        """The end of submissions in seconds since 1970."""
        return None if self.closes is None else _moment(self.closes, "closes")


BETA = """
name: beta-cogsguard
summary: Hold junctions against the clips; all pairs of policies share a crew of four.
mission: cogsguard_arena.basic
cogs: 4
pools:
  qualifying:
    kind: self_play
    description: All cogs play one policy, two matches; a mean score of 0.1 leads into the competition.
    matches: 2
    threshold: 0.1
    promotes_to: competition
  competition:
    kind: pairs
    description: Each pair of policies on five maps, one cog against three, three against one, two against two.
    splits: [[1, 3], [3, 1], [2, 2]]
    seeds: 5
"""


def read_season(text: str, where: str = "The season") -> Season:
    """A season from YAML; whatever is wrong is said in one sentence."""
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ArenaError(f"{where} is no readable YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(said, dict):
        raise ArenaError(f"{where} holds no mapping of keys to values.")
    return season_of(said, where)


def season_of(said: Mapping[str, Any], where: str = "The season") -> Season:
    """A season from its keys and values, checked."""
    pools = said.get("pools")
    if not isinstance(pools, Mapping) or not pools:
        raise ArenaError(f"{where} needs pools: a mapping of names to what is played there.")
    made = {str(name): _fill(Pool, pool, f"{where}, pool {name}") for name, pool in pools.items()}
    if isinstance(closes := said.get("closes"), datetime):  # YAML reads a plain moment as one
        said = {**said, "closes": closes.isoformat()}
    season: Season = _fill(Season, {**said, "pools": made, "variants": said.get("variants") or ()}, where)
    _check(season, where)
    return season


def as_dict(season: Season) -> dict[str, Any]:
    """What `season_of` reads back to the same."""
    return dataclasses.asdict(season)


def _fill(cls: type, said: Any, where: str) -> Any:
    """A dataclass from a mapping: unknown keys and wrong kinds are errors."""
    if not isinstance(said, Mapping):
        raise ArenaError(f"{where} holds no mapping of keys to values.")
    known = {f.name: f for f in dataclasses.fields(cls)}
    for key, value in said.items():
        if key not in known:
            raise ArenaError(f"{where}: {missing('key', str(key), known)}")
        _kind(value, str(known[key].type), f"{where}: {key}")
    values = {key: _tuples(value) if isinstance(value, list | tuple) else value for key, value in said.items()}
    absent = [f.name for f in known.values() if f.name not in said and _required(f)]
    if absent:
        raise ArenaError(f"{where} does not say its {absent[0]}.")
    return cls(**values)


def _required(f: Any) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _kind(value: Any, annotation: str, where: str) -> None:
    optional = annotation.endswith("| None")
    plain = annotation.removesuffix("| None").strip()
    wanted: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,)}
    if value is None and optional:
        return
    if plain in wanted and (isinstance(value, bool) or not isinstance(value, wanted[plain])):
        raise ArenaError(f"{where} is {value!r}: {'a text' if plain == 'str' else 'a number'} is needed.")
    if plain.startswith("tuple") and not isinstance(value, list | tuple):
        raise ArenaError(f"{where} is {value!r}: a list is needed.")
    if plain.startswith("str | Mapping") and not isinstance(value, str | Mapping):
        raise ArenaError(f"{where} is {value!r}: a mission's name or a mapping is needed.")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _check(season: Season, where: str) -> None:
    """What cannot be played is an error now, not in the middle of the season."""
    if not NAME.fullmatch(season.name):
        raise ArenaError(f"{where}: the name {season.name!r} must be small letters, digits, '.', '_' or '-'.")
    for key in ("entry_pool", "leaderboard_pool"):
        if getattr(season, key) not in season.pools:
            raise ArenaError(f"{where}: {key}: {missing('pool', getattr(season, key), season.pools)}")
    if not 1 <= season.cogs <= MOST_COGS:
        raise ArenaError(f"{where}: cogs is {season.cogs}: 1 to {MOST_COGS} can play.")
    if season.replays not in ("all", "none"):
        raise ArenaError(f"{where}: replays is {season.replays!r}: there are all and none.")
    for key in ("max_outstanding", "action_timeout_ms", "steps"):
        if (value := getattr(season, key)) is not None and not value > 0:
            raise ArenaError(f"{where}: {key} is {value}: a number above 0 is needed.")
    if season.closes is not None:
        _moment(season.closes, f"{where}: closes")
    for name, pool in season.pools.items():
        _check_pool(season, name, pool, f"{where}, pool {name}")


def _check_pool(season: Season, name: str, pool: Pool, where: str) -> None:
    if not NAME.fullmatch(name):
        raise ArenaError(f"{where}: a pool's name must be small letters, digits, '.', '_' or '-'.")
    if pool.kind not in KINDS:
        raise ArenaError(f"{where}: {missing('kind of pool', pool.kind, KINDS)} There are {', '.join(KINDS)}.")
    if pool.promotes_to is not None and pool.promotes_to not in season.pools:
        raise ArenaError(f"{where}: promotes_to: {missing('pool', pool.promotes_to, season.pools)}")
    for key in ("matches", "seeds", "failures", "keep"):
        if (value := getattr(pool, key)) is not None and value < 1:
            raise ArenaError(f"{where}: {key} is {value}: at least 1 is needed.")
    if pool.keep is not None and pool.promotes_to is None:
        raise ArenaError(f"{where}: keep says how many go on, and promotes_to must say where.")
    if pool.kind == "teams" and season.cogs % 2:
        raise ArenaError(f"{where}: two teams cannot share {season.cogs} cogs evenly.")
    if pool.kind in ("pairs", "freeplay"):
        for split in pool.splits:
            if len(split) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in split):
                raise ArenaError(f"{where}: the split {list(split)} must be two numbers of cogs, such as [1, 3].")
            if sum(split) != season.cogs:
                raise ArenaError(f"{where}: the split {list(split)} is not of {season.cogs} cogs.")


def _moment(text: str, where: str) -> float:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise ArenaError(f"{where} is {text!r}, which is no moment such as 2026-12-24T18:00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
