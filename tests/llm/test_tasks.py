"""Tasks, rewards and data: by hand, by property, and as reasoning-gym has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewardlab.llm.errors import LlmError
from rewardlab.llm.rewards import extract_answer, format_score, overlong_penalty
from rewardlab.llm.tasks import TASKS, Dataset, Entry, by_position, make_task

WORD = Entry("Spell this word backward (example: sun -> nus): requiz", "ziuqer")


def dataset(*names: str, size: int = 200, seed: int = 0) -> Dataset:
    return Dataset([make_task(name, {}) for name in names], [1.0] * len(names), size, seed)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_of_ours_scores_its_own_answers(name: str) -> None:
    data = dataset(f"builtin:{name}")
    for entry in data:
        assert data.score(entry.answer, entry) == 1
        assert data.score(None, entry) == data.score("", entry) == 0
        assert entry.metadata["terse"] in entry.question or name == "letter_counting"


def test_answers_by_hand() -> None:
    data = dataset("builtin:spell_backward")
    assert data[0].answer == data[0].metadata["terse"][::-1]
    assert {len(entry.answer) for entry in data} == set(range(3, 11))
    sums = dataset("builtin:chain_sum")
    assert int(sums[3].answer) == sum(map(int, sums[3].metadata["terse"].split("+")))


@pytest.mark.parametrize(
    ("answer", "score"),
    [("ziuqer", 1.0), ("ZIUQER", 1.0), ("ziuqxx", 4 / 6), ("iuqerz", 0.0), ("ziuqerz", 0.99), (None, 0.0), ("", 0.0)],
)
def test_partial_credit_counts_places(answer: str | None, score: float) -> None:
    assert by_position(answer, WORD) == pytest.approx(score)


def test_the_last_answer_counts() -> None:
    assert extract_answer("<answer>a</answer> no, <answer> b </answer>") == "b"
    assert extract_answer("<answer>never closed") is None
    assert extract_answer("<answer>two\nlines</answer>") == "two\nlines"


@pytest.mark.parametrize(
    ("text", "loose", "strict"),
    [
        ("<think>a</think><answer>b</answer>", 1.0, 1.0),
        ("<answer>b</answer>", 0.5, 0.0),
        ("</answer><answer></think><think>", 1.0, 0.0),
        ("<think><think>a</think><answer>b</answer>", 1.0, 0.0),
        ("nothing", 0.0, 0.0),
    ],
)
def test_the_form(text: str, loose: float, strict: float) -> None:
    assert format_score(text) == loose
    assert format_score(text, strict=True) == strict


def test_the_overlong_penalty() -> None:
    # free up to 512 − 128 = 384; halfway through the margin −½; from the end on −1
    assert [overlong_penalty(n, 512, 128) for n in (10, 384, 448, 512, 600)] == [0, 0, -0.5, -1, -1]


def test_data_are_a_function_of_the_seed() -> None:
    assert dataset("builtin:chain_sum", seed=1).hash() == dataset("builtin:chain_sum", seed=1).hash()
    assert dataset("builtin:chain_sum", seed=1).hash() != dataset("builtin:chain_sum", seed=2).hash()


def test_tasks_are_mixed_by_weight() -> None:
    tasks = [make_task("builtin:chain_sum", {}), make_task("builtin:letter_sorting", {})]
    share = sum(entry.task for entry in Dataset(tasks, [1.0, 3.0], 1000, 0)) / 1000
    assert 0.7 < share < 0.8


def test_held_out_entries_are_not_trained_on() -> None:
    data = dataset("builtin:spell_backward", size=2000)
    held_out = data.held_out(200)
    assert len(held_out) == 200
    assert {entry.question for entry in held_out}.isdisjoint(entry.question for entry in data)
    with pytest.raises(LlmError, match="held-out entries are not in the training data"):
        Dataset([make_task("builtin:spell_backward", {"max_word_len": 3})], [1.0], 9000, 0).held_out(5000)


def test_reasoning_gym_is_asked_and_scores() -> None:
    pytest.importorskip("reasoning_gym", reason="uv sync --extra reasoning (it needs a C compiler)")
    task = make_task("spell_backward", {"min_word_len": 3, "max_word_len": 10})
    data = Dataset([task], [1.0], 50, 42)
    for entry in list(data)[:10]:
        assert data.score(entry.answer, entry) == 1
        assert entry.answer == entry.metadata["terse"][::-1]
    assert len({entry.question for entry in data}) > 40
    with pytest.raises(LlmError, match="did you mean spell_backward"):
        make_task("spel_backward", {})
    with pytest.raises(LlmError, match="refuses the settings of spell_backward"):
        make_task("spell_backward", {"min_word_length": 3})


@pytest.mark.parametrize(
    ("name", "config", "sentence"),
    [
        ("builtin:spell_backwards", {}, "did you mean builtin:spell_backward?"),
        ("builtin:spell_backward", {"min_word_lne": 3}, "has no setting min_word_lne; did you mean min_word_len?"),
        ("python:nowhere:make", {}, "cannot be imported"),
        ("python:json:nothing", {}, "cannot be imported"),
    ],
)
def test_what_is_not_there_is_said(name: str, config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LlmError) as told:
        make_task(name, config)
    assert sentence in str(told.value)


def test_own_questions_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(json.dumps({"question": f"{i}?", "answer": str(i), "terse": str(i)}) for i in range(5)))
    data = dataset(str(file), size=10)
    assert sorted(entry.answer for entry in list(data)[:5]) == list("01234")
    assert data.score(" 3 ", Entry("3?", "3")) == 1
    file.write_text('{"question": "a"}')
    with pytest.raises(LlmError, match="line 1: an entry is a mapping with the texts question and answer"):
        make_task(str(file), {})
    file.write_text("{")
    with pytest.raises(LlmError, match="line 1 is not JSON"):
        make_task(str(file), {})


def test_own_questions_by_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owntask.py").write_text(
        "def make(index, seed, base=1):\n"
        "    return {'question': f'{index}+{base}', 'answer': str(index + base)}\n"
        "def score(answer, entry):\n"
        "    return 1 / 0 if answer == 'boom' else float(answer == entry['answer'])\n"
        "make.score = score\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    data = Dataset([make_task("python:owntask:make", {"base": 5})], [1.0], 10, 0)
    assert data.score("7", data[2]) == 1
    with pytest.raises(LlmError, match=r"the reward of python:owntask:make failed with ZeroDivisionError"):
        data.score("boom", data[0])
