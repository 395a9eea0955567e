"""The API as its client meets it, and as its enemies do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.arena.conftest import FREE, QUICK, bundle

from rewardlab.arena import boards, models
from rewardlab.arena.client import Client
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.limits import Bucket, Rates
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.server import Settings
from rewardlab.arena.store.policies import Quotas
from rewardlab.arena.worker import Worker
from rewardlab.web.app import whole_app

Serve = Callable[..., Client]
EVIL = [
    "'; DROP TABLE versions; --",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "../../etc/passwd",
    "a\x00b",
    "x" * 5000,
]


def token(place: Place, name: str, **how: Any) -> str:
    """A token of a person who may be new."""
    known = {user.name: user for user in place.accounts.users()}
    return place.accounts.make_token(known.get(name) or place.accounts.add_user(name), **how)


def sent(client: Client, tmp_path: Path, name: str, spec: dict[str, Any], season: str | None = None) -> models.Uploaded:
    file = tmp_path / "bundle.zip"
    file.write_bytes(bundle(spec))
    return client.upload(file, name, season)


def test_from_login_to_leaderboard(place: Place, serve: Serve, worker: Worker, tmp_path: Path) -> None:
    place.seasons.add(read_season(QUICK))
    alice, bob, anybody = serve(token(place, "alice")), serve(token(place, "bob")), serve()
    assert alice.me() == models.Me(user="alice", role="user", scope="play")
    first = sent(alice, tmp_path, "crew", {"class_path": "role", "init_kwargs": {"miner": 1}}, "quick")
    assert (first.name, first.version, first.status, first.pools) == ("crew", 1, "quarantine", ["qualifying"])
    second = sent(bob, tmp_path, "wanderer", {"class_path": "random"})
    assert worker.step()
    assert worker.step()
    assert alice.version(first.id).status == "accepted"
    assert bob.submit(second.id, "quick").pools == ["qualifying"]
    with pytest.raises(ArenaError, match="already") as error:
        bob.submit(second.id, "quick")
    assert error.value.status == 409
    while worker.step():
        pass
    lines = anybody.leaderboard("quick")
    assert [line.rank for line in lines] == [1, 2]
    assert {line.policy.name for line in lines} == {"crew", "wanderer"}
    assert all(line.matches == 2 for line in lines)  # two seeds
    matches = anybody.matches("quick", None, 50)
    assert [m.pool for m in matches].count("competition") == 2
    assert all(m.status == "completed" for m in matches)
    detail = anybody.match(matches[0].id)
    assert detail.job["seed"] == detail.number
    assert detail.result is not None
    assert detail.result["steps"] == 10
    assert {m.pool_name for m in bob.memberships()} == {"qualifying", "competition"}
    assert [s.name for s in anybody.seasons()] == ["beta-cogsguard", "quick"]


def test_the_original_clients_paths_and_header_answer(place: Place) -> None:
    http = TestClient(whole_app(place, place.root, FREE), headers={"X-Auth-Token": token(place, "alice")})
    season = http.get("/tournament/seasons/beta-cogsguard").json()
    assert {"name", "version", "canonical", "summary", "entry_pool", "leaderboard_pool", "is_default", "pools"} <= set(
        season
    )
    assert season["pools"][0]["config_id"] == "beta-cogsguard:qualifying"
    assert http.get("/tournament/configs/beta-cogsguard:qualifying").json()["threshold"] == 0.1
    assert http.get("/tournament/seasons/beta-cogsguard/versions").json() == [{"version": 1, "canonical": True}]
    assert http.get("/tournament/seasons/beta-cogsguard/leaderboard?include_hidden=true").json() == []
    started = http.post("/stats/policies/submit/presigned-url").json()
    plain = TestClient(whole_app(place, place.root, FREE))  # the address itself is the right to send
    assert plain.put(started["upload_url"], content=bundle({"class_path": "noop"})).status_code == 204
    body = {"upload_id": started["upload_id"], "name": "mine", "season": "beta-cogsguard"}
    done = http.post("/stats/policies/submit/complete", json=body).json()
    assert (done["name"], done["version"], done["pools"]) == ("mine", 1, ["qualifying"])
    found = http.get("/stats/policy-versions?mine=true&limit=100&name_exact=mine&version=1").json()["entries"]
    assert [entry["id"] for entry in found] == [done["id"]]
    assert http.get(f"/tournament/policies/{done['id']}/memberships").json() == []
    assert http.get("/tournament/my-memberships").json() == []
    assert http.get("/tournament/seasons/beta-cogsguard/policies?mine=true").json() == []


def test_a_login_by_device_code(place: Place, serve: Serve) -> None:
    shown: list[models.DeviceStarted] = []
    alice = place.accounts.add_user("alice")

    def confirm(started: models.DeviceStarted) -> None:
        shown.append(started)
        place.accounts.confirm_device(started.user_code.lower(), alice.id, "alice")

    made = serve().login(confirm, 5)
    assert made.user == "alice"
    assert serve(made.token).me().user == "alice"
    with pytest.raises(ArenaError, match="expired"):  # a code works once
        serve()._ask("POST", "/auth/device/token", models.TokenMade, {"device_code": shown[0].device_code})
    with pytest.raises(ArenaError, match="No login waits"):
        place.accounts.confirm_device(shown[0].user_code, alice.id, "alice")


@pytest.mark.parametrize("secret", ["", "rl_forged", "rl_" + "A" * 43, "admin", "' OR 1=1 --"])
def test_forged_tokens_are_401(place: Place, secret: str) -> None:
    http = TestClient(whole_app(place, place.root, FREE))
    for header in ({"X-Auth-Token": secret}, {"Authorization": f"Bearer {secret}"}):
        assert http.get("/api/v1/whoami", headers=header).status_code == 401
        assert http.post("/api/v1/stats/policies/submit/presigned-url", headers=header).status_code == 401


def test_expired_revoked_and_weak_tokens(place: Place, serve: Serve) -> None:
    expired = token(place, "alice", days=-1)
    with pytest.raises(ArenaError, match="expired") as error:
        serve(expired).me()
    assert error.value.status == 401
    reader = serve(token(place, "alice", scope="read"))
    assert reader.me().scope == "read"
    with pytest.raises(ArenaError, match="play is needed") as error:
        reader.submit("x", "beta-cogsguard")
    assert error.value.status == 403


def test_another_persons_objects_are_not_there(place: Place, serve: Serve, worker: Worker, tmp_path: Path) -> None:
    alice, mallory, anybody = serve(token(place, "alice")), serve(token(place, "mallory")), serve()
    done = sent(alice, tmp_path, "mine", {"class_path": "role"})
    for client in (mallory, anybody):
        with pytest.raises(ArenaError, match="no policy version") as error:
            client.version(done.id)  # it is in quarantine: its owner's alone
        assert error.value.status == 404
        assert client._http.get(f"/api/v1/tournament/policies/{done.id}/memberships").status_code == 404
    with pytest.raises(ArenaError, match="no policy version of yours"):
        mallory.submit(done.id, "beta-cogsguard")
    upload_id, key = place.policies.start_upload(place.accounts.caller(token(place, "alice")))  # type: ignore[arg-type]
    for wrong in ("", "x", key[:-1]):
        answer = mallory._http.put(f"/api/v1/stats/policies/submit/bytes/{upload_id}?key={wrong}", content=b"x")
        assert answer.status_code == 404
    body = {"upload_id": upload_id, "name": "theirs"}
    assert mallory._http.post("/api/v1/stats/policies/submit/complete", json=body).status_code == 404
    mine = place.accounts.tokens(place.accounts.user("alice"))[0].id
    with pytest.raises(ArenaError, match="no token"):
        place.accounts.revoke(mine, place.accounts.user("mallory").id)


def test_a_version_that_is_hidden_leaves_the_leaderboard_at_once(
    place: Place, serve: Serve, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "FRESH", 0.0)
    monkeypatch.setattr(boards, "COST", 0.0)
    place.seasons.add(read_season(QUICK))
    alice, anybody = serve(token(place, "alice")), serve()
    first, _ = (sent(alice, tmp_path, name, {"class_path": "noop"}, "quick") for name in ("a", "b"))
    while worker.step():
        pass
    assert len(anybody.leaderboard("quick")) == 2
    place.policies.hide(first.id, True, "admin")
    assert [line.policy.name for line in anybody.leaderboard("quick")] == ["b"]
    for path in (f"stats/policy-versions/{first.id}", f"tournament/policies/{first.id}/memberships"):
        assert anybody._http.get(f"/api/v1/{path}").status_code == 404
        assert alice._http.get(f"/api/v1/{path}").status_code == 200


def test_what_a_policy_printed_is_for_its_players(place: Place, serve: Serve) -> None:
    from rewardlab.arena.api import seen_match

    match = {"players": [{"user": "alice"}], "log": "secret words", "status": "completed"}

    class Fake:
        seasons = type("S", (), {"match": staticmethod(lambda _id: match)})

    alice = place.accounts.caller(token(place, "alice"))
    bob = place.accounts.caller(token(place, "bob"))
    assert seen_match(Fake, "x", alice)["log"] == "secret words"  # type: ignore[arg-type]
    assert seen_match(Fake, "x", bob)["log"] == ""  # type: ignore[arg-type]
    assert seen_match(Fake, "x", None)["log"] == ""  # type: ignore[arg-type]
    match["status"] = "failed"  # then the log is the arena's own, with its traceback
    assert seen_match(Fake, "x", alice)["log"] == ""  # type: ignore[arg-type]
    admin = place.accounts.caller(place.accounts.make_token(place.accounts.user("admin"), scope="admin"))
    assert seen_match(Fake, "x", admin)["log"] == "secret words"  # type: ignore[arg-type]


@pytest.mark.parametrize("evil", EVIL)
def test_every_text_field_takes_sql_and_html_as_text(place: Place, evil: str) -> None:
    http = TestClient(whole_app(place, place.root, FREE), headers={"X-Auth-Token": token(place, "alice")})
    api = "/api/v1"
    started = http.post(f"{api}/stats/policies/submit/presigned-url").json()
    http.put(started["upload_url"], content=b"PK")
    tries = [
        http.post(f"{api}/stats/policies/submit/complete", json={"upload_id": started["upload_id"], "name": evil}),
        http.post(f"{api}/stats/policies/submit/complete", json={"upload_id": evil, "name": "a"}),
        http.post(
            f"{api}/stats/policies/submit/complete",
            json={"upload_id": started["upload_id"], "name": "a", "season": evil},
        ),
        http.post(f"{api}/tournament/seasons/beta-cogsguard/submissions", json={"policy_version_id": evil}),
        http.post(f"{api}/auth/device/token", json={"device_code": evil}),
    ]
    assert all(answer.status_code in (400, 404, 410, 422) for answer in tries), [a.text for a in tries]
    for query in ("name_exact", "version"):
        assert http.get(f"{api}/stats/policy-versions", params={query: evil, "mine": True}).status_code in (
            200,
            400,
            422,
        )
    for query in ("policy", "pool", "status"):
        found = http.get(f"{api}/tournament/seasons/beta-cogsguard/matches", params={query: evil})
        assert found.status_code in (200, 400, 422)
    assert [user.name for user in place.accounts.users()] == ["admin", "alice"]  # all tables are there


def test_a_bundle_that_is_too_large_is_413_before_it_is_read(place: Place, tmp_path: Path) -> None:
    small = Place(place.root, quotas=Quotas(bytes_each=1 << 16))
    http = TestClient(whole_app(small, place.root, FREE), headers={"X-Auth-Token": token(place, "alice")})
    url = http.post("/api/v1/stats/policies/submit/presigned-url").json()["upload_url"]
    said = http.put(url, content=b"", headers={"Content-Length": str(1 << 30)})  # a gigabyte is announced
    assert said.status_code == 413

    def unsaid() -> Any:
        for _ in range(100):
            yield b"0" * 4096

    assert http.put(url, content=unsaid()).status_code == 413  # or comes without a word
    assert list((place.root / "incoming").iterdir()) == []
    assert http.put(url, content=b"").status_code == 400
    small.database.close()


def test_past_the_limit_is_429_with_the_time_to_wait(place: Place) -> None:
    rates = Rates(reads=0.5, reads_at_once=3, writes=1, writes_at_once=1, logins=1, logins_at_once=1)
    http = TestClient(whole_app(place, place.root, Settings(rates)))
    answers = [http.get("/api/v1/tournament/seasons").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 429, 429]
    refused = http.get("/api/v1/tournament/seasons")
    assert int(refused.headers["retry-after"]) >= 2
    assert "Too many requests" in refused.json()["detail"]
    assert http.get("/api/v1/tournament/seasons", headers={"X-Auth-Token": "another"}).status_code == 200
    assert http.get("/api/v1/health").status_code == 200
    invented = [http.get("/api/v1/tournament/seasons", headers={"X-Auth-Token": str(i)}).status_code for i in range(30)]
    assert invented.count(429) >= 30 - 4 * 3 - 2  # an address with ever new tokens gets four times a share, no more


def test_a_bucket_fills_at_its_rate() -> None:
    bucket = Bucket(rate=2, size=2)
    assert [bucket.take("a", 0.0) for _ in range(2)] == [0, 0]
    assert bucket.take("a", 0.0) == pytest.approx(0.5)  # one more in half a second
    assert bucket.take("a", 0.25) == pytest.approx(0.25)
    assert bucket.take("a", 0.5) == 0
    assert bucket.take("b", 0.5) == 0


def test_errors_are_sentences(place: Place) -> None:
    http = TestClient(whole_app(place, place.root, FREE))
    answer = http.get("/api/v1/tournament/seasons/beta-cogsgard")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "There is no season 'beta-cogsgard'. Did you mean 'beta-cogsguard'?"}
    assert http.get("/api/v1/nothing").json() == {"detail": "There is nothing here."}
    assert http.get("/api/v1/stats/policy-versions?limit=0").status_code == 422


def test_the_models_are_the_schema(place: Place) -> None:
    schema = TestClient(whole_app(place, place.root, FREE)).get("/api/v1/openapi.json").json()
    assert all(path.startswith("/api/v1/") for path in schema["paths"])
    for name in ("SeasonInfo", "LeaderboardEntry", "PoolMembership", "PolicyVersion", "MatchDetail"):
        expected = set(getattr(models, name).model_fields)
        assert set(schema["components"]["schemas"][name]["properties"]) == expected
    board = schema["paths"]["/api/v1/tournament/seasons/{season}/leaderboard"]["get"]["responses"]["200"]
    assert "LeaderboardEntry" in json.dumps(board)
