"""A policy that fails harms nobody else, and what it did wrong is counted."""

import time
from typing import Any

import numpy as np
import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.evaluate.seats import Seat, assign
from rewardlab.cogs.policies.api import AgentPolicy, MultiAgentPolicy, PolicyEnvInterface
from rewardlab.cogs.rules import ACTIONS, Rules

INFO = PolicyEnvInterface.from_rules(Rules())
SEEN = np.full((8, 200, 3), 255, np.uint8)


class Scripted(MultiAgentPolicy):
    """Does what a test says; the first two calls are the warm-up's reset and step."""

    def __init__(self, act: Any) -> None:
        super().__init__(INFO)
        self.act, self.calls = act, 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        raise NotImplementedError

    def reset(self) -> None:
        self.calls = 0

    def step_batch(self, raw_observations: Any, raw_actions: Any) -> None:
        self.calls += 1
        raw_actions[:] = self.act(self.calls, raw_observations)


def seat(act: Any, **options: Any) -> Seat:
    return Seat(Scripted(act), (1, 4, 5), "tested", **options)


def test_a_policy_sees_and_moves_its_own_agents_only() -> None:
    shapes = []

    def act(call: int, seen: Any) -> Any:
        shapes.append(seen.shape)
        return np.array([1, 2, 3])

    watched = seat(act)
    watched.begin(SEEN)
    assert watched.act(SEEN).tolist() == [1, 2, 3]
    assert shapes == [(3, 200, 3)] * 2
    assert not watched.faults


def test_a_policy_that_raises_does_nothing_and_is_counted() -> None:
    def act(call: int, seen: Any) -> Any:
        if call == 2:
            raise ZeroDivisionError("no\nmore")
        return 1

    watched = seat(act)
    watched.begin(SEEN)
    assert [watched.act(SEEN).tolist() for _ in range(3)] == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    assert (watched.faults.errors, watched.faults.first) == (1, "ZeroDivisionError: no")


@pytest.mark.parametrize("action", [-1, len(ACTIONS), 10**6])
def test_an_action_that_does_not_exist_is_a_noop_and_is_counted(action: int) -> None:
    watched = seat(lambda *_: np.array([2, action, 3]))
    watched.begin(SEEN)
    assert watched.act(SEEN).tolist() == [2, 0, 3]
    assert watched.faults.nonsense == 1
    assert watched.faults.first == f"there is no action {action}"


def test_a_late_answer_is_a_noop_and_never_counts_for_a_later_step() -> None:
    def act(call: int, seen: Any) -> Any:
        if call == 1 and slow:
            time.sleep(0.3)
        return call

    slow: list[int] = []
    watched = seat(act, timeout=0.1)
    watched.begin(SEEN)
    slow.append(1)
    watched.policy.calls = 0  # type: ignore[attr-defined]
    assert watched.act(SEEN).tolist() == [0, 0, 0]
    time.sleep(0.4)
    assert watched.act(SEEN).tolist() == [2, 2, 2]  # the answer to this step, not the late one
    assert watched.faults.timeouts == 3  # one per agent


def test_a_policy_that_hangs_stops_nobody() -> None:
    hangs: list[int] = []

    def act(call: int, seen: Any) -> Any:
        time.sleep(1000 if hangs else 0)
        return 1

    watched = seat(act, timeout=0.05)
    watched.begin(SEEN)
    hangs.append(1)
    begun = time.monotonic()
    assert [watched.act(SEEN).tolist() for _ in range(4)] == [[0, 0, 0]] * 4
    assert time.monotonic() - begun < 5
    assert watched.faults.timeouts == 12


def test_where_somebody_watches_a_fault_is_an_error() -> None:
    watched = seat(lambda *_: np.array([1, 99, 1]), strict=True)
    with pytest.raises(CogsError, match="Policy tested failed: there is no action 99"):
        watched.act(SEEN)


def test_agents_are_shuffled_between_episodes_and_shared_out_completely() -> None:
    rounds = [assign([3, 5], episode, seed=7) for episode in range(20)]
    assert all(sorted(mine + theirs) == list(range(8)) for mine, theirs in rounds)
    assert all(len(mine) == 3 for mine, _ in rounds)
    assert len({tuple(mine) for mine, _ in rounds}) > 5
    assert rounds == [assign([3, 5], episode, seed=7) for episode in range(20)]
    assert assign([8], 3, seed=7) == [list(range(8))]  # one policy: nothing to shuffle
