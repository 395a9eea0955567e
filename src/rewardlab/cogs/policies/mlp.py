"""A policy whose bundle is weights alone: two layers on the raw tokens. Nobody's code runs to play it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import AgentPolicy, MultiAgentPolicy, PolicyEnvInterface

HIDDEN, MOST_HIDDEN = 64, 4096
LAYERS = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")


class MlpPolicy(MultiAgentPolicy):
    """Two layers of weights on the raw tokens, actions drawn from a softmax: class=mlp,data=weights.safetensors."""

    short_names: ClassVar[list[str] | None] = ["mlp"]

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", seed: int = 0) -> None:
        super().__init__(policy_env_info, device)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise CogsError(f"The argument seed is {seed!r}: a whole number from 0 is needed.")
        self._inputs = int(np.prod(policy_env_info.observation_space.shape))
        self._outputs = policy_env_info.action_space.n
        self._seed = seed
        dice = np.random.default_rng(seed)
        self.weights: dict[str, NDArray[np.float32]] = {
            "hidden.weight": dice.normal(0, self._inputs**-0.5, (HIDDEN, self._inputs)).astype(np.float32),
            "hidden.bias": np.zeros(HIDDEN, np.float32),
            "output.weight": dice.normal(0, 0.01, (self._outputs, HIDDEN)).astype(np.float32),
            "output.bias": np.zeros(self._outputs, np.float32),
        }
        self.reset()

    def reset(self) -> None:
        """The same dice for every episode."""
        self._dice = np.random.default_rng(self._seed)

    def step_batch(self, raw_observations: NDArray[np.uint8], raw_actions: NDArray[np.integer[Any]]) -> None:
        """tanh(x W₁ᵀ + b₁) W₂ᵀ + b₂, and one draw from its softmax for each agent."""
        seen = raw_observations.reshape(len(raw_observations), -1).astype(np.float32) / 255
        hidden = np.tanh(seen @ self.weights["hidden.weight"].T + self.weights["hidden.bias"])
        logits = hidden @ self.weights["output.weight"].T + self.weights["output.bias"]
        raw_actions[:] = np.argmax(logits + self._dice.gumbel(size=logits.shape), axis=-1)

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        """None: all agents decide at once."""
        raise CogsError("The policy mlp decides for all its cogs at once.")

    def network(self) -> dict[str, NDArray[np.float32]]:
        """The weights by name."""
        return self.weights

    def load_policy_data(self, policy_data_path: str) -> None:
        """Weights from a safetensors file, which can hold nothing but arrays."""
        try:
            found = load_file(policy_data_path)
        except (SafetensorError, OSError, TypeError, KeyError) as error:  # the last two: a kind of number unknown here
            raise CogsError(f"The weights {policy_data_path} are no readable safetensors file: {error}.") from error
        width = min(found["hidden.bias"].size, MOST_HIDDEN) if "hidden.bias" in found else HIDDEN
        shapes = ((width, self._inputs), (width,), (self._outputs, width), (self._outputs,))
        wanted = dict(zip(LAYERS, shapes, strict=True))
        given = {name: array.shape for name, array in found.items()}
        if given != wanted:
            raise CogsError(f"The weights are {given}; the policy mlp needs {wanted}.")
        if not all(np.isfinite(array.astype(np.float32)).all() for array in found.values()):
            raise CogsError("The weights hold numbers that are not finite.")
        self.weights = {name: array.astype(np.float32) for name, array in found.items()}

    def save_policy_data(self, policy_data_path: str) -> None:
        """Write what `load_policy_data` reads."""
        save_file(self.weights, policy_data_path)
