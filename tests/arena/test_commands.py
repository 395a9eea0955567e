"""The commands as a person types and mistypes them, on an arena that is really served."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.arena.conftest import QUICK, Arena

from rewardlab.arena.place import Place
from rewardlab.cli import app
from rewardlab.cogs.policies.starters import SCRIPTED

Run = Callable[..., str]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    served = Arena(tmp_path_factory.mktemp("served") / "arena")
    yield served
    if served.process.poll() is None:
        served.kill(signal.SIGTERM)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command line; what it prints. `fails` is what its error says."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)

    def type_(line: str, fails: str | None = None) -> str:
        with pytest.raises(SystemExit) as ended:
            app.main(line.split())
        out, err = capsys.readouterr()
        if fails is None:
            assert not ended.value.code, err
            return out
        assert ended.value.code, out
        assert fails in err
        assert len(err.strip().splitlines()) == 1, err
        assert "Traceback" not in err
        return err

    return type_


def test_a_persons_whole_way_and_the_server_killed_in_between(arena: Arena, run: Run, tmp_path: Path) -> None:
    assert re.fullmatch(r"rl_[\w-]{43}", arena.token)
    run("cogs upload -p role -n crew --server " + arena.url, fails="You are not logged in")
    assert "Logged in" in run(f"cogs login --server {arena.url}/ --token {arena.token}")
    assert "already" in run("cogs login")
    assert (tmp_path / "config/rewardlab/arena.json").stat().st_mode & 0o077 == 0
    (tmp_path / "quick.yaml").write_text(QUICK)
    run(f"arena admin add-season quick.yaml --root {arena.root}")
    assert "nothing was uploaded" in run("cogs upload -p role -n crew --dry-run")
    assert run("cogs submissions --json") == "[]\n"
    assert "entered into quick" in run("cogs upload -p role -n crew -k miner=1 --season quick")
    assert "crew:v2 is accepted" in run("cogs upload -p metta://policy/role?scout=2 -n crew --skip-validation")
    assert "crew:v2 is in quick" in run("cogs submit crew --season quick")
    run("cogs submit crew:v1 --season quick", fails="is in the season quick already")
    assert arena.kill(signal.SIGKILL) == -signal.SIGKILL
    arena.start()  # the database opens, the season goes on
    run(f"cogs login --server {arena.url} --token {arena.token}")
    deadline = time.monotonic() + 120
    while len(board := json.loads(run("cogs leaderboard --season quick --json"))) < 2 or board[0]["matches"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert {line["policy"]["version"] for line in board} == {1, 2}
    assert "crew:v1" in run("cogs leaderboard --season quick")
    rows = json.loads(run("cogs submissions --json --season quick"))
    assert [pool["pool_name"] for pool in rows[0]["pools"]] == ["qualifying", "competition"]
    assert "crew:v2" in run("cogs submissions -p crew")
    matches = json.loads(run("cogs matches --season quick --json"))
    assert len(matches) == 2 + 2  # one alone each, one pair on two seeds
    assert json.loads(run(f"cogs matches {matches[0]['id']} --json"))["status"] == "completed"
    assert len(json.loads(run("cogs matches --season quick -p crew:v1 --json"))) == 3
    assert "competition" in run("cogs matches --season quick")
    assert [season["name"] for season in json.loads(run("cogs seasons --json"))] == ["beta-cogsguard", "quick"]
    assert "entry_pool: qualifying" in run("cogs seasons quick")
    assert "canonical: true" in run("cogs seasons quick --versions")
    assert [user["name"] for user in json.loads(run(f"arena admin users --json --root {arena.root}"))] == ["admin"]
    assert "season.submit" in run(f"arena admin audit --root {arena.root}")
    assert "Nothing was set aside" in run(f"arena admin failed --root {arena.root}")
    run(f"arena admin set-season quick closed --root {arena.root}")
    run("cogs validate-policy -p role --season quick", fails="closed to entries")


def test_what_is_mistyped_is_said_in_a_sentence(arena: Arena, run: Run) -> None:
    run(f"cogs login --server {arena.url} --token {arena.token}")
    run("cogs login --token rl_wrong", fails="unknown, revoked or expired")
    run("cogs leaderboard --season beta-cogsgard", fails="Did you mean 'beta-cogsguard'")
    run("cogs submit nobody --season beta-cogsguard", fails="no policy of yours 'nobody'")
    run("cogs submit crew:vthree", fails="NAME or NAME:vN")
    run("cogs upload -p rol -n x", fails="policy 'rol'")
    run("cogs upload -p role -n a/b --skip-validation", fails="letters, digits")
    run("cogs upload -p role -n x -k miner", fails="KEY=VALUE")
    run("cogs upload -p role -n x -f nowhere.txt", fails="no nowhere.txt")
    run("cogs upload -p class=nowhere.Policy -n x", fails="no module 'nowhere'")
    run("cogs matches 123", fails="no match '123'")
    run("cogs seasons --versions", fails="needs the name")
    run("cogs leaderboard --server http://127.0.0.1:9", fails="does not answer")
    run("cogs leaderboard --server ftp//x", fails="")
    run(f"arena admin add-user b@d --root {arena.root}", fails="must be letters")
    run(f"arena admin add-user admin --root {arena.root}", fails="taken")
    run(f"arena admin disable-user adm --root {arena.root}", fails="Did you mean 'admin'")
    run(f"arena admin set-season beta-cogsguard shut --root {arena.root}", fails="state of a season 'shut'")
    run(f"arena admin retry 5 --root {arena.root}", fails="no job that was set aside '5'")
    run(f"arena admin add-season nowhere.yaml --root {arena.root}", fails="nowhere.yaml cannot be read")
    run("arena admin users --root elsewhere", fails="no arena in elsewhere")
    Path("broken").mkdir()
    Path("broken/arena.db").write_text("no database at all")
    run("arena admin users --root broken", fails="file is not a database")
    run("arena worker --database postgresql://nobody@127.0.0.1:9/x --until-idle", fails="cannot be opened")
    run("arena worker --database mysql://x --until-idle", fails="mysql")
    run("arena worker --database postgres://nobody@127.0.0.1:9/x --until-idle", fails="cannot be opened")
    run(f"arena serve --root {arena.root} --port {arena.url.rpartition(':')[2]} ", fails="in use: choose another one")
    run(f"arena serve --root new --port {arena.url.rpartition(':')[2]}", fails="in use: choose another one")
    assert not Path("new").exists()  # nothing was begun
    run("arena serve --root new --host no.such.host.invalid", fails="Nothing can be served at no.such.host.invalid")


def test_a_season_that_cannot_be_played_is_refused_when_it_is_made(arena: Arena, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(QUICK.replace("name: quick", "name: bad\nmission: cogsguard_aren.basic"))
    run(f"arena admin add-season bad.yaml --root {arena.root}", fails="cogsguard_arena.basic")


def test_a_policy_of_ones_own_is_packed_with_its_module(arena: Arena, run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_policy.py").write_text(SCRIPTED)
    line = "cogs validate-policy -p class=my_policy.StarterPolicy"
    assert "an arena would accept it" in run(line)
    (tmp_path / "my_policy.py").write_text(SCRIPTED.replace("energy < 4", "energy < four"))
    run(line, fails="NameError")


def test_tokens_and_people_are_managed_on_the_database(run: Run, tmp_path: Path) -> None:
    place = Place(tmp_path / "arena")
    place.set_up()
    at = f"--root {place.root}"
    secret = run(f"arena admin add-user alice {at}").strip()
    assert place.accounts.caller(secret) is not None
    (token,) = json.loads(run(f"arena admin tokens alice --json {at}"))
    assert secret not in json.dumps(token)
    run(f"arena admin revoke-token {token['id']} {at}")
    assert place.accounts.caller(secret) is None
    again = run(f"arena admin add-token alice --scope read --days 1 {at}").strip()
    caller = place.accounts.caller(again)
    assert caller is not None
    assert caller.scope == "read"
    run(f"arena admin add-token alice --scope admin {at}", fails="no admin")
    run(f"arena admin disable-user alice {at}")
    assert place.accounts.caller(again) is None
    run(f"arena admin disable-user alice --undo {at}")
    assert place.accounts.caller(again) is not None
    place.database.close()
