"""What a person did that cannot work, said in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CogsError(Exception):
    """A sentence for the person at the command line; no traceback is needed to understand it."""


def unknown(what: str, name: str, known: Iterable[str]) -> CogsError:
    """The error for a name that does not exist: it offers the nearest that does, and else lists all."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    offer = f"Did you mean {' or '.join(repr(n) for n in near)}?" if near else f"Known: {', '.join(names)}."
    return CogsError(f"Unknown {what} {name!r}. {offer}")
