"""Who plays which agents, and what happens when a policy fails: late, broken and nonsensical actions are noops that are
counted, and a policy that never answers stops nobody."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import MultiAgentPolicy
from rewardlab.cogs.rules import ACTIONS

Observations = NDArray[np.uint8]  # [agents, tokens, 3]
Actions = NDArray[np.int32]
NOOP = ACTIONS.index("noop")
PATIENCE = 60.0  # seconds that a policy may take before the first step, when it may still compile


@dataclass
class Faults:
    """What went wrong with a policy in an episode."""

    timeouts: int = 0  # actions that came too late, one per agent
    errors: int = 0  # steps in which it raised
    nonsense: int = 0  # actions that do not exist
    first: str = ""  # the first of them in words

    def note(self, what: str) -> None:
        """Keep the first one's words."""
        self.first = self.first or what

    def __bool__(self) -> bool:
        return bool(self.timeouts or self.errors or self.nonsense)


class _Worker:
    """Calls a policy in a thread of its own, which is left behind if it never comes back."""

    def __init__(self, name: str) -> None:
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.owed = 0  # answers that were not waited for
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (call := self._asked.get()) is not None:
            try:
                self._answers.put((call(), None))
            except BaseException as error:  # a policy may raise anything, SystemExit too
                self._answers.put((None, error))

    def ask(self, call: Any, seconds: float | None) -> tuple[Any, BaseException | None]:
        """The call's answer, or `queue.Empty` if it did not come in time."""
        while self.owed:  # late answers of steps that are over
            self._answers.get(timeout=0 if seconds is None else seconds)
            self.owed -= 1
        self._asked.put(call)
        self.owed += 1
        answer: tuple[Any, BaseException | None] = self._answers.get(timeout=seconds)
        self.owed -= 1
        return answer

    def close(self) -> None:
        """Let the thread end once it is free."""
        self._asked.put(None)


@dataclass
class Seat:
    """A policy and the agents that it plays."""

    policy: MultiAgentPolicy
    agents: Sequence[int]
    name: str
    timeout: float | None = None  # seconds for one step; None: as long as it takes
    strict: bool = False  # a fault is an error at once, in place of a noop
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self._worker = _Worker(self.name)

    def begin(self, observations: Observations) -> None:
        """Let it compile and load on a first observation, unmeasured, then start afresh."""
        self._begin(observations)
        self._refuse()

    def act(self, observations: Observations) -> Actions:
        """The actions of its agents; noops where it failed."""
        actions = self._act(observations)
        self._refuse()
        return actions

    def _refuse(self) -> None:
        if self.strict and self.faults.first:
            raise CogsError(f"Policy {self.name} failed: {self.faults.first}.")

    def _begin(self, observations: Observations) -> None:

        def first() -> None:
            self.policy.reset()
            self._step(observations)
            self.policy.reset()

        try:
            _, error = self._worker.ask(first, PATIENCE)
        except queue.Empty:
            self.faults.note(f"it gave no first action in {PATIENCE:g} seconds")
            return
        if error is not None:
            self.faults.note(told(error))

    def _act(self, observations: Observations) -> Actions:
        actions = np.full(len(self.agents), NOOP, np.int32)
        try:
            taken, error = self._worker.ask(lambda: self._step(observations), self.timeout)
        except queue.Empty:
            self.faults.timeouts += len(self.agents)
            self.faults.note(f"an action took longer than {(self.timeout or 0) * 1000:g} ms")
            return actions
        if error is not None:
            self.faults.errors += 1
            self.faults.note(told(error))
            return actions
        known = (taken >= 0) & (taken < len(ACTIONS))
        if not known.all():
            self.faults.nonsense += int((~known).sum())
            self.faults.note(f"there is no action {int(taken[~known][0])}")
        return np.where(known, taken, NOOP).astype(np.int32)

    def _step(self, observations: Observations) -> Actions:
        """One answer of the policy, for its own agents' eyes only."""
        actions = np.full(len(self.agents), NOOP, np.int32)
        self.policy.step_batch(observations[list(self.agents)], actions)
        return actions

    def infos(self) -> list[dict[str, Any]]:
        """What the policy says about each of its agents, for the views."""
        return [self.policy.infos(i) for i in range(len(self.agents))]

    def close(self) -> None:
        """Let go of the policy's thread."""
        self._worker.close()


def told(error: BaseException) -> str:
    """An exception in a line; one of ours says enough without its name."""
    lines = str(error).strip().splitlines()
    if isinstance(error, CogsError) and lines:
        return lines[0]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def assign(counts: Sequence[int], episode: int, seed: int) -> list[list[int]]:
    """Which agents each policy plays in an episode: shuffled between episodes where there are several policies."""
    order = np.arange(sum(counts))
    if len(counts) > 1:
        order = np.random.default_rng((seed, episode)).permutation(order)
    ends = np.cumsum(counts)
    return [sorted(order[end - count : end].tolist()) for count, end in zip(counts, ends, strict=True)]
