"""The speedrun board: goals by hand, rows that cannot break their table, runs that are refused, and chance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewardlab.boards import speedrun
from rewardlab.files import RecordError


def run_of(goal_after: int = 3, seconds: float = 2.0, **changes: Any) -> dict[str, Any]:
    """102 + steps of reward 1, then of 2: with a target of 1.02, the goal is two steps after the change."""
    history = [1.0] * (98 + goal_after) + [2.0] * 10
    times = [round(seconds * (i + 1), 3) for i in range(len(history))]
    step = speedrun.goal_step(history, 1.02)
    made = {
        "algorithm": "grpo",
        "target_reward": 1.02,
        "reward_history": history,
        "reward_100step_history": [speedrun.rolling(history[: i + 1]) for i in range(len(history))],
        "seconds_at_step": times,
        "walltime_sec": times[-1] + 1,
        "final_reward": 2.0,
        "goal_reached_at_step": step,
        "goal_walltime_sec": None if step is None else times[step - 1],
        "started": "2026-11-18T23:59:00+00:00",
        "run_id": "ab12cd34",
        "track": "tiny-cpu",
    }
    return made | changes


def file(folder: Path, name: str = "run", **changes: Any) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(run_of(**changes)))
    return path


def test_the_goal_is_the_first_step_whose_last_hundred_reach_it() -> None:
    assert speedrun.goal_step([1.0] * 99, 0.5) is None  # not before there are a hundred
    assert speedrun.goal_step([1.0] * 100, 0.5) == 100
    # after 100 ones, two twos make a mean of 1.02
    assert speedrun.goal_step([1.0] * 100 + [2.0] * 5, 1.02) == 102
    assert speedrun.goal_step([1.0] * 200, 1.02) is None
    assert speedrun.goal_step([1.0] * 200, None) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 sec"),
        (59.9, "59 sec"),
        (60, "1 min 0 sec"),
        (17089, "4 h 44 min 49 sec"),
        (7200, "2 h 0 min"),
        (None, ""),
    ],
)
def test_durations_read_as_the_seeds(seconds: float | None, text: str) -> None:
    assert speedrun.duration(seconds) == text


def test_a_row_holds_the_ten_cells_of_its_run(tmp_path: Path) -> None:
    board = tmp_path / "docs" / "SPEEDRUN.md"
    board.parent.mkdir()
    speedrun.append(file(tmp_path), board, recorder="me", notes="a|b\nc")
    (row,) = speedrun.rows(board)
    assert row.track == "tiny-cpu"
    assert row.cells == {
        "Date": "2026-11-18",  # of the run, not of today
        "Runner": "me",
        "goal@step": "goal(1.02)@step103",
        "time_to_target": "3 min 26 sec",  # 206 s
        "run_id": "[ab12cd34](speedrun/ab12cd34.json)",
        "walltime": "3 min 43 sec",  # 111 steps, and a second more
        "final_reward": "2.0000",
        "algorithm": "grpo",
        "wandb": "",
        "Notes": "a|b c",
    }
    assert "a\\|b c" in board.read_text()
    assert json.loads((board.parent / "speedrun" / "ab12cd34.json").read_text()) == run_of()


def test_a_second_append_of_a_run_is_refused(tmp_path: Path) -> None:
    board = tmp_path / "SPEEDRUN.md"
    speedrun.append(file(tmp_path), board)
    before = board.read_text()
    with pytest.raises(RecordError, match=r"the run ab12cd34 is on .* already"):
        speedrun.append(file(tmp_path, "copy"), board)
    assert board.read_text() == before
    speedrun.append(file(tmp_path, "other", run_id="ef56"), board)
    speedrun.append(file(tmp_path, "third", run_id="0a0a", track="gpu"), board)
    assert [row.track for row in speedrun.rows(board)] == ["tiny-cpu", "tiny-cpu", "gpu"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"goal_reached_at_step": 101}, "goal_reached_at_step is 101, the history says 103"),
        ({"goal_walltime_sec": 20.0}, "goal_walltime_sec is 20.0, the history says 206.0"),
        ({"final_reward": 3.0}, "final_reward is 3.0"),
        ({"seconds_at_step": [1.0]}, "111 rewards and 1 times"),
        ({"reward_100step_history": []}, "reward_100step_history is not the mean"),
        ({"walltime_sec": 10.0}, "walltime_sec is less"),
        ({"seconds_at_step": [float(i) for i in range(111, 0, -1)]}, "time runs backwards"),
    ],
)
def test_a_file_that_does_not_hold_together_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    board = tmp_path / "SPEEDRUN.md"
    with pytest.raises(RecordError, match="does not hold together") as told:
        speedrun.append(file(tmp_path, **changes), board)
    assert sentence in str(told.value)
    assert not board.exists()


def test_files_that_are_none(tmp_path: Path) -> None:
    board = tmp_path / "SPEEDRUN.md"
    with pytest.raises(RecordError, match="not found: run with --speedrun first"):
        speedrun.append(tmp_path / "nothing.json", board)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(RecordError, match="has no algorithm, reward_history"):
        speedrun.append(tmp_path / "a.json", board)
    with pytest.raises(RecordError, match="has no wandb_entity: leave out --include-wandb"):
        speedrun.append(file(tmp_path), board, wandb=True)
    with pytest.raises(RecordError, match="cannot name a file"):
        speedrun.append(file(tmp_path, run_id="../../etc"), board)


def test_wandb_is_linked_where_it_is_asked_for(tmp_path: Path) -> None:
    named = {"wandb_run_id": "vm7g2faq", "wandb_entity": "e", "wandb_project": "p"}
    path = file(tmp_path, **named)
    speedrun.append(path, tmp_path / "a.md")
    assert speedrun.rows(tmp_path / "a.md")[0].cells["wandb"] == ""
    speedrun.append(path, tmp_path / "b.md", wandb=True)
    assert speedrun.rows(tmp_path / "b.md")[0].cells["wandb"] == "[run](https://wandb.ai/e/p/runs/vm7g2faq)"


def test_the_seeds_own_files_can_stand_on_the_board(tmp_path: Path) -> None:
    """Without what ours has more: times in whole seconds, no track."""
    run = run_of()
    run["walltime_at_step"] = [int(t) for t in run.pop("seconds_at_step")]
    for name in ("track", "run_id", "started"):
        del run[name]
    path = tmp_path / "x6kixlrb.json"
    path.write_text(json.dumps(run))
    speedrun.append(path, tmp_path / "SPEEDRUN.md")
    (row,) = speedrun.rows(tmp_path / "SPEEDRUN.md")
    assert (row.track, row.cells["run_id"]) == ("other", "[x6kixlrb](speedrun/x6kixlrb.json)")


def test_a_lead_is_told_from_chance(tmp_path: Path) -> None:
    fast = [file(tmp_path, f"fast{i}", seconds=1.0 + 0.01 * i) for i in range(3)]
    slow = [file(tmp_path, f"slow{i}", seconds=2.0 + 0.01 * i) for i in range(3)]
    assert speedrun.compare(fast, slow).p_value < 1e-4
    assert speedrun.compare(slow, fast).p_value > 0.99
    # by hand: 103, 104, 105 against 104, 105, 106 steps: t = −1 / √(1/3 + 1/3) = −1.2247 with 4 degrees: p = 0.1440
    near = [file(tmp_path, f"n{i}", goal_after=3 + i) for i in range(3)]
    far = [file(tmp_path, f"f{i}", goal_after=4 + i) for i in range(3)]
    assert speedrun.compare(near, far, "goal_reached_at_step").p_value == pytest.approx(0.1440, abs=1e-3)
    with pytest.raises(RecordError, match="needs two runs or more"):
        speedrun.compare(fast[:1], slow)
    with pytest.raises(RecordError, match="their track is"):
        speedrun.compare(fast, [file(tmp_path, "gpu", track="gpu"), *slow])
