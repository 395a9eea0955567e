"""Two policies on the same episode: how often each acts how, and where they differ most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rewardlab.cogs.diagnose.witness import Witness
from rewardlab.cogs.rules import MOVES


@dataclass
class Actions:
    """What a policy's cogs did in an episode."""

    counts: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    moved: int = 0

    @property
    def total(self) -> int:
        """All actions."""
        return sum(self.counts.values())

    def share(self, action: str) -> float:
        """The share of an action among all."""
        return self.counts[action] / max(self.total, 1)


def count(witness: Witness) -> Actions:
    """Play the episode."""
    actions = Actions()
    for moment in witness.moments():
        for deed in moment.deeds:
            actions.counts[deed.action] += 1
            if deed.action in MOVES:
                actions.moves += 1
                actions.moved += deed.success
    return actions


def report(names: tuple[str, str], both: tuple[Actions, Actions], top_actions: int, top_deltas: int) -> Iterator[str]:
    """Each policy's actions, then the largest differences (A − B)."""
    for label, name, actions in zip("AB", names, both, strict=True):
        yield f"policy {label}: {name}"
        yield f"  total actions: {actions.total}"
        failed, rate = actions.moves - actions.moved, actions.moved / max(actions.moves, 1)
        yield f"  move attempts: {actions.moves}, success: {actions.moved}, fail: {failed}, success rate: {rate:.1%}"
        for action, times in actions.counts.most_common(top_actions):
            yield f"  {action}: {times} ({actions.share(action):.2%})"
    first, second = both
    known = sorted({*first.counts, *second.counts}, key=lambda a: -abs(first.share(a) - second.share(a)))
    yield "top deltas (A - B):"
    for action in known[:top_deltas]:
        delta = first.counts[action] - second.counts[action]
        yield f"  {action}: {delta:+d} ({100 * (first.share(action) - second.share(action)):+.2f} points)"
