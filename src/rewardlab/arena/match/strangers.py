"""A policy whose code runs in a sandbox, behind the API of all policies: observations go in, actions come out."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardlab.arena.match.runner import HEADER
from rewardlab.arena.sandbox import PLACE, PYTHON, Limits, Sandbox, SandboxError, printable
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import AgentPolicy, MultiAgentPolicy, PolicyEnvInterface

START = 60.0  # seconds for loading
MOST_LATE = 10  # a policy that is late so often in a row is stopped
RUNNER = "rewardlab.arena.match.runner"


class StrangersPolicy(MultiAgentPolicy):
    """Speaks with the runner in a sandbox. Once the process is gone every step is an error, which is a noop."""

    def __init__(self, info: PolicyEnvInterface, bundle: Path, limits: Limits, timeout: float) -> None:
        super().__init__(info)
        self._patience = MOST_LATE * timeout
        self._ended = ""
        self._first = True
        self.sandbox = Sandbox(bundle, [*PYTHON, "-m", RUNNER], limits)
        order = {"bundle": PLACE, "limits": asdict(limits), "info": _told(info)}
        try:
            answer = self._ask(json.dumps(order).encode(), START)
        except CogsError:
            self.sandbox.close()
            raise
        if answer:
            self.sandbox.close()
            raise CogsError(f"The policy cannot be loaded: {printable(answer[1:]).rstrip('.')}.")

    def reset(self) -> None:
        """A new episode for the policy inside, unless something of it was stopped for its memory already."""
        self._checked(self._ask(b"", START))
        if excess := self.sandbox.excess():
            raise CogsError(excess)

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """One question, one answer: so many actions, no more and no less."""
        seconds = START if self._first else self._patience
        self._first = False
        answer = self._checked(self._ask(np.ascontiguousarray(raw_observations, np.uint8).tobytes(), seconds))
        if len(answer) != 4 * len(raw_actions):
            raise CogsError(f"it answered {len(answer)} bytes instead of {4 * len(raw_actions)}")
        raw_actions[:] = np.frombuffer(answer, np.int32)

    def _checked(self, answer: bytes) -> bytes:
        if answer[:1] != b"\0":
            raise CogsError(printable(answer[1:]) or "it gave no answer")
        return answer[1:]

    def _ask(self, question: bytes, seconds: float) -> bytes:
        if self._ended:
            raise CogsError(self._ended)
        try:
            self.sandbox.write(HEADER.pack(len(question)) + question, seconds)
            (length,) = HEADER.unpack(self.sandbox.read(HEADER.size, seconds))
            if length > 1 << 16:
                raise SandboxError(f"it answered {length} bytes, which no answer has")
            return self.sandbox.read(length, seconds)
        except SandboxError as error:
            self._ended = str(error)
            self.sandbox.close()
            raise CogsError(self._ended) from error

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """None: all agents are asked at once."""
        raise CogsError("A policy in a sandbox decides for all its cogs at once.")

    def close(self) -> None:
        """End the sandbox."""
        self._ended = self._ended or "the match is over"
        with contextlib.suppress(OSError):
            self.sandbox.close()


def _told(info: PolicyEnvInterface) -> dict[str, Any]:
    return {
        "obs_features": [asdict(feature) for feature in info.obs_features],
        "tags": info.tags,
        "action_names": info.action_names,
        "num_agents": info.num_agents,
        "shape": list(info.observation_space.shape),
        "obs_width": info.obs_width,
        "obs_height": info.obs_height,
    }
