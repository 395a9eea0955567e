"""From a match's job to its outcome: the policies take their seats, the engine referees. Same job, same outcome."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.arena import sandbox
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.match.bundles import CODE, Looked, look, own_class, unpack
from rewardlab.arena.match.strangers import StrangersPolicy
from rewardlab.arena.sandbox import Limits
from rewardlab.arena.season import Season
from rewardlab.arena.store.seasons import Outcome
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.evaluate import episode
from rewardlab.cogs.evaluate.episode import Cast
from rewardlab.cogs.evaluate.seats import Seat, assign, told
from rewardlab.cogs.evaluate.summary import policy_rewards
from rewardlab.cogs.missions import Mission, make_mission, mission_of
from rewardlab.cogs.policies.api import AgentPolicy, MultiAgentPolicy, PolicyEnvInterface
from rewardlab.cogs.policies.make import make_policy
from rewardlab.cogs.policies.simple import NoopPolicy
from rewardlab.cogs.policies.spec import PolicyRequest
from rewardlab.cogs.policies.vector import VectorMultiAgentPolicy

Fetch = Callable[[str], Path]  # the zip of a bundle by its hash
TRIAL_STEPS, TRIAL_COGS = 10, 2
MOST_UNPACKED = 100  # bundles
TEAMS = ("reds", "blues")


@dataclass(frozen=True)
class Table:
    """Where matches are played: how bundles are fetched, where they are unpacked, what strangers may use."""

    fetch: Fetch
    unpacked: Path
    limits: Limits = field(default_factory=Limits)
    takes_code: bool = True
    own_code: bool = False  # it is the player's own code on the player's own machine: no sandbox is needed

    def bundle(self, sha256: str) -> Looked:
        """A bundle by its hash, unpacked once; the ones that have not been used for longest make room."""
        folder = self.unpacked / sha256
        if not folder.exists() and self.unpacked.is_dir():
            held = sorted(self.unpacked.iterdir(), key=lambda place: place.stat().st_mtime)
            for old in held[: max(0, len(held) - MOST_UNPACKED)]:
                shutil.rmtree(old, ignore_errors=True)
        unpack(self.fetch(sha256), folder)
        os.utime(folder)
        return look(folder)


MISSION_KEYS = ("mission", "cogs", "steps", "difficulty", "variants", "teams")


def mission_from(spec: Mapping[str, Any]) -> Mission:
    """The mission of a job. Missions are made once, so that their programs are compiled once."""
    return _mission(json.dumps({key: spec.get(key) for key in MISSION_KEYS}, sort_keys=True))


@lru_cache(maxsize=32)
def _mission(text: str) -> Mission:
    spec = json.loads(text)
    said = {"base": spec["mission"]} if isinstance(spec["mission"], str) else spec["mission"]
    said = {"name": str(said.get("base", "basic")).rpartition(".")[2], **said}
    if str(said.get("base", "")).endswith((".yaml", ".yml", ".json")):
        raise ArenaError("A season names a mission or writes it out: a file is not there when it is played.")
    if spec["teams"]:
        said = {**said, "teams": [{"name": name, "size": spec["cogs"] // 2} for name in TEAMS]}
    mission = mission_of(said, Path("season"))
    if spec["difficulty"] is not None:
        mission = mission.with_difficulty(spec["difficulty"])
    mission = mission.with_variants(spec["variants"] or ())
    mission = mission if spec["teams"] else mission.with_cogs(spec["cogs"])
    return mission if spec["steps"] is None else mission.with_steps(spec["steps"])


def check_season(season: Season) -> None:
    """A season's mission must be there and have a seat for everybody; said before anybody plays it."""
    for pool in season.pools.values():
        spec = {"mission": season.mission, "cogs": season.cogs, "steps": season.steps, "teams": pool.kind == "teams"}
        try:
            mission = mission_from({**spec, "difficulty": season.difficulty, "variants": season.variants})
            mission.map(season.seed)
        except CogsError as error:
            raise ArenaError(f"The season {season.name} cannot be played: {error}") from error
        if mission.rules.num_agents != season.cogs:
            raise ArenaError(f"The mission of {season.name} has {mission.rules.num_agents} cogs, not {season.cogs}.")


def agents_of(spec: Mapping[str, Any], mission: Mission) -> list[list[int]]:
    """Which agents each policy plays: a team each, or its number of cogs, drawn by the seed."""
    if spec.get("teams"):
        team_of = np.array(mission.rules.team_of)
        return [np.flatnonzero(team_of == team).tolist() for team in range(len(spec["counts"]))]
    return assign(spec["counts"], 0, spec["seed"])


def play_match(spec: Mapping[str, Any], table: Table, replays: Path | None = None) -> Outcome:
    """Play a match to its end."""
    start, mission = time.perf_counter(), mission_from(spec)
    agents = agents_of(spec, mission)
    info = PolicyEnvInterface.from_rules(mission.rules)
    seats: list[Seat | None] = []
    strangers: list[tuple[str, StrangersPolicy]] = []
    try:
        for player, own in zip(spec["policies"], agents, strict=True):
            policy = _seated(table.bundle(player["sha256"]), info, table, spec["timeout"])
            name, timeout = f"{player['name']}:v{player['version']}", None
            if isinstance(policy, StrangersPolicy):
                strangers.append((name, policy))
                timeout = spec["timeout"]
            seats.append(Seat(policy, tuple(own), name, timeout))
        job = episode.Job(
            mission,
            tuple(player["name"] for player in spec["policies"]),
            tuple(map(tuple, agents)),
            spec["seed"],
            spec["seed"],
            replays=replays if spec.get("replay") else None,
        )
        result = episode.play_cast(job, Cast(mission.rules.num_agents, seats))
    finally:
        for _, stranger in strangers:
            stranger.close()
    faults = tuple(
        {"timeouts": f.timeouts, "errors": f.errors, "nonsense": f.nonsense, "first": f.first} for f in result.faults
    )
    scores = tuple(policy_rewards(result, i) for i in range(len(agents)))
    log = "\n".join(f"{name}:\n{stranger.sandbox.log}" for name, stranger in strangers if stranger.sandbox.log)
    statistics = {"team": result.team_stats, "game": result.game_stats}
    replay = result.replay.name if result.replay is not None else None
    return Outcome(scores, faults, result.steps, time.perf_counter() - start, statistics, log, replay)


def _seated(looked: Looked, info: PolicyEnvInterface, table: Table, timeout: float) -> MultiAgentPolicy:
    """A policy in a match: one that cannot be made any more rests, which is its own fault and not the others'."""
    try:
        return seat_policy(looked, info, table, timeout)
    except CogsError as error:
        return Absent(info, str(error))


class Absent(MultiAgentPolicy):
    """In the seat of a policy that could not be made: every step is an error, which is a noop."""

    def __init__(self, info: PolicyEnvInterface, reason: str) -> None:
        super().__init__(info)
        self._reason = reason

    def step_batch(self, raw_observations: Any, raw_actions: Any) -> None:
        """The reason."""
        raise CogsError(self._reason)

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """The reason."""
        raise CogsError(self._reason)


def seat_policy(looked: Looked, info: PolicyEnvInterface, table: Table, timeout: float) -> MultiAgentPolicy:
    """A policy ready to play; a stranger's code sits in a sandbox."""
    spec = looked.bundle.spec
    if looked.kind == CODE:
        if not table.takes_code:
            raise ArenaError("This worker plays no bundles with code: " + "; ".join(sandbox.problems()) + ".")
        if table.own_code:
            return make_policy(PolicyRequest(spec.class_path, spec, bundle=looked.bundle), info)
        return StrangersPolicy(info, looked.bundle.root, table.limits, timeout)
    cls = own_class(spec.class_path)
    assert cls is not None
    if issubclass(cls, VectorMultiAgentPolicy):
        cls = cls.twin  # the same decisions without a program to compile for each set of arguments
    try:
        policy = cls(info, **dict(spec.init_kwargs))
        if spec.data_path is not None:
            policy.load_policy_data(spec.data_path)
    except CogsError:
        raise
    except Exception as error:  # of arguments and weights that a stranger wrote
        raise CogsError(f"The policy {spec.class_path} cannot be made: {told(error)}.") from error
    return policy


def try_policy(sha256: str, table: Table, timeout: float = 1.0) -> tuple[str | None, str]:
    """(kind, why it is refused or nothing): it must load, and act for ten steps beside cogs that rest."""
    kind = None
    try:
        looked = table.bundle(sha256)
        kind = looked.kind
        if kind == CODE and not table.takes_code:
            raise ArenaError("This arena takes no bundles with code: " + "; ".join(sandbox.problems()) + ".")
        return kind, _trial(looked, table, timeout)
    except (ArenaError, CogsError) as error:
        return kind, str(error).replace(f"{table.unpacked / sha256}/", "")  # our folders are nobody's business


def _trial(looked: Looked, table: Table, timeout: float) -> str:
    mission = make_mission("cogsguard_arena.basic", cogs=2 * TRIAL_COGS, steps=TRIAL_STEPS)
    info = PolicyEnvInterface.from_rules(mission.rules)
    policy = seat_policy(looked, info, table, timeout)
    own, others = tuple(range(TRIAL_COGS)), tuple(range(TRIAL_COGS, 2 * TRIAL_COGS))
    try:
        seats = [Seat(policy, own, "candidate", timeout), Seat(NoopPolicy(info), others, "noop")]
        job = episode.Job(mission, ("candidate", "noop"), (own, others), 0, 0)
        faults = episode.play_cast(job, Cast(mission.rules.num_agents, seats)).faults[0]
    finally:
        if isinstance(policy, StrangersPolicy):
            policy.close()
    if faults.errors or faults.nonsense or faults.timeouts > TRIAL_STEPS * TRIAL_COGS // 2 or faults.first:
        return f"In a trial of {TRIAL_STEPS} steps it failed: {faults.first.rstrip('.')}."
    return ""
