"""The database's promises, on SQLite and on a real PostgreSQL: the same ones."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text
from tests.arena.conftest import QUICK, bundle, fall_silent, person, upload

from rewardlab.arena import commissioner
from rewardlab.arena.commissioner import Facts, advance
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.store.database import Database
from rewardlab.arena.store.jobs import Lease
from rewardlab.arena.store.policies import Quotas
from rewardlab.arena.store.seasons import Held, Outcome
from rewardlab.arena.store.tables import Job, MatchRow, Membership, Token, Version

ROLE = bundle({"class_path": "role"})


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = None
    if request.param == "postgresql":
        server, name = request.getfixturevalue("postgres"), f"t{uuid.uuid4().hex}"
        admin = Database(server)
        with admin.write() as session:
            session.execute(text(f"CREATE SCHEMA {name}"))
        admin.close()
        url = f"{server}&options=-csearch_path%3D{name}"
    made = Place(tmp_path / "arena", url, quotas=Quotas(per_day=6))
    assert made.set_up() is not None
    made.seasons.add(read_season(QUICK))
    yield made
    made.database.close()


def accepted(place: Place, *names: str) -> list[Version]:
    """Versions that have been seen to play."""
    caller = place.accounts.caller(place.accounts.make_token(place.accounts.user("admin"), scope="admin"))
    assert caller is not None
    made = [upload(place, caller, ROLE, name, "quick") for name in names]
    while (lease := place.jobs.lease("w", 60)) is not None:
        assert lease.kind == "validation"
        assert place.seasons.record_validation(lease, "weights", "")
    return made


def outcome(score: float = 1.0, sides: int = 2) -> Outcome:
    return Outcome((score,) * sides, ({},) * sides, 20, 0.1, {"team": {}, "game": {}})


def play_all(place: Place, score: Callable[[dict[str, Any]], tuple[float, ...]]) -> int:
    """What workers do, without the playing."""
    played = 0
    held = place.seasons.get("quick")
    while True:
        lease = place.jobs.lease("w", 60)
        if lease is None:
            if not advance(place.database, held):
                return played
            continue
        scores = score(place.seasons.match(lease.subject)["job"])
        assert place.seasons.record(lease, Outcome(scores, ({},) * len(scores), 20, 0.1, {"team": {}, "game": {}}))
        played += 1


def test_setting_up_twice_changes_nothing(place: Place) -> None:
    assert place.set_up() is None
    assert [held.row.name for held in place.seasons.all()] == ["beta-cogsguard", "quick"]


def test_versions_count_up_per_name_and_person(place: Place) -> None:
    alice, bob = person(place, "alice"), person(place, "bob")
    numbers = [
        upload(place, who, ROLE, name).version for who, name in ((alice, "x"), (alice, "x"), (bob, "x"), (alice, "y"))
    ]
    assert numbers == [1, 2, 1, 1]
    assert place.policies.mine(alice, "x:v1").version == 1
    with pytest.raises(ArenaError, match="no version v3; the latest is v2"):
        place.policies.mine(alice, "x:v3")
    with pytest.raises(ArenaError, match="no policy of yours 'xx'"):
        place.policies.mine(alice, "xx")


def test_versions_that_are_made_at_once_get_different_numbers(place: Place) -> None:
    place = Place(place.root, place.database_url, quotas=Quotas())
    alice = person(place, "alice")
    uploads = []
    for _ in range(8):
        upload_id, key = place.policies.start_upload(alice)
        place.policies.receive(upload_id, key, 1, "0" * 64)
        uploads.append(upload_id)
    made: list[int] = []
    errors: list[Exception] = []

    def complete(upload_id: str) -> None:
        try:
            made.append(place.policies.complete(upload_id, alice, "same", None).version)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=complete, args=(one,)) for one in uploads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(made) == list(range(1, 9))
    place.database.close()


def test_quotas_end_in_429(place: Place) -> None:
    alice = person(place, "alice")
    for _ in range(6):
        place.policies.start_upload(alice)
    with pytest.raises(ArenaError, match="6 times in 24 hours") as error:
        place.policies.start_upload(alice)
    assert error.value.status == 429


def test_bytes_come_once_and_count_before_they_are_a_version(place: Place) -> None:
    place = Place(place.root, place.database_url, quotas=Quotas(bytes_all=100))
    alice = person(place, "alice")
    (first, key), (second, other) = (place.policies.start_upload(alice) for _ in range(2))
    place.policies.receive(first, key, 60, "0" * 64)
    with pytest.raises(ArenaError, match="here already") as error:  # nor can it be filled again and again
        place.policies.receive(first, key, 60, "1" * 64)
    assert error.value.status == 409
    with pytest.raises(ArenaError, match="quota is used up") as error:
        place.policies.receive(second, other, 41, "2" * 64)
    assert error.value.status == 429
    place.policies.receive(second, other, 40, "2" * 64)
    with pytest.raises(ArenaError, match="100 bytes in all"):
        place.policies.start_upload(alice)
    place.database.close()


def at_once(act: Callable[[], Any], times: int = 6) -> list[str]:
    """What comes of doing the same in several threads: '' for success, else the error's name."""
    said: list[str] = []
    barrier = threading.Barrier(times)

    def run() -> None:
        barrier.wait()
        try:
            act()
            said.append("")
        except Exception as error:
            said.append(type(error).__name__)

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(said)


def test_what_is_done_twice_at_once_is_done_once(place: Place) -> None:
    (version,) = accepted(place, "one")
    place.seasons.add(read_season(QUICK.replace("quick", "other")))
    owner = place.accounts.caller(place.accounts.make_token(place.accounts.user("admin")))
    assert owner is not None
    assert at_once(lambda: place.seasons.submit(owner, version.id, "other")) == [""] + ["ArenaError"] * 5
    upload_id, key = place.policies.start_upload(owner)
    assert at_once(lambda: place.policies.receive(upload_id, key, 1, "0" * 64)) == [""] + ["ArenaError"] * 5
    assert at_once(lambda: place.policies.complete(upload_id, owner, "two", None)) == [""] + ["ArenaError"] * 5
    secret, code, _ = place.accounts.start_device()
    assert at_once(lambda: place.accounts.confirm_device(code, owner.user_id, "admin")) == [""] + ["ArenaError"] * 5
    assert at_once(lambda: place.accounts.finish_device(secret)) == [""] + ["ArenaError"] * 5


def test_quotas_hold_when_all_come_at_once(place: Place) -> None:
    alice = person(place, "alice")
    assert at_once(lambda: place.policies.start_upload(alice), 9) == [""] * 6 + ["ArenaError"] * 3


def test_an_entry_and_a_trial_at_the_same_moment_lose_nothing(place: Place) -> None:
    place = Place(place.root, place.database_url, quotas=Quotas())
    alice = person(place, "alice")
    for i in range(8):
        version = upload(place, alice, ROLE, f"p{i}")
        lease = place.jobs.lease("w", 60)
        assert lease is not None
        threads = [
            threading.Thread(target=place.seasons.record_validation, args=(lease, "weights", "")),
            threading.Thread(target=place.seasons.submit, args=(alice, version.id, "quick")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert place.seasons.memberships([version.id]), "it was told that it is in"
    place.database.close()


def test_a_season_runs_its_course(place: Place) -> None:
    good, fine, bad = accepted(place, "good", "fine", "bad")
    strength = {"good": 2.0, "fine": 1.0, "bad": -1.0}
    played = play_all(place, lambda job: tuple(strength[p["name"]] for p in job["policies"]))
    assert played == 3 + 2  # one alone each; the pair that was promoted, on two seeds
    members = {(m.pool, v.name): m.status for v, _, m in place.seasons.members(place.seasons.get("quick").row.id)}
    assert members == {
        ("qualifying", "good"): "promoted",
        ("qualifying", "fine"): "promoted",
        ("qualifying", "bad"): "retired",
        ("competition", "good"): "active",
        ("competition", "fine"): "active",
    }
    found = {m["pool_name"]: (m["completed"], m["status"]) for m in place.seasons.memberships([good.id])}
    assert found == {"qualifying": (1, "promoted"), "competition": (2, "active")}
    assert {v.id for v in (good, fine, bad)} == {
        m["version_id"] for m in place.seasons.memberships([good.id, fine.id, bad.id])
    }


def test_a_version_enters_a_season_once(place: Place) -> None:
    (version,) = accepted(place, "one")
    owner = place.accounts.caller(place.accounts.make_token(place.accounts.user("admin")))
    assert owner is not None
    with pytest.raises(ArenaError, match="is in the season quick already") as error:
        place.seasons.submit(owner, version.id, "quick")
    assert error.value.status == 409
    with pytest.raises(ArenaError, match="no policy version of yours"):
        place.seasons.submit(person(place, "mallory"), version.id, "beta-cogsguard")
    place.seasons.set_state("beta-cogsguard", "closed")
    with pytest.raises(ArenaError, match="closed to entries"):
        place.seasons.submit(owner, version.id, "beta-cogsguard")


def started(place: Place) -> Lease:
    accepted(place, "one")
    advance(place.database, place.seasons.get("quick"))
    lease = place.jobs.lease("first", 60)
    assert lease is not None
    return lease


def test_a_silent_workers_match_goes_to_another_and_counts_once(place: Place) -> None:
    first = started(place)
    assert place.jobs.lease("second", 60) is None  # nobody else has it meanwhile
    fall_silent(place)
    second = place.jobs.lease("second", 60)
    assert second is not None
    assert (second.subject, second.attempt) == (first.subject, 2)
    assert not place.jobs.keep(first, 60)
    assert not place.seasons.record(first, outcome(7.0, 1))  # it wakes up too late
    assert place.seasons.record(second, outcome(8.0, 1))
    assert not place.seasons.record(second, outcome(9.0, 1))  # nor twice by who had it
    found = place.seasons.match(first.subject)
    assert [p["score"] for p in found["players"]] == [8.0]
    assert found["status"] == "completed"


def test_a_heartbeat_keeps_a_job(place: Place) -> None:
    lease = started(place)
    fall_silent(place)
    assert place.jobs.keep(lease, 60)  # late, but nobody has taken it meanwhile
    assert place.jobs.lease("second", 60) is None


def test_three_failures_set_a_match_aside_with_its_log(place: Place) -> None:
    lease = started(place)
    for attempt in (1, 2, 3):
        place.jobs.fail(lease, f"reason {attempt}")
        again = place.jobs.lease("w", 60)
        assert (again is None) == (attempt == 3)
        lease = again or lease
    (job,) = place.jobs.failed()
    assert all(f"reason {attempt}" in job.log for attempt in (1, 2, 3))
    assert place.seasons.match(job.subject)["status"] == "failed"
    assert "reason 3" in place.seasons.match(job.subject)["log"]
    advance(place.database, place.seasons.get("quick"))
    with place.database.read() as session:
        assert session.scalars(select(Membership.status)).all() == ["out"]  # its only match alone cannot be played
    assert place.jobs.retry(job.subject)
    assert place.jobs.lease("w", 60) is not None


def test_three_silent_deaths_set_a_match_aside_too(place: Place) -> None:
    started(place)
    for _ in range(2):
        fall_silent(place)
        assert place.jobs.lease("w", 60) is not None
    fall_silent(place)
    assert place.jobs.lease("w", 60) is None
    assert "was not heard of again" in place.jobs.failed()[0].log


def test_many_workers_never_hold_the_same_job(place: Place) -> None:
    place = Place(place.root, place.database_url, quotas=Quotas())
    accepted(place, *(f"p{i}" for i in range(12)))
    assert advance(place.database, place.seasons.get("quick")) == 12
    taken: list[str] = []

    def work(name: str) -> None:
        misses = 0
        while misses < 3:
            lease = place.jobs.lease(name, 60)
            misses = misses + 1 if lease is None else 0
            if lease is not None:
                taken.append(lease.subject)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 12
    place.database.close()


def test_who_uploads_much_does_not_keep_others_waiting(place: Place) -> None:
    place = Place(place.root, place.database_url, quotas=Quotas())
    mallory, alice = person(place, "mallory"), person(place, "alice")
    names = {upload(place, mallory, ROLE, f"m{i}").id: f"m{i}" for i in range(6)}
    names[upload(place, alice, ROLE, "a", "quick").id] = "a"
    order = []
    for wanted in ("m0", "a"):
        lease = place.jobs.lease("w", 60)
        assert lease is not None
        order.append(names[lease.subject])
        assert place.seasons.record_validation(lease, "weights", "")
        assert order[-1] == wanted
    assert advance(place.database, place.seasons.get("quick")) == 1
    while (lease := place.jobs.lease("w", 60)) is not None:
        order.append(names.get(lease.subject, "match"))
        place.seasons.record_validation(lease, "weights", "") if lease.kind == "validation" else None
    assert order == ["m0", "a", "m1", "m2", "match", "m3", "m4", "m5"]
    place.database.close()


def test_two_commissioners_plan_each_match_once(place: Place) -> None:
    accepted(place, "a", "b", "c")
    held = place.seasons.get("quick")
    threads = [threading.Thread(target=advance, args=(place.database, held)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with place.database.read() as session:
        assert session.scalar(select(func.count()).select_from(MatchRow)) == 3
        assert session.scalar(select(func.count()).select_from(Job).where(Job.kind == "match")) == 3


def test_looking_again_at_what_has_not_changed_costs_no_turn(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted(place, "a", "b")
    idle: dict[str, Facts] = {}
    looked: list[str] = []

    def seen(database: Database, held: Held) -> int:
        looked.append(held.row.name)
        return advance(database, held)

    monkeypatch.setattr(commissioner, "advance", seen)
    assert commissioner.advance_all(place.database, idle) == 2  # each alone
    assert commissioner.advance_all(place.database, idle) == 0
    assert sorted(looked) == ["beta-cogsguard", "quick", "quick"]
    for _ in range(3):
        assert commissioner.advance_all(place.database, idle) == 0
    assert len(looked) == 3
    lease = place.jobs.lease("w", 60)
    assert lease is not None
    assert place.seasons.record(lease, outcome(1.0, 1))
    commissioner.advance_all(place.database, idle)
    assert len(looked) == 4  # something was played


def test_tokens_are_stored_as_hashes_and_end(place: Place) -> None:
    user = place.accounts.add_user("alice", password="correct horse battery")
    secret = place.accounts.make_token(user, days=1)
    with place.database.read() as session:
        kept = session.scalars(select(Token).where(Token.user_id == user.id)).all()
    assert all(secret not in str(vars(token)) for token in kept)
    assert place.accounts.caller(secret) is not None
    assert place.accounts.caller(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None
    expired = place.accounts.make_token(user, days=-1)
    assert place.accounts.caller(expired) is None
    place.accounts.revoke(kept[0].id)
    assert place.accounts.caller(secret) is None
    another = place.accounts.make_token(user)
    place.accounts.set_disabled("alice", True)
    assert place.accounts.caller(another) is None
    with pytest.raises(ArenaError, match="do not fit"):
        place.accounts.by_password("alice", "correct horse battery")
    with pytest.raises(ArenaError, match="no admin"):
        place.accounts.make_token(user, scope="admin")


def test_passwords_are_argon2_and_never_stored(place: Place) -> None:
    user = place.accounts.add_user("alice", password="correct horse battery")
    assert (user.password_hash or "").startswith("$argon2id$")
    assert place.accounts.by_password("alice", "correct horse battery").id == user.id
    for name, password in (("alice", "wrong"), ("nobody", "correct horse battery"), ("admin", "")):
        with pytest.raises(ArenaError, match="do not fit") as error:
            place.accounts.by_password(name, password)
        assert error.value.status == 401
    with pytest.raises(ArenaError, match="at least 10"):
        place.accounts.set_password("alice", "short")


def test_who_did_what_is_kept(place: Place) -> None:
    alice = person(place, "alice")
    upload(place, alice, ROLE, "x")
    entries = [(e.actor, e.action, e.subject) for e in place.accounts.audit()]
    assert entries[0] == ("alice", "policy.upload", "x:v1")
    assert ("admin", "user.add", "alice") in entries


@pytest.mark.parametrize("text_", ["'; DROP TABLE users; --", "<script>", "a b", "", "x" * 300, "ü", "../x"])
def test_names_are_plain(place: Place, text_: str) -> None:
    with pytest.raises(ArenaError):
        place.accounts.add_user(text_)
    with pytest.raises(ArenaError, match="policy name"):
        upload(place, person(place, "alice"), ROLE, text_)


def test_the_migrations_make_what_the_tables_say(place: Place) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from rewardlab.arena.store.tables import Base

    with place.database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
