"""What a completion earns: a right answer, the asked form, and a penalty for coming near the end of the page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rewardlab.llm.tokenizer import TAGS

ANSWER = re.compile(r"<answer>\s?(.*?)\s?</answer>", re.DOTALL)


@dataclass(frozen=True)
class Reward:
    """One completion's."""

    total: float
    accuracy: float
    format: float
    penalty: float
    binary: float  # whether the answer was entirely right


def extract_answer(text: str) -> str | None:
    """What stands in the last pair of answer tags."""
    found = ANSWER.findall(text)
    return str(found[-1]).strip() if found else None


def format_score(text: str, strict: bool = False) -> float:
    """A quarter for each tag that is there; strict: all four once and in order, or nothing."""
    if not strict:
        return sum(tag in text for tag in TAGS) / len(TAGS)
    places = [text.find(tag) for tag in TAGS]
    once = all(text.count(tag) == 1 for tag in TAGS)
    return float(once and places == sorted(places))


def overlong_penalty(length: int, longest: int, margin: int) -> float:
    """0, then falling to −1 over the last `margin` tokens before `longest` (DAPO, https://arxiv.org/abs/2503.14476)."""
    free = longest - margin
    if length <= free:
        return 0.0
    return (free - length) / margin if length <= longest else -1.0
