"""DQN and its kin: a target network, or none; double targets; a dueling head; prioritized memory by the spec."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from rewardlab.algos.base import Clock, Metrics, made, setting
from rewardlab.algos.off_policy import OffPolicyAlgorithm, OffPolicyState
from rewardlab.envs.base import Discrete
from rewardlab.maths import advantage, loss
from rewardlab.maths.distribution import Boltzmann, EpsilonGreedy
from rewardlab.maths.schedule import Schedule
from rewardlab.memory.rollout import Transition
from rewardlab.nets.heads import QNet
from rewardlab.nets.optimizer import Optimizer
from rewardlab.spec import Spec, SpecError

EXPLORATION: dict[str, type[EpsilonGreedy] | type[Boltzmann]] = {
    "epsilon_greedy": EpsilonGreedy,
    "boltzmann": Boltzmann,
}


def check_q_learner(name: str, action: Any, action_policy: str) -> None:
    """Refuses what an algorithm of action values cannot do."""
    if not isinstance(action, Discrete):
        raise SpecError(f"{name} needs discrete actions; for continuous ones take PPO, SAC or CrossQ")
    if action_policy not in EXPLORATION:
        known = ", ".join(EXPLORATION)
        raise SpecError(f"agent.algorithm.action_policy {action_policy!r} is unknown; there are {known}")


class DQNLearner(NamedTuple):
    """The online network, its slow copy, and how far the optimiser has come."""

    online: QNet
    target: QNet
    optimizer: Any
    opt_step: Array


class DQN(OffPolicyAlgorithm):
    """Q ← r + γ max Q_target(s′, ·) (https://doi.org/10.1038/nature14236). The target is replaced every
    `net.update_frequency` frames, or follows by `net.polyak_coef` at each step (`net.update_type`)."""

    double: ClassVar[bool] = False
    dueling: ClassVar[bool] = False

    action: Discrete = made(static=True)
    action_policy: str = setting("epsilon_greedy")
    explore_var_spec: Schedule = Schedule("linear_decay", 1.0, 0.05, 0.0, 10_000.0)
    optimizer: Optimizer = made()

    def assemble(self, spec: Spec) -> Self:
        """With the networks, memory and optimiser of the spec."""
        check_q_learner(type(self).__name__, self.action, self.action_policy)
        return super().assemble(spec).replace(optimizer=Optimizer.create(spec.agent.net, None, spec.env.max_frame))

    def init_learner(self, key: PRNGKeyArray) -> DQNLearner:
        """Online and target start alike."""
        dueling = self.dueling or self.net_spec.dueling
        net = QNet.create(key, self.net_spec, self.observation, self.action, dueling)
        return DQNLearner(net, net, self.optimizer.init(net), jnp.zeros((), jnp.int32))

    def noise(self, key: PRNGKeyArray, steps: int) -> Array:
        """For exploring."""
        return EXPLORATION[self.action_policy].noise(key, self.noise_shape(steps))

    def act(self, state: OffPolicyState, obs: Array, clock: Clock, noise: Array) -> tuple[Array, dict[str, Array]]:
        """ε-greedy, each environment by itself, or Boltzmann."""
        explore = EXPLORATION[self.action_policy]
        return explore(state.learner.online(obs), self.explore_var_spec(clock.frame)).sample(noise), {}

    def next_value(self, learner: DQNLearner, next_obs: Array) -> Array:
        """The value of where the action led: by the target network; double DQN lets the online network choose."""
        q_target = learner.target(next_obs)
        if not self.double:
            return q_target.max(-1)
        best = jnp.argmax(learner.online(next_obs), axis=-1)
        return jnp.take_along_axis(q_target, best[..., None], axis=-1)[..., 0]

    def update(
        self, learner: DQNLearner, batch: Transition, weight: Array, clock: Clock, count: Array, key: PRNGKeyArray
    ) -> tuple[DQNLearner, Array, Metrics]:
        """One step towards the targets."""
        next_value = self.next_value(learner, batch.next_obs)
        target = advantage.td_target(batch.reward, next_value, batch.terminated, self.gamma)
        regression = loss.REGRESSION[self.net_spec.loss_spec.name]

        def objective(online: QNet) -> tuple[Array, tuple[Array, Array]]:
            chosen = jax.nn.one_hot(batch.action, self.action.n)
            q = jnp.sum(online(batch.obs) * chosen, axis=-1)
            return jnp.mean(weight * regression(q, target)), (target - q, q)

        (value, (error, q)), grads = jax.value_and_grad(objective, has_aux=True)(learner.online)
        online, optimizer, norm = self.optimizer.step(learner.online, grads, learner.optimizer, clock.frame)
        learner = DQNLearner(online, self.follow(learner.target, online, clock, count), optimizer, learner.opt_step + 1)
        return learner, error, {"loss": value, "q": q.mean(), "grad_norm": norm}

    def follow(self, target: QNet, online: QNet, clock: Clock, count: Array) -> QNet:
        """The target network after a step of the online one."""
        if self.net_spec.update_type == "polyak":
            rate = self.net_spec.polyak_coef
            moved: QNet = jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), target, online)
            return moved
        period, span = self.net_spec.update_frequency, self.horizon * self.num_envs
        is_last = (count + 1) % (self.iterations * self.training_batch_iter) == 0
        due = is_last & ((clock.frame + span) // period > clock.frame // period)
        kept: QNet = jax.lax.cond(due, lambda: online, lambda: target)
        return kept

    def log(self, learner: DQNLearner, clock: Clock) -> Metrics:
        """Progress, exploration, learning rate."""
        lr = self.optimizer.learning_rate(clock.frame)
        return {"opt_step": learner.opt_step, "explore_var": self.explore_var_spec(clock.frame), "lr": lr}

    def policy(self, state: OffPolicyState) -> QNet:
        """The online network."""
        online: QNet = state.learner.online
        return online

    def play(self, policy: QNet, obs: Array, key: PRNGKeyArray) -> Array:
        """The best action."""
        return jnp.argmax(policy(obs), axis=-1)


class VanillaDQN(DQN):
    """Without a target network: the online network chases itself."""

    def follow(self, target: QNet, online: QNet, clock: Clock, count: Array) -> QNet:
        """The online network is its own target."""
        return online


class DoubleDQN(DQN):
    """The online network chooses, the target network judges (https://arxiv.org/abs/1509.06461)."""

    double = True


class DuelingDQN(DoubleDQN):
    """Double DQN with a dueling head (https://arxiv.org/abs/1511.06581)."""

    dueling = True
