"""Tasks whose answers can be checked: our own small ones, reasoning-gym's by name, a Python function, a JSONL file.

An entry is a question with its answer; `metadata["terse"]` is the question without a sentence around it, for models
that read no sentences.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rewardlab.files import read_text
from rewardlab.llm.errors import LlmError
from rewardlab.spec import near

BUILTIN, PYTHON = "builtin:", "python:"
APART = 1_000_003  # between the seeds of training and of evaluation: neighbouring seeds share items
MOST = 1_000_000  # items of a reasoning-gym dataset: each is made when it is asked for


@dataclass(frozen=True)
class Entry:
    """One item."""

    question: str
    answer: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    task: int = 0  # which task of the dataset it is of

    @property
    def plain(self) -> dict[str, Any]:
        """As reasoning-gym and own functions have it."""
        return {"question": self.question, "answer": self.answer, "metadata": dict(self.metadata)}


class Task(Protocol):
    """Makes entries and scores answers."""

    name: str

    def entry(self, index: int, seed: int) -> Entry:
        """The entry of an index: a function of both numbers."""

    def score(self, answer: str | None, entry: Entry) -> float:
        """From 0 to 1."""


def _length(dice: random.Random, low: int, high: int) -> int:
    """A length; longer ones are likelier, as in a dictionary."""
    lengths = range(low, high + 1)
    return dice.choices(lengths, [n - low + 1 for n in lengths])[0]


def _word(dice: random.Random, low: int, high: int) -> str:
    """A word that can be spoken, of letters as frequent as English has them."""
    sounds = (
        ("bcdfghjklmnpqrstvwxyz", (2, 4, 4, 2, 2, 4, 1, 1, 6, 4, 7, 3, 1, 7, 7, 8, 1, 2, 1, 2, 1)),
        (
            "aeiou",
            (8, 12, 7, 7, 3),
        ),
    )
    kind = dice.randrange(2)
    letters = ""
    for _ in range(_length(dice, low, high)):
        letters += dice.choices(*sounds[kind])[0]
        kind = 1 - kind if dice.random() < 0.85 else kind
    return letters


def _spell_backward(dice: random.Random, min_word_len: int = 3, max_word_len: int = 10) -> Entry:
    word = _word(dice, min_word_len, max_word_len)
    question = f"Spell this word backward (example: sun -> nus): {word}"
    return Entry(question, word[::-1], {"terse": word})


def _chain_sum(dice: random.Random, min_terms: int = 2, max_terms: int = 4, max_value: int = 99) -> Entry:
    terms = [dice.randint(0, max_value) for _ in range(dice.randint(min_terms, max_terms))]
    text = "+".join(map(str, terms))
    return Entry(f"State the final answer to the following sum: {text}", str(sum(terms)), {"terse": text})


def _letter_sorting(dice: random.Random, min_word_len: int = 3, max_word_len: int = 8) -> Entry:
    word = _word(dice, min_word_len, max_word_len)
    return Entry(f"Sort the letters of this word from a to z: {word}", "".join(sorted(word)), {"terse": word})


def _letter_counting(dice: random.Random, min_word_len: int = 3, max_word_len: int = 10) -> Entry:
    word = _word(dice, min_word_len, max_word_len)
    letter = dice.choice(word)
    question = f'How many times does the letter "{letter}" appear in the word "{word}"?'
    return Entry(question, str(word.count(letter)), {"terse": f"{letter} {word}"})


def exact(answer: str | None, entry: Entry) -> float:
    """1 for the same text."""
    return float(answer is not None and answer.strip() == entry.answer.strip())


def by_position(answer: str | None, entry: Entry) -> float:
    """The share of places that hold the right letter, whatever its case; 1 for the whole word alone."""
    if answer is None:
        return 0.0
    given, expected = answer.lower(), entry.answer.lower()
    if given == expected:
        return 1.0
    share = sum(a == b for a, b in zip(given, expected, strict=False)) / len(expected)
    return min(share, 0.99)  # the right letters and more are not the word


Maker = Callable[..., Entry]
Scorer = Callable[[str | None, Entry], float]
TASKS: dict[str, tuple[Maker, Scorer]] = {
    "spell_backward": (_spell_backward, by_position),
    "chain_sum": (_chain_sum, exact),
    "letter_sorting": (_letter_sorting, by_position),
    "letter_counting": (_letter_counting, exact),
}


class BuiltinTask:
    """One of ours."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name = name
        short = name.removeprefix(BUILTIN)
        if short not in TASKS:
            nearest = near(short, TASKS)
            hint = f"did you mean {BUILTIN}{nearest}?" if nearest else f"there are {', '.join(TASKS)}"
            raise LlmError(f"there is no task {name}; {hint}")
        self._make, self._score = TASKS[short]
        self._config = dict(config)
        names = self._make.__code__.co_varnames[1 : self._make.__code__.co_argcount]
        for key in config:
            if key not in names:
                nearest = near(key, names)
                raise LlmError(
                    f"{name} has no setting {key}; "
                    + (f"did you mean {nearest}?" if nearest else f"there are {', '.join(names)}")
                )

    def entry(self, index: int, seed: int) -> Entry:
        """Drawn by dice of its own."""
        return self._make(random.Random(f"{self.name} {seed} {index}"), **self._config)

    def score(self, answer: str | None, entry: Entry) -> float:
        """By the task's rule."""
        return self._score(answer, entry)


class GymTask:
    """A dataset of reasoning-gym."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the packages that it imports
                import reasoning_gym
                from reasoning_gym.factory import DATASETS
        except ImportError as error:
            hint = f", or write {BUILTIN}{name}" if name in TASKS else ""
            raise LlmError(f'the task {name} needs reasoning-gym: pip install "rewardlab[reasoning]"{hint}') from error
        if name not in DATASETS:
            nearest = near(name, DATASETS)
            raise LlmError(f"reasoning-gym has no task {name}" + (f"; did you mean {nearest}?" if nearest else ""))
        self.name, self._gym, self._config = name, reasoning_gym, dict(config)
        self._made: dict[int, Any] = {}
        self._dataset(0)  # a setting that it does not have is an error now

    def _dataset(self, seed: int) -> Any:
        if seed not in self._made:
            try:
                self._made[seed] = self._gym.create_dataset(self.name, seed=seed, size=MOST, **self._config)
            except (TypeError, ValueError, AssertionError) as error:
                raise LlmError(f"reasoning-gym refuses the settings of {self.name}: {error}") from error
        return self._made[seed]

    def entry(self, index: int, seed: int) -> Entry:
        """As the dataset of this seed has it."""
        made = self._dataset(seed)[index]
        metadata = dict(made.get("metadata") or {})
        if isinstance(word := metadata.get("word"), str):
            metadata["terse"] = word
        return Entry(str(made["question"]), str(made["answer"]), metadata)

    def score(self, answer: str | None, entry: Entry) -> float:
        """As the dataset scores it."""
        return float(self._dataset(0).score_answer(answer, entry=entry.plain))


class FunctionTask:
    """`python:module:function`: function(index, seed, **config) makes an entry; its attribute `score` judges."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name, self._config = name, dict(config)
        module, _, function = name.removeprefix(PYTHON).partition(":")
        try:
            self._make = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise LlmError(f"{name} cannot be imported, expected python:module:function: {error}") from error

    def entry(self, index: int, seed: int) -> Entry:
        """What the function makes."""
        return _entry(self._make(index, seed, **self._config), self.name)

    def score(self, answer: str | None, entry: Entry) -> float:
        """By the function's own rule, or the same text."""
        rule = getattr(self._make, "score", None)
        return exact(answer, entry) if rule is None else float(rule(answer, entry.plain))


class FileTask:
    """A JSONL file of questions and answers, in an order by the seed."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name = name
        if config:
            raise LlmError(f"{name} takes no settings, but {', '.join(config)} is given")
        self._entries = []
        for number, line in enumerate(read_text(Path(name)).splitlines(), 1):
            if line.strip():
                try:
                    self._entries.append(_entry(json.loads(line), f"{name}, line {number}"))
                except json.JSONDecodeError as error:
                    raise LlmError(f"{name}, line {number} is not JSON: {error.msg}") from error
        if not self._entries:
            raise LlmError(f"{name} holds no entries")

    def entry(self, index: int, seed: int) -> Entry:
        """Each in turn; every round in its own order."""
        number, place = divmod(index, len(self._entries))
        order = list(range(len(self._entries)))
        random.Random(f"{self.name} {seed} {number}").shuffle(order)
        return self._entries[order[place]]

    def score(self, answer: str | None, entry: Entry) -> float:
        """The same text."""
        return exact(answer, entry)


def _entry(made: Any, where: str) -> Entry:
    if not isinstance(made, Mapping) or not all(isinstance(made.get(k), str) for k in ("question", "answer")):
        raise LlmError(f"{where}: an entry is a mapping with the texts question and answer")
    metadata = {**dict(made.get("metadata") or {}), **({"terse": made["terse"]} if "terse" in made else {})}
    return Entry(made["question"], made["answer"], metadata)


def make_task(name: str, config: Mapping[str, Any]) -> Task:
    """The task of a name."""
    if name.startswith(BUILTIN):
        return BuiltinTask(name, config)
    if name.startswith(PYTHON):
        return FunctionTask(name, config)
    if name.endswith(".jsonl"):
        return FileTask(name, config)
    return GymTask(name, config)


class Dataset:
    """Entries of several tasks, drawn by weight; a function of the seed."""

    def __init__(self, tasks: Sequence[Task], weights: Sequence[float], size: int, seed: int) -> None:
        self.tasks, self.weights, self.size, self.seed = tasks, weights, size, seed

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Entry:
        which = random.Random(f"{self.seed} {index}").choices(range(len(self.tasks)), self.weights)[0]
        entry = self.tasks[which].entry(index, self.seed)
        return Entry(entry.question, entry.answer, entry.metadata, which)

    def __iter__(self) -> Iterator[Entry]:
        return (self[i] for i in range(self.size))

    def score(self, answer: str | None, entry: Entry) -> float:
        """By the entry's own task; a rule that fails is an error that names it."""
        task = self.tasks[entry.task]
        try:
            return task.score(answer, entry)
        except Exception as error:
            raise LlmError(
                f"the reward of {task.name} failed with {type(error).__name__}: {error} "
                f"(question: {entry.question[:80]!r})"
            ) from error

    def hash(self) -> str:
        """SHA-256 of every question and answer, in order."""
        digest = hashlib.sha256()
        for entry in self:
            digest.update(json.dumps([entry.question, entry.answer]).encode())
        return digest.hexdigest()

    def held_out(self, size: int) -> list[Entry]:
        """Entries of the same tasks of which none is in here."""
        known = {entry.question for entry in self}
        other = Dataset(self.tasks, self.weights, size, self.seed + APART)
        found: list[Entry] = []
        for index in range(20 * size):
            if (entry := other[index]).question not in known:
                known.add(entry.question)
                found.append(entry)
            if len(found) == size:
                return found
        raise LlmError(f"only {len(found)} of {size} held-out entries are not in the training data: ask for fewer")
