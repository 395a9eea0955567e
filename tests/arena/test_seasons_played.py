"""Seasons of every kind, to their end; what they play is played for real."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.arena.conftest import FREE, QUICK, bundle, person, upload
from tests.hub.conftest import KEY, SECRET, s3_server  # noqa: F401 (a fixture)

from rewardlab.arena.commissioner import advance
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.match.play import agents_of, check_season, mission_from
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.shelf import FolderShelf, HubShelf, hash_file, shelf_at
from rewardlab.arena.store.accounts import Caller
from rewardlab.arena.store.seasons import Outcome
from rewardlab.arena.worker import Worker
from rewardlab.hub.local import LocalStore
from rewardlab.hub.store import Access
from rewardlab.web.app import whole_app

TEAMS = """
name: teams
cogs: 4
steps: 10
max_outstanding: 100
entry_pool: first
leaderboard_pool: final
pools:
  first: {kind: teams, seeds: 1, keep: 2, promotes_to: final}
  final: {kind: teams, seeds: 2}
"""
FREEPLAY = """
name: free
cogs: 4
max_outstanding: 3
entry_pool: all
leaderboard_pool: all
pools: {all: {kind: freeplay, matches: 3, splits: [[1, 3], [2, 2]]}}
"""


def enter(place: Place, caller: Caller, season: str, *names: str) -> dict[str, str]:
    """Versions in a season, by their ids."""
    found = {}
    for name in names:
        version = upload(place, caller, bundle({"class_path": "noop", "init_kwargs": {}}), name, season)
        found[version.id] = name
        lease = place.jobs.lease("w", 60)
        assert lease is not None
        assert place.seasons.record_validation(lease, "weights", "")
    return found


def play(place: Place, season: str, names: dict[str, str], strength: dict[str, float]) -> list[tuple[str, ...]]:
    """All that is planned, with scores by strength in place of the engine; who met whom."""
    met: list[tuple[str, ...]] = []
    while True:
        lease = place.jobs.lease("w", 60)
        if lease is None:
            if not advance(place.database, place.seasons.get(season)):
                return met
            continue
        job = place.seasons.match(lease.subject)["job"]
        sides = tuple(names[player["id"]] for player in job["policies"])
        met.append(sides)
        scores = tuple(strength[name] for name in sides)
        place.seasons.record(lease, Outcome(scores, ({},) * 2, 1, 0.0, {"team": {}, "game": {}}))


def test_stages_cull_all_but_the_best_once_entries_are_closed(place: Place, caller: Caller) -> None:
    place.seasons.add(read_season(TEAMS))
    names = enter(place, caller, "teams", "a", "b", "c", "d")
    strength = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}
    assert len(play(place, "teams", names, strength)) == 6  # all pairs of the first stage; it stays open
    place.seasons.set_state("teams", "closed")
    assert [sorted(sides) for sides in play(place, "teams", names, strength)] == [["a", "b"]] * 2
    members = {(m.pool, v.name): m.status for v, _, m in place.seasons.members(place.seasons.get("teams").row.id)}
    assert members == {
        ("first", "a"): "promoted",
        ("first", "b"): "promoted",
        ("first", "c"): "retired",
        ("first", "d"): "retired",
        ("final", "a"): "active",
        ("final", "b"): "active",
    }
    results = place.seasons.results(place.seasons.get("teams").row.id, "final")
    assert len(results) == 2
    with pytest.raises(ArenaError, match="closed to entries"):
        place.seasons.submit(caller, next(iter(names)), "teams")


def test_freeplay_gives_everybody_its_matches_a_few_at_a_time(place: Place, caller: Caller) -> None:
    place.seasons.add(read_season(FREEPLAY))
    names = enter(place, caller, "free", "a", "b", "c", "d")
    assert advance(place.database, place.seasons.get("free")) == 3  # no more than may be outstanding
    met = play(place, "free", names, dict.fromkeys("abcd", 1.0))
    played = Counter(name for sides in met for name in sides)
    assert min(played.values()) == 3
    assert max(Counter(tuple(sorted(sides)) for sides in met).values()) <= 2  # they meet each other evenly


def test_in_a_team_match_each_policy_plays_a_whole_team(place: Place, caller: Caller) -> None:
    season = read_season(TEAMS)
    check_season(season)
    place.seasons.add(season)
    enter(place, caller, "teams", "a", "b")
    assert advance(place.database, place.seasons.get("teams")) == 1
    (match,) = place.seasons.matches(place.seasons.get("teams").row.id)
    job = place.seasons.match(match["id"])["job"]
    mission = mission_from(job)
    assert [team.size for team in mission.rules.teams] == [2, 2]
    agents = agents_of(job, mission)
    assert sorted(agents[0] + agents[1]) == [0, 1, 2, 3]
    assert [{mission.rules.team_of[agent] for agent in side} for side in agents] == [{0}, {1}]


def test_a_shelf_elsewhere_brings_what_was_put_there(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "far")
    first, second = HubShelf(store, tmp_path / "a"), HubShelf(store, tmp_path / "b")
    file = tmp_path / "bundle.zip"
    file.write_bytes(b"content")
    sha256 = hash_file(file)
    first.put(f"bundles/{sha256}.zip", file)
    assert second.get(f"bundles/{sha256}.zip").read_bytes() == b"content"
    assert second.get(f"bundles/{sha256}.zip") == tmp_path / "b" / "bundles" / f"{sha256}.zip"
    with pytest.raises(ArenaError) as error:
        second.get("bundles/none.zip")
    assert error.value.status == 404


def test_bundles_and_replays_in_a_bucket_are_in_reach_of_every_worker(
    s3_server: tuple[str, Path],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server and a worker that share a database and a bucket, and no folder."""
    for name, value in (("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET)):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    database, access = f"sqlite:///{tmp_path}/shared.db", Access(endpoint=s3_server[0])
    server, worker = (Place(tmp_path / name, database, "s3://bucket/arena", access) for name in ("server", "worker"))
    server.set_up()
    server.seasons.add(read_season(QUICK))
    version = upload(server, person(server, "alice"), bundle({"class_path": "noop"}), "a", "quick")
    Worker(worker, idle_seconds=0.01).run(until_idle=True)
    (match,) = server.seasons.matches()
    assert (match["status"], match["has_replay"]) == ("completed", True)
    kept = sorted(path.name for path in (s3_server[1] / "arena").rglob("*") if path.is_file())
    assert kept == sorted([f"{version.sha256}.zip", f"{match['id']}.json.z"])
    http = TestClient(whole_app(server, tmp_path, FREE))
    assert len(http.get(f"/matches/{match['id']}/replay/frames").json()["frames"]) == 11  # the first, and ten steps
    for place in (server, worker):
        place.database.close()


def test_shelves_by_their_address(tmp_path: Path) -> None:
    assert isinstance(shelf_at(str(tmp_path), tmp_path), FolderShelf)
    assert isinstance(shelf_at(f"file://{tmp_path}", tmp_path), FolderShelf)
    with pytest.raises(ArenaError, match="no hub that is known"):
        shelf_at("ftp://somewhere", tmp_path)


def test_the_same_workers_on_a_ray_cluster(place: Place, caller: Caller) -> None:
    pytest.importorskip("ray")
    place.seasons.add(read_season(QUICK))
    upload(place, caller, bundle({"class_path": "noop"}), "a", "quick")
    place.database.close()
    words = [sys.executable, "-m", "rewardlab.cli.app", "arena", "worker", "--root", str(place.root)]
    ran = subprocess.run([*words, "--ray", "local", "--until-idle"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search("[23] jobs done", ran.stderr)  # a validation, a match, and the planning where it was looked for
    assert [m["status"] for m in place.seasons.matches()] == ["completed"]
