"""What a person or client did that cannot work, said in one sentence, with the HTTP status that says the same."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ArenaError(Exception):
    """A sentence for the person who asked; `status` is what the API answers."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


def missing(what: str, name: str, known: Iterable[str] = ()) -> ArenaError:
    """The error for something that does not exist, with the nearest that does."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ArenaError(f"There is no {what} {name!r}.{hint}", 404)
