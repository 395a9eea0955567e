"""Language models' runs on their pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from rewardlab.arena.place import Place
from rewardlab.web.app import whole_app
from rewardlab.web.language import curve

NAME = "llm_grpo_2026_01_31_120000"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three steps that was killed while it wrote the fourth."""
    folder = tmp_path / "data" / NAME
    (folder / "info").mkdir(parents=True)
    for stem in ("llm_grpo", "llm_grpo_t0"):
        (folder / f"{stem}_spec.yaml").write_text("llm_grpo:\n  loss: grpo\n")
    rows = [{"step": i, "reward": i / 2, "seconds": 2.0 * i, "accuracy": 0.25} for i in (1, 2, 3)]
    rows[-1]["sample"] = {"question": "<b>2 + 2</b>", "completion": "four", "reward": 1.5}  # type: ignore[assignment]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"step": 4, "rew'
    (folder / "info" / "llm_grpo_t0_steps.jsonl").write_text(text)
    return folder


def test_a_curve_is_the_mean_of_the_last_hundred() -> None:
    assert curve([1.0, 3.0]) == [(1.0, 1.0), (2.0, 2.0)]
    assert curve([0.0] * 100 + [100.0])[-1][1] == pytest.approx(1.0)  # of 99 zeros and one hundred
    assert curve([]) == []


def test_its_page_tells_what_it_has_done_so_far(run: Path) -> None:
    client = TestClient(whole_app(Place(run.parent / "none"), run.parent))
    listed = client.get("/runs").text
    assert f"/runs/{NAME}" in listed
    assert "<b>1.00</b>" in listed  # (½ + 1 + 1½) / 3
    assert "not finished" not in listed.partition(NAME)[2].partition("</tr>")[0]
    text = client.get(f"/runs/{NAME}").text
    for fact in ("<dt>steps</dt><dd>3</dd>", "<dt>reward_100step</dt><dd>1.00</dd>", "<dt>seconds</dt><dd>6.00</dd>"):
        assert fact in text
    assert text.count("<polyline") == 1
    assert "&lt;b&gt;2 + 2&lt;/b&gt;" in text
    assert "rewardlab verify" not in text  # which trains the lab's specs again


def test_a_run_without_a_step_is_not_finished(run: Path) -> None:
    (run / "info" / "llm_grpo_t0_steps.jsonl").write_text("")
    client = TestClient(whole_app(Place(run.parent / "none"), run.parent))
    assert "not finished" in client.get("/runs").text
    assert "It is not finished" in client.get(f"/runs/{NAME}").text
