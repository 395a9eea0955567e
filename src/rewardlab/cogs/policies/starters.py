"""What `rewardlab cogs make-policy` writes: a policy of one's own to start from."""

SCRIPTED = '''"""A scripted CoGsGuard policy. Play it: rewardlab cogs play -p class=my_policy.StarterPolicy"""

import random

from rewardlab.cogs.policies.api import (
    Action,
    AgentObservation,
    AgentPolicy,
    MultiAgentPolicy,
    PolicyEnvInterface,
)

NEIGHBOURS = {"move_north": (-1, 0), "move_south": (1, 0), "move_west": (0, -1), "move_east": (0, 1)}


class StarterAgent(AgentPolicy):
    """Walks where it can, and rests when it is tired."""

    def __init__(self, info: PolicyEnvInterface, agent_id: int) -> None:
        super().__init__(info)
        self.dice = random.Random(agent_id)
        self.centre = (info.obs_height // 2, info.obs_width // 2)

    def step(self, obs: AgentObservation) -> Action:
        row, col = self.centre
        energy = sum(t.value for t in obs.tokens if t.location == self.centre and t.feature.name == "inv:energy")
        if energy < 4:  # a move costs 4
            return Action("noop")
        taken = {t.location for t in obs.tokens if t.feature.name == "tag"}
        free = [name for name, (dr, dc) in NEIGHBOURS.items() if (row + dr, col + dc) not in taken]
        return Action(self.dice.choice(free) if free else "noop")


class StarterPolicy(MultiAgentPolicy):
    """One agent of the kind above for every cog."""

    short_names = ["my_policy"]

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return StarterAgent(self.policy_env_info, agent_id)
'''

TRAINABLE = '''"""A policy with weights: rewardlab cogs play -p class=my_policy.TrainablePolicy,data=weights.npz"""

import numpy as np

from rewardlab.cogs.policies.api import MultiAgentPolicy, PolicyEnvInterface

HIDDEN = 64


class TrainablePolicy(MultiAgentPolicy):
    """Two layers on the raw tokens, drawn from a softmax; `save_policy_data` writes what `data=` reads."""

    short_names = ["my_trainable_policy"]

    def __init__(self, policy_env_info: PolicyEnvInterface, device: str = "cpu", seed: int = 0) -> None:
        super().__init__(policy_env_info, device)
        self.dice = np.random.default_rng(seed)
        inputs, outputs = int(np.prod(policy_env_info.observation_space.shape)), policy_env_info.action_space.n
        self.weights = {
            "hidden": self.dice.normal(0, inputs**-0.5, (inputs, HIDDEN)),
            "output": self.dice.normal(0, 0.01, (HIDDEN, outputs)),
        }

    def step_batch(self, raw_observations, raw_actions) -> None:
        seen = raw_observations.reshape(len(raw_observations), -1) / 255.0
        logits = np.tanh(seen @ self.weights["hidden"]) @ self.weights["output"]
        raw_actions[:] = np.argmax(logits + self.dice.gumbel(size=logits.shape), axis=-1)

    def agent_policy(self, agent_id: int):
        raise NotImplementedError("this policy decides for all its cogs at once: step_batch")

    def network(self):
        return self.weights

    def load_policy_data(self, policy_data_path: str) -> None:
        self.weights = dict(np.load(policy_data_path))

    def save_policy_data(self, policy_data_path: str) -> None:
        np.savez(policy_data_path, **self.weights)
'''
