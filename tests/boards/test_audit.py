"""Every rule of the audit, where it fires and where it does not; and that what it refuses is not added."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.boards.runs import CLEAN, finished_run
from typer.testing import CliRunner

from rewardlab.boards import audit as rules
from rewardlab.boards.audit import RULES, audit, audit_plot
from rewardlab.boards.plausible import of_returns
from rewardlab.cli.app import app
from rewardlab.experiment import metrics
from rewardlab.experiment.record import RunFolder, SessionTable, read_columns, write_json
from rewardlab.experiment.table import Columns

REPOSITORY = Path(__file__).parents[2]
SCORES = [400.0, 410.0, 420.0, 430.0]


def broken(path: Path, link: str | None = None) -> dict[str, str]:
    """Each broken rule with the first thing that it says."""
    found: dict[str, str] = {}
    for problem in audit(path, link):
        found.setdefault(problem.rule, problem.text)
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return finished_run(tmp_path / "data", 0, SCORES)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_sound_run_passes(run: RunFolder) -> None:
    assert broken(run.path) == {}


def test_every_committed_run_passes() -> None:
    for path in sorted((REPOSITORY / "benchmarks/runs").glob("*_20*")):
        assert broken(path) == {}, path.name


def test_a_search_is_refused(run: RunFolder) -> None:
    (run.path / "info" / "ppo_cartpole_experiment_df.csv").write_text("trial\n")
    assert broken(run.path) == {"train": "this is a search: run its best spec with train, and add that run"}


def test_a_trial_of_a_search_is_refused_even_without_its_table(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, SCORES, run={**CLEAN, "mode": "search"})
    assert list(broken(run.path)) == ["train"]


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("env.num_envs", 8, "num_envs is 8, the Settings line says 4"),
        ("env.max_frame", 100000, "max_frame is 100000, the Settings line says 200000"),
        ("meta.log_frequency", 1000, "log_frequency is 1000, the Settings line says 500"),
    ],
)
def test_the_settings_line_is_kept(tmp_path: Path, setting: str, value: int, told: str) -> None:
    run = finished_run(tmp_path, 0, SCORES, settings={setting: value})
    assert broken(run.path)["settings"] == told


def test_the_number_of_sessions_is_kept(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, SCORES[:2], settings={"meta.max_session": 2})
    assert broken(run.path)["settings"] == "max_session is 2, the Settings line says 4"


def test_a_run_without_a_row_is_refused(run: RunFolder) -> None:
    edit(run.trial_spec_path, "name: CartPole-v1", "name: MountainCar-v0")
    assert "no row of the board asks for ppo_cartpole on MountainCar-v0" in broken(run.path)["row"]


def test_what_ran_is_what_the_spec_file_says(run: RunFolder) -> None:
    for path in (run.trial_spec_path, run.spec_path):
        edit(path, "gamma: 0.98", "gamma: 0.5")
    assert broken(run.path) == {
        "spec": "agent.algorithm.gamma was 0.5, ppo_classic.yaml says 0.98: commit the spec that ran"
    }


def test_what_stepped_it_and_what_was_filmed_makes_no_other_run(tmp_path: Path) -> None:
    """A run records what stepped its environment, which the shipped spec leaves open."""
    free = {"env.backend": "gymnasium", "meta.film": 1, "meta.checkpoint_seconds": 5.0}
    assert broken(finished_run(tmp_path, 0, SCORES, run=CLEAN, settings=free).path) == {}


def test_a_spec_that_no_file_holds_is_refused(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_spec_file", lambda _: None)
    assert broken(run.path) == {"spec": "no spec file holds ppo_cartpole: add it to specs/"}


@pytest.mark.parametrize(("frames", "fires"), [("200000", True), ("${max_frame}", False)])
def test_a_shared_spec_takes_max_frame_from_outside(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, frames: str, fires: bool
) -> None:
    text = (REPOSITORY / "specs/ppo/ppo_classic.yaml").read_text()
    start = text.index("ppo_cartpole:")
    shared = text[start : text.index("ppo_acrobot:")].replace("CartPole-v1", "${env}").replace("200000", frames)
    path = tmp_path / "ppo_shared.yaml"
    path.write_text(text[:start] + shared)
    monkeypatch.setattr(rules, "_spec_file", lambda _: path)
    told = "ppo_shared.yaml serves several environments and fixes max_frame: write max_frame: ${max_frame}"
    assert broken(run.path) == ({"max_frame": told} if fires else {})


@pytest.mark.parametrize(
    ("git", "told"),
    [
        ({"sha": "0123456789abcdef", "dirty": True}, "the code differed from its commit 012345678"),
        (None, "it names no commit"),
        ({"sha": None, "dirty": True}, "it names no commit"),
    ],
)
def test_the_code_is_a_commit(tmp_path: Path, git: Any, told: str) -> None:
    run = finished_run(tmp_path, 0, SCORES, run={"seed": 0, "git": git})
    assert told in broken(run.path)["git"]


def test_all_sessions_are_there(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, SCORES[:3])
    assert broken(run.path)["sessions"] == "3 of 4 sessions have a table"


def test_a_session_came_to_its_end(run: RunFolder) -> None:
    table = run.session_df_path(2, "train")
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:200]))
    assert broken(run.path)["sessions"] == "session 2 ended at frame 99500 of 200000"


def test_rows_are_not_left_out(run: RunFolder) -> None:
    table = run.session_df_path(1, "train")
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:100] + lines[150:]))
    assert broken(run.path)["sessions"] == "session 1 has 350 rows where 400 are due"


def test_a_run_that_is_not_finished_is_refused(run: RunFolder) -> None:
    run.trial_metrics_path.unlink()
    assert "it is not finished: rewardlab run ppo_cartpole train@" in broken(run.path)["sessions"]


def test_six_hours_are_the_limit(run: RunFolder) -> None:
    run.append_timing({"frame": 300, "frames": 800, "seconds": 6.4 * 3600, "compiled": False})
    assert broken(run.path) == {"time": "it took 6.5 hours, 6 are allowed"}


def test_a_doctored_table_is_found_by_its_moving_average(run: RunFolder) -> None:
    table = run.session_df_path(0, "train")
    edit(table, "200000,25000,400.0,400.0", "200000,25000,500.0,400.0")
    # the mean of the last hundred: (99 · 400 + 500) / 100 = 401
    assert broken(run.path)["numbers"] == ("session 0, row 400: total_reward_ma is 400, the rows above it give 401")


def test_a_doctored_table_with_its_averages_is_found_by_the_metrics(run: RunFolder) -> None:
    table = run.session_df_path(0, "train")
    table.write_text(table.read_text().replace("400.0,400.0", "500.0,500.0"))
    # the mean over sessions: (500 + 410 + 420 + 430) / 4 = 440
    assert broken(run.path)["numbers"] == "total_reward_ma is 415 in the trial's metrics, the tables give 440"


def test_doctored_metrics_are_found(run: RunFolder) -> None:
    edit(run.trial_metrics_path, '"total_reward_ma": 415.0', '"total_reward_ma": 499.0')
    assert broken(run.path) == {"numbers": "total_reward_ma is 499 in the trial's metrics, the tables give 415"}


@pytest.fixture
def real(tmp_path: Path) -> RunFolder:
    """A run that was really trained."""
    (path,) = (REPOSITORY / "benchmarks/runs").glob("ppo_cartpole_20*")
    return RunFolder.open(shutil.copytree(path, tmp_path / path.name))


def doctored(run: RunFolder, change: Callable[[int, Columns], None]) -> dict[str, str]:
    """What the audit says of tables that were changed with everything that is computed from them."""
    sessions = []
    for s in run.sessions():
        columns = read_columns(run.session_df_path(s, "train"))
        change(s, columns)
        average = metrics.moving_average(columns["total_reward"])
        columns["total_reward_ma"] = average.astype(np.float32)
        table = SessionTable()
        table.extend(columns)
        table.write(run.session_df_path(s, "train"))
        sessions.append(metrics.session_metrics(table.columns, metrics.random_baseline("CartPole-v1")))
    write_json(run.trial_metrics_path, {"scalar": metrics.trial_metrics(sessions)["scalar"]})
    return broken(run.path)


def test_what_was_not_doctored_passes(real: RunFolder) -> None:
    assert doctored(real, lambda *_: None) == {}


def scaled(factor: float, most: float) -> Callable[[int, Columns], None]:
    def change(_: int, table: Columns) -> None:
        table["total_reward"] = np.minimum(table["total_reward"] * np.float32(factor), np.float32(most))

    return change


def slowed(_: int, table: Columns) -> None:
    table["frame"] = table["frame"] + 4
    table["t"] = table["t"] + 1


def blanked(_: int, table: Columns) -> None:
    low = np.flatnonzero(table["total_reward"] < 200)
    table["total_reward"][low[low > 50]] = np.nan


def rewound(session: int, table: Columns) -> None:
    table["opt_step"][100] = table["opt_step"][98]


def uncounted(_: int, table: Columns) -> None:
    table["t"] = table["t"] * 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (scaled(1.03, 500), "which is no mean of up to 4 whole returns, and CartPole-v1 gives whole ones"),
        (scaled(2.0, 1e9), "a return is 1000, and CartPole-v1 gives 1 to 500"),
        (slowed, "row 1 is at frame 504, a run with 4 environments logs at 500"),
        (uncounted, "t times 4 environments is not frame"),
        (blanked, "has no total_reward, and the rows before it have one"),
        (rewound, "session 0: opt_step goes back in row 101"),
    ],
    ids=["rescaled", "beyond the range", "frames moved", "steps doubled", "bad rows blanked", "rows rewound"],
)
def test_tables_changed_with_all_their_averages_are_impossible(
    real: RunFolder, change: Callable[[int, Columns], None], told: str
) -> None:
    found = doctored(real, change)
    assert set(found) <= {"possible", "sessions"}
    assert told in found["possible"]


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_a_session_that_is_a_copy_of_another_is_found(real: RunFolder, noise: float) -> None:
    """Also where returns were changed here and there."""
    best: dict[str, Any] = {}

    def copied(session: int, table: Columns) -> None:
        if session == 0:
            best.update({name: column.copy() for name, column in table.items()})
        elif session == 2:
            table.update({name: column.copy() for name, column in best.items()})
            table["total_reward"][::3] -= np.float32(noise)

    assert doctored(real, copied) == {"possible": "sessions 0 and 2 have the same loss: one is a copy of the other"}


def test_sessions_that_were_swapped_contradict_their_own_metrics(run: RunFolder) -> None:
    baseline = metrics.random_baseline("CartPole-v1")
    for s in run.sessions():
        own = metrics.session_metrics(read_columns(run.session_df_path(s, "train")), baseline)
        write_json(run.session_metrics_path(s, "train"), own)
    assert broken(run.path) == {}
    first, second = (run.session_df_path(s, "train") for s in (0, 1))
    text = first.read_text()
    first.write_text(second.read_text())
    second.write_text(text)
    # 410 was session 1's
    assert broken(run.path) == {"possible": "session 0: total_reward_ma is 400 in its metrics, its table gives 410"}


def test_means_over_the_environments_that_have_ended_an_episode_are_possible() -> None:
    """Two of three have: (−300 − 305) / 2; then all: (−300 − 305 − 309) / 3. Single precision keeps seven digits."""
    table: Columns = {"total_reward": np.array([np.nan, -302.5, -914 / 3], np.float32)}
    assert list(of_returns(table, "Acrobot-v1", 3)) == []
    table["total_reward"][1] = -302.45
    assert len(list(of_returns(table, "Acrobot-v1", 3))) == 1


def test_a_lucky_seed_is_no_run_of_the_spec(tmp_path: Path) -> None:
    chosen = finished_run(tmp_path, 0, SCORES, run={**CLEAN, "seed": 7}, settings={"meta.seed": 7})
    assert broken(chosen.path) == {"spec": "meta.seed was 7, ppo_classic.yaml says 0: commit the spec that ran"}
    hidden = finished_run(tmp_path, 1, SCORES, run={**CLEAN, "seed": 7})
    assert broken(hidden.path) == {"seed": "it ran with the seed 7, its spec says 0"}


def test_a_spec_that_was_edited_after_the_run_differs_from_its_copy(run: RunFolder) -> None:
    edit(run.trial_spec_path, "eval_frequency: 10000", "eval_frequency: 20000")
    told = "ppo_cartpole_spec.yaml and ppo_cartpole_t0_spec.yaml differ: one was changed after the run"
    assert broken(run.path) == {"seed": told}


def test_timings_account_for_every_frame(run: RunFolder) -> None:
    lines = run.timing_path.read_text().splitlines(keepends=True)
    run.timing_path.write_text("".join(lines[:-1]))  # the hours that it took are gone
    assert broken(run.path) == {"time": "its timings account for 1600 of 800000 frames"}


def test_a_search_under_another_name_is_still_one(tmp_path: Path) -> None:
    run = finished_run(tmp_path, 0, SCORES, run={**CLEAN, "mode": "search"})
    renamed = run.path.with_name("ppo_cartpole_2026_06_06_060606")
    run.path.rename(renamed)
    assert list(broken(renamed)) == ["train"]


@pytest.fixture
def web() -> Iterator[str]:
    """A server on which /there exists."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path.startswith("/there") else 404)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Silence."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_link_leads_somewhere(run: RunFolder, web: str, tmp_path: Path) -> None:
    name = run.path.name
    assert broken(run.path, f"{web}/there?{name}") == {}
    assert broken(run.path, f"{web}/gone/{name}") == {"link": f"{web}/gone/{name} answers 404: push the run first"}
    assert "does not answer" in broken(run.path, f"http://127.0.0.1:9/{name}")["link"]
    assert broken(run.path, str(run.path)) == {}
    gone = f"file:///nowhere/at/all/{name}"
    assert broken(run.path, gone) == {"link": f"{gone} is not there: push the run first"}


def test_a_link_to_something_else_is_no_link(run: RunFolder, web: str, tmp_path: Path) -> None:
    for link in (f"{web}/there", str(tmp_path)):
        assert "does not name ppo_cartpole_2026_01_01_000000" in broken(run.path, link)["link"]


def test_a_plot_shows_exactly_the_runs_of_its_table(tmp_path: Path) -> None:
    manifest = tmp_path / "CartPole-v1.json"
    assert "has no plot" in str(*audit_plot(manifest, ["a"], {"a": 1}))
    manifest.write_text(json.dumps({"folders": ["a", "b"]}))
    assert list(audit_plot(manifest, ["b", "a"], {"a": 1, "b": 1})) == []
    assert "differ by b, c" in str(*audit_plot(manifest, ["a", "c"], {"a": 1, "c": 1}))
    assert "differ in max_frame: a 1, b 2" in str(*audit_plot(manifest, ["a", "b"], {"a": 1, "b": 2}))


def test_no_rule_is_without_a_test() -> None:
    own = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in RULES if f'"{name}"' not in own] == []


def test_add_refuses_what_the_audit_refuses_and_says_why(run: RunFolder, tmp_path: Path) -> None:
    board = tmp_path / "board"
    dirty = finished_run(tmp_path / "data", 1, SCORES, run={"git": {"sha": "0123456789abcdef", "dirty": True}})
    result = CliRunner().invoke(app, ["bench", "add", str(run.path), str(dirty.path), "--runs", str(board)])
    assert result.exit_code == 1
    assert f"refused: {dirty.path}" in result.stderr
    assert "git: the code differed from its commit" in result.stderr
    assert [p.name for p in board.iterdir()] == [run.path.name]  # what is sound is added all the same


def test_audit_prints_what_it_found(run: RunFolder) -> None:
    result = CliRunner().invoke(app, ["bench", "audit", str(run.path)])
    assert (result.exit_code, result.stdout) == (0, f"{run.path.name}: passes\n")
    run.trial_metrics_path.unlink()
    result = CliRunner().invoke(app, ["bench", "audit", str(run.path), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)[0]["problems"][0]["rule"] == "sessions"


def test_the_committed_board_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    result = CliRunner().invoke(app, ["bench", "audit"])
    assert result.exit_code == 0, result.stdout
