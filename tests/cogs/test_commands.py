"""`rewardlab cogs` as a person types and mistypes it; in this process, so that programs are compiled once."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rewardlab.cli import app, cogames, cogs_run
from rewardlab.cogs.missions import load_mission, make_mission

COGS = ["-c", "2", "-s", "20"]


@pytest.fixture(autouse=True)
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with two policies of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cogs_run, "prepare", lambda: None)
    (tmp_path / "mine.py").write_text(
        "import time\n"
        "from rewardlab.cogs.policies.api import MultiAgentPolicy\n"
        "class Base(MultiAgentPolicy):\n"
        "    def agent_policy(self, agent_id): raise NotImplementedError\n"
        "class Raises(Base):\n"
        "    def step_batch(self, seen, actions): raise ValueError('out of ideas')\n"
        "class Nonsense(Base):\n"
        "    def step_batch(self, seen, actions): actions[:] = 77\n"
        "class Hangs(Base):\n"
        "    def reset(self): self.steps = getattr(self, 'steps', 0) and 1\n"
        "    def step_batch(self, seen, actions):\n"
        "        self.steps += 1\n"
        "        if self.steps > 3: time.sleep(1000)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def call(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command line."""
    status = 0
    try:
        app.main(["cogs", *words])
    except SystemExit as end:
        status = int(end.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


def summary_of(out: str) -> Any:
    return json.loads(out)["missions"][0]["mission_summary"]


def test_a_scrimmage_prints_json_alone_with_the_teams_figures(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scrimmage", "-p", "role_py", "-e", "2", "--format", "json", "-j", "1", *COGS]
    status, out, _ = call(*words, capsys=capsys)
    body = summary_of(out)
    assert status == 0
    assert body["episodes"] == 2
    assert set(body["avg_team_stats"]) == {"clips", "cogs"}
    assert "aligned.junction.held" in body["avg_team_stats"]["cogs"]
    policy = body["policy_summaries"][0]
    assert (policy["policy_name"], policy["agent_count"], policy["action_timeouts"]) == ("role_py", 2, 0)
    done = [policy["avg_agent_metrics"].get(f"action.{name}", 0) for name in ("noop.success", "change_vibe.success")]
    moves = [policy["avg_agent_metrics"].get(f"action.move.{name}", 0) for name in ("success", "failed")]
    assert sum(done + moves) == pytest.approx(20)  # a mean per cog and episode: 20 steps, 20 actions


def test_two_policies_share_the_cogs_by_their_proportions(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "-p",
        "noop,proportion=3",
        "-p",
        "class=random,proportion=1",
        "-e",
        "1",
        "-j",
        "1",
        "-c",
        "4",
        "-s",
        "20",
    ]
    status, out, _ = call(*words, "--format", "yaml", capsys=capsys)
    body = yaml.safe_load(out)["missions"][0]["mission_summary"]
    assert status == 0
    assert [p["agent_count"] for p in body["policy_summaries"]] == [3, 1]
    assert body["policy_summaries"][0]["avg_agent_metrics"]["action.noop.success"] == 20


@pytest.mark.parametrize(
    ("name", "count", "told"),
    [("Raises", "action_errors", "out of ideas"), ("Nonsense", "invalid_actions", "there is no action 77")],
)
def test_a_policy_that_always_fails_is_an_error_that_says_why(
    name: str, count: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scrimmage", "-p", f"class=mine.{name}", "-e", "1", "-j", "1", "--format", "json", *COGS]
    status, out, err = call(*words, capsys=capsys)
    assert status == 1
    assert summary_of(out)["policy_summaries"][0][count] > 0
    assert told in err
    assert "never gave an action" in err
    assert "Traceback" not in err


def test_a_policy_that_hangs_is_reported_and_the_episode_ends(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "scrimmage",
        "-p",
        "class=mine.Hangs",
        "-e",
        "1",
        "-j",
        "1",
        "--format",
        "json",
        "--action-timeout-ms",
        "20",
    ]
    status, out, err = call(*words, *COGS, capsys=capsys)
    policy = summary_of(out)["policy_summaries"][0]
    assert status == 0
    assert 0 < policy["action_timeouts"] <= 40
    assert "longer than 20 ms" in err


@pytest.mark.parametrize("name", ["Raises", "Nonsense"])
def test_where_somebody_watches_a_faulty_policy_ends_the_episode(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call("play", "-p", f"class=mine.{name}", "-r", "none", *COGS, capsys=capsys)
    assert status == 1
    assert err.count("\n") == 1
    assert f"Policy {name} failed" in err


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name.replace("__", "/").replace("DOT", "."), text)
    return path


MISTAKES: list[tuple[list[str], str]] = [
    (["play", "-m", "cogsguard_areena", "-r", "none"], "cogsguard_arena"),
    (["play", "-p", "rolle", "-r", "none"], "role"),
    (["play", "-v", "dens", "-r", "none"], "dense"),
    (["play", "--difficulty", "esay", "-r", "none"], "easy"),
    (["play", "-c", "0", "-r", "none"], "1 to 20 cogs"),
    (["play", "-c", "21", "-r", "none"], "1 to 20 cogs"),
    (["play", "-s", "0", "-r", "none"], "1 step"),
    (["run"], "No policy was named"),
    (["run", "-p", "role", "-S", "integrated_eval"], "integrated_evals"),
    (["run", "-p", "role", "-m", "x*"], "cogsguard_arena"),
    (["run", "-p", "role", "-m", "cogsguard_arena", "-S", "all"], "not both"),
    (["run", "-p", "role,proportion=0"], "above zero"),
    (["run", "-p", "role", "-e", "0"], "At least one episode"),
    (["run", "-p", "./nowhere/my_run:v5"], "nowhere/my_run"),
    (["run", "-p", "role?mine=4", "-e", "1"], "miner"),
    (["scrimmage", "-p", "role", "-p", "noop"], "exactly one policy"),
    (["scrimmage", "-p", "role", "--action-timeout-ms", "0"], "above 0"),
    (["pickup", "-p", "role"], "--pool"),
    (["replay", "nowhere.json.z", "-r", "none"], "nowhere.json.z"),
    (["conform", "nowhere"], "nowhere"),
    (["missions", "cogsguard_area"], "cogsguard_arena"),
    (["missions", "-m", "cogsguard_arena", "--save", "mission.txt"], ".yaml"),
    (["diagnose", "role", "--experiments", "arena_9"], "arena_8"),
]


@pytest.mark.parametrize(("words", "told"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_sentence_that_names_the_way_out(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(*words, capsys=capsys)
    assert status != 0
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert told in err
    assert "Traceback" not in err


def test_bundles_with_missing_or_outside_paths_are_refused(at_work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = '{"class_path": "noop", "data_path": "%s"}'
    bad = {
        "outside": zipped(at_work / "a.zip", policy_specDOTjson=spec % "../../etc/passwd"),
        "lacks the file": zipped(at_work / "b.zip", policy_specDOTjson=spec % "weights.npz"),
        "holds no policy_spec.json": zipped(at_work / "c.zip", readmeDOTmd="hello"),
    }
    for told, path in bad.items():
        status, _, err = call("play", "-p", str(path), "-r", "none", *COGS, capsys=capsys)
        assert status == 1
        assert told in err


def test_a_damaged_replay_is_a_sentence(at_work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("play", "-p", "random", "-r", "none", "--save-replay-dir", "kept", *COGS, capsys=capsys)[0] == 0
    (file,) = (at_work / "kept").iterdir()
    status, out, _ = call("replay", str(file), "-r", "log", capsys=capsys)
    assert status == 0
    assert "20" in out
    data = bytearray(file.read_bytes())
    for damaged in (data[: len(data) // 2], data + b"more", bytes(reversed(data)), b""):
        file.write_bytes(damaged)
        status, _, err = call("replay", str(file), "-r", "none", capsys=capsys)
        assert status == 1
        assert len(err.strip().splitlines()) == 1


def test_a_mission_can_be_saved_changed_and_played(at_work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["make-mission", "-c", "3", "--difficulty", "easy", "-v", "wealthy", "--width", "40", "-o", "small.yaml"]
    assert call(*words, capsys=capsys)[0] == 0
    mission = load_mission(at_work / "small.yaml")
    assert mission.rules == make_mission("cogsguard_arena", cogs=3, difficulty="easy", variants=["wealthy"]).rules
    assert mission.map(0).width == 40 + 10  # its border is 5 wide on each side
    status, out, _ = call("play", "-m", "small.yaml", "-r", "none", "-s", "5", capsys=capsys)
    assert status == 0
    assert out.startswith("Episode Complete!\nSteps: 5\n")


@pytest.mark.parametrize("kind", ["--scripted", "--trainable"])
def test_a_policy_made_to_start_from_plays(kind: str, at_work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"made_{kind.strip('-')}.py"
    status, out, _ = call("make-policy", kind, "-o", file, capsys=capsys)
    assert status == 0
    name = out.split("-p ")[1].strip()
    assert call("scrimmage", "-p", name, "-e", "1", "-j", "1", "--format", "json", *COGS, capsys=capsys)[0] == 0
    status, _, err = call("make-policy", kind, "-o", file, capsys=capsys)
    assert status == 1
    assert "already" in err


def test_value_over_replacement_of_a_policy_against_itself_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pickup", "-p", "noop", "--pool", "noop", "-m", "cogsguard_arena", "-j", "1", "--format", "json", *COGS]
    status, out, _ = call(*words, capsys=capsys)
    found = json.loads(out)
    assert status == 0
    assert found["value_over_replacement"] == 0.0
    assert [s["candidates"] for s in found["scenarios"]] == [2, 1, 0]


def test_the_originals_command_lines_mean_ours() -> None:
    assert cogames.translate(["play", "-p", "role"]) == ["cogs", "play", "-p", "role"]
    assert cogames.translate(["tutorial", "make-policy", "--scripted"]) == ["cogs", "make-policy", "--scripted"]
    assert cogames.translate(["tutorial", "cogsguard"]) == ["cogs", "play", "-m", "cogsguard_arena.basic"]


def test_listings_are_json_alone_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for words, first in ((["missions"], "cogsguard_arena.basic"), (["variants"], "objective"), (["policies"], None)):
        status, out, err = call(*words, "--format", "json", capsys=capsys)
        assert (status, err) == (0, "")
        names = [row["name"] for row in json.loads(out)]
        assert first in (None, names[0])
        assert len(names) == len(set(names)) > 1
    assert np.all(
        [name in json.dumps(call("evals", "--format", "json", capsys=capsys)[1]) for name in ("spanning_evals",)]
    )


def test_the_bench_says_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call("bench", "--json", "--envs", "2", "--seconds", "0.01", "--observation", "none", capsys=capsys)
    assert status == 0
    assert json.loads(out)["agent_steps_per_second"] > 0
