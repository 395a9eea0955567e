"""The board: what counts, what does not, and that the page is what the committed runs give."""

import json
from pathlib import Path

import pytest
from tests.boards.runs import finished_run

from rewardlab.boards import benchmark, page, work
from rewardlab.experiment.record import RecordError

REPOSITORY = Path(__file__).parents[2]


def test_a_row_is_computed_from_the_tables(tmp_path: Path) -> None:
    finished_run(tmp_path, 0, [400.0, 410.0, 420.0, 430.0])
    (result,) = benchmark.collect(tmp_path)
    assert (result.target.env, result.target.algorithm) == ("CartPole-v1", "PPO")
    assert result.score == pytest.approx(415.0)
    assert result.fps == pytest.approx(1600.0)  # 800 frames in 0.5 s; the chunk that compiled is left out
    assert result.status == "✅"
    text = page.render([result], Path("runs"), Path("plots"))
    # the deviation of 400, 410, 420, 430 over n − 1 is √(500 / 3) = 12.91
    spec = "[ppo_classic.yaml](../specs/ppo/ppo_classic.yaml) | `ppo_cartpole`"
    link = f"[{result.folder}](../runs/{result.folder})"
    assert f"| PPO | ✅ | 415.00 ± 12.91 | 400 | 498.94 | 1,600 | {spec} | {link} |" in text
    assert "| DQN | – | – | 400 |" in text
    assert "**Settings**: max_frame 2e5 | num_envs 4 | max_session 4 | log_frequency 500" in text
    assert "![CartPole-v1](plots/CartPole-v1.png)" in text
    (row,) = json.loads(page.as_json([result], Path("runs")))["rows"]
    assert (row["status"], row["score"], row["spec_file"]) == ("solved", 415.0, "specs/ppo/ppo_classic.yaml")


@pytest.mark.parametrize(("score", "status"), [(400.0, "✅"), (399.0, "⚠️"), (325.0, "⚠️"), (320.0, "❌"), (10.0, "❌")])
def test_status_is_measured_from_random_play(tmp_path: Path, score: float, status: str) -> None:
    # random play has 22.5: 0.8 of the way to 400 is 22.5 + 0.8 · 377.5 = 324.5
    finished_run(tmp_path, 0, [score] * 4)
    assert benchmark.collect(tmp_path)[0].status == status


def test_the_newest_run_counts_and_not_the_best(tmp_path: Path) -> None:
    finished_run(tmp_path, 1, [500.0] * 4)
    newest = finished_run(tmp_path, 2, [450.0] * 4)
    (result,) = benchmark.collect(tmp_path)
    assert (result.folder, result.score) == (newest.path.name, 450.0)


def test_what_is_kept_gives_the_same_row(tmp_path: Path) -> None:
    folder = finished_run(tmp_path / "data", 0, [400.0, 410.0, 420.0, 430.0])
    (folder.path / "model" / "weights").write_bytes(b"large")
    kept = benchmark.keep(folder.path, tmp_path / "kept")
    assert benchmark.collect(tmp_path / "kept") == benchmark.collect(tmp_path / "data")
    assert not (kept / "model").exists()


def test_an_unfinished_run_is_not_kept(tmp_path: Path) -> None:
    folder = finished_run(tmp_path, 0, [500.0] * 4)
    folder.trial_metrics_path.unlink()
    with pytest.raises(RecordError, match="not finished: resume it with rewardlab run ppo_cartpole train@"):
        benchmark.keep(folder.path, tmp_path / "kept")


def test_the_table_its_json_and_its_plots_are_published_together(tmp_path: Path) -> None:
    finished_run(tmp_path / "runs", 0, [400.0, 410.0, 420.0, 430.0])
    output = tmp_path / "docs" / "BENCHMARKS.md"
    output.parent.mkdir()
    assert work.publish(tmp_path / "runs", output, output.with_name("benchmarks.json")) == 1
    plots = output.parent / "plots"
    assert (plots / "CartPole-v1.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((plots / "CartPole-v1.json").read_text())["folders"] == ["ppo_cartpole_2026_01_01_000000"]
    newer = finished_run(tmp_path / "runs", 5, [300.0] * 4)
    work.publish(tmp_path / "runs", output, output.with_name("benchmarks.json"))
    assert json.loads((plots / "CartPole-v1.json").read_text())["folders"] == [newer.path.name]


def test_coverage_counts_environments_by_category(tmp_path: Path) -> None:
    finished_run(tmp_path, 0, [500.0] * 4)
    table = page.coverage(benchmark.collect(tmp_path))
    assert table["PPO"] == {
        "Classic Control": "1/3",
        "Box2D": "0/2",
        "MuJoCo": "0/11",
        "Playground": "0/54",
        "Atari": "0/57",
    }
    assert table["REINFORCE"] == {"Classic Control": "0/1"}  # the board asks for no more of it
    assert page.categories() == ["Classic Control", "Box2D", "MuJoCo", "Atari", "Playground"]


def test_the_work_loop_tries_what_is_missing(tmp_path: Path) -> None:
    finished_run(tmp_path / "runs", 0, [500.0] * 4)
    missing = [t.algorithm for t in work.missing(tmp_path / "runs", ["CartPole"])]
    assert "PPO" not in missing
    assert "DQN" in missing
    dqn = next(t for t in work.missing(tmp_path / "runs", ["dqn_cartpole"]) if t.algorithm == "DQN")
    first = work.next_attempt(dqn, {"active": [], "completed": []})
    assert first is not None
    assert (first.spec_name, first.mode, first.settings) == ("dqn_cartpole", "train", ())
    tried = {"active": [], "completed": [{"key": first.key}]}
    then = work.next_attempt(dqn, tried)
    assert then is None or then.mode == "search"  # after the last variant, a search


def test_a_run_far_from_its_target_is_tried_again(tmp_path: Path) -> None:
    finished_run(tmp_path / "runs", 0, [100.0] * 4)
    assert "PPO" in [t.algorithm for t in work.missing(tmp_path / "runs", ["CartPole"])]


def test_variants_are_tried_from_long_credit_to_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (REPOSITORY / "specs/ppo/ppo_classic.yaml").read_text()
    body = text[text.index("ppo_cartpole:") : text.index("ppo_acrobot:")]
    for name in ("ppo_atari_lam70", "ppo_atari_lam85", "ppo_atari"):
        shared = body.replace("ppo_cartpole", name).replace("CartPole-v1", "${env}").replace("200000", "${max_frame}")
        text += shared
    path = tmp_path / "ppo.yaml"
    path.write_text(text)
    names = ("ppo_cartpole", "ppo_atari_lam70", "ppo_atari_lam85", "ppo_atari")
    monkeypatch.setattr(work, "names", lambda: [(path, name) for name in names])
    target = next(t for t in benchmark.targets() if t.env == "ALE/Pong-v5" and t.algorithm == "PPO")
    found = [a for a in work.attempts(target) if a.mode == "train"]
    assert [a.spec_name for a in found] == ["ppo_atari", "ppo_atari_lam85", "ppo_atari_lam70"]
    assert found[0].settings == ("env=ALE/Pong-v5", "max_frame=10000000")


def test_the_page_is_what_the_committed_runs_give() -> None:
    runs = Path("benchmarks/runs")
    results = benchmark.collect(REPOSITORY / runs)
    assert len([r for r in results if r.target.category == "Classic Control"]) == 18
    ledger = work.read_ledger(REPOSITORY / runs)
    rendered = page.render(results, runs, Path("plots"), ledger)
    assert (REPOSITORY / "docs/BENCHMARKS.md").read_text(encoding="utf-8") == rendered
    assert (REPOSITORY / "docs/benchmarks.json").read_text(encoding="utf-8") == page.as_json(results, runs)


def test_the_newest_run_of_a_row_is_the_newest_by_time(tmp_path: Path) -> None:
    """A variant whose name comes first in the alphabet, run later."""
    older = finished_run(tmp_path, 5, [400.0] * 4)
    newer = finished_run(tmp_path, 9, [300.0] * 4)
    variant = newer.path.with_name(newer.path.name.replace("ppo_cartpole_", "ppo_a_cartpole_"))
    newer.path.rename(variant)
    for file in variant.rglob("ppo_cartpole_*"):
        file.rename(file.with_name(file.name.replace("ppo_cartpole_", "ppo_a_cartpole_")))
    spec = variant / "ppo_a_cartpole_t0_spec.yaml"
    spec.write_text(spec.read_text().replace("ppo_cartpole:", "ppo_a_cartpole:"))
    assert variant.name < older.path.name
    (result,) = benchmark.collect(tmp_path)
    assert result.folder == variant.name
