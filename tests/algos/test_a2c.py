"""A2C: its step against a numeric derivative of its objective, and values in units of reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.a2c import A2C, ActorCriticState
from rewardlab.maths.normalize import RunningStats
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.nets.heads import Actor, Critic
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

KEY = jax.random.key(0)
LOGITS = np.asarray([[0.3, -0.2], [1.0, 0.5], [-0.7, 0.1], [0.0, 0.4]])
MEANS = np.asarray([[0.3, -0.2], [1.0, 0.5], [-0.7, 0.1], [0.0, 0.4]])
VALUES = np.asarray([[0.5], [1.0], [1.5], [2.0]])
STATES, NEXT, REWARDS, ACTIONS = [0, 1, 2, 3], [1, 2, 3, 0], [1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0]
REAL_ACTIONS = np.asarray([[0.1, 0.2], [-0.5, 0.9], [0.0, -1.0], [2.0, 0.3]])
# truncated at step 1, terminated at step 3, γ = λ = ½, with V as above:
# δ = 1 + ½·1 − ½, 2 + ½·1½ − 1, 3 + ½·2 − 1½, 4 − 2 = 1, 1¾, 2½, 2;  A = 1 + ¼·1¾, 1¾, 2½ + ¼·2, 2
ADVANTAGES = np.asarray([1.4375, 1.75, 3.0, 2.0])


def state_of(lab: Lab, algorithm: Any, continuous: bool = False) -> ActorCriticState:
    log_std = jnp.asarray([-0.5, 0.2]) if continuous else None
    nets = ActorCritic(Actor(lab.table(LOGITS.tolist()), log_std), Critic(lab.table(VALUES.tolist())))
    return ActorCriticState(nets, algorithm.optimizer.init(nets), RunningStats.create(()), jnp.asarray(0))


def rollout_of(lab: Lab, continuous: bool = False, **extras: Any) -> Any:
    actions = REAL_ACTIONS if continuous else ACTIONS
    return lab.rollout(STATES, actions, REWARDS, NEXT, (3,), (1,), value=VALUES[:, 0], **extras)


def make(lab: Lab, continuous: bool = False, **keys: Any) -> A2C:
    space = lab.continuous if continuous else lab.discrete
    given = {"gamma": 0.5, "lam": 0.5, "training_frequency": 4, "normalize_advantage": False} | keys
    algorithm: A2C = lab.make("A2C", space, **given)
    return algorithm


def test_advantages_and_targets(lab: Lab) -> None:
    algorithm = make(lab)
    advantages, target = algorithm.advantages(state_of(lab, algorithm), rollout_of(lab))
    np.testing.assert_allclose(advantages[:, 0], ADVANTAGES)
    np.testing.assert_allclose(target[:, 0], ADVANTAGES + VALUES[:, 0])


def objective(weights: dict[str, Any], advantages: Any, targets: Any, continuous: bool) -> float:
    """−E[A log π] − 0.1 E[H] + 0.25 E[(V − G)²], in numpy."""
    out = weights["actor"] + weights["bias"]
    if continuous:
        std = np.exp(weights["log_std"])
        log_prob = (-0.5 * ((REAL_ACTIONS - out) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(-1)
        entropy = np.full(4, (0.5 + 0.5 * np.log(2 * np.pi) + np.log(std)).sum())
    else:
        log_pi = out - np.log(np.exp(out).sum(-1, keepdims=True))
        log_prob, entropy = log_pi[range(4), ACTIONS], -(np.exp(log_pi) * log_pi).sum(-1)
    value = weights["critic"][:, 0]
    return float((-advantages * log_prob - 0.1 * entropy + 0.25 * (value - targets) ** 2).mean())


@pytest.mark.parametrize("continuous", [False, True])
def test_the_step_is_the_numeric_derivative_of_the_objective(lab: Lab, continuous: bool) -> None:
    coefficient = {"name": "no_decay", "start_val": 0.1}
    algorithm = make(lab, continuous, entropy_coef_spec=coefficient, val_loss_coef=0.25)
    before = state_of(lab, algorithm, continuous)
    after, metrics = algorithm.learn(before, rollout_of(lab, continuous), lab.clock(), KEY)
    weights = {"actor": MEANS.copy(), "bias": np.zeros(2), "critic": VALUES.copy(), "log_std": np.asarray([-0.5, 0.2])}
    targets, h = ADVANTAGES + VALUES[:, 0], 1e-5
    moved = {
        "actor": (before.nets.actor.net.output.weight, after.nets.actor.net.output.weight),
        "bias": (before.nets.actor.net.output.bias, after.nets.actor.net.output.bias),
        "critic": (before.nets.critic.net.output.weight, after.nets.critic.net.output.weight),  # type: ignore[union-attr]
    }
    if continuous:
        moved["log_std"] = (before.nets.actor.log_std, after.nets.actor.log_std)
    for name, (old, new) in moved.items():
        for at in np.ndindex(weights[name].shape):
            sides = []
            for sign in (1, -1):
                shifted = {**weights, name: weights[name].copy()}
                shifted[name][at] += sign * h
                sides.append(objective(shifted, ADVANTAGES, targets, continuous))
            slope = (sides[0] - sides[1]) / (2 * h)
            assert float(old[at] - new[at]) == pytest.approx(slope, abs=2e-5), (name, at)
    assert float(metrics["loss"]) == pytest.approx(objective(weights, ADVANTAGES, targets, continuous), rel=1e-5)


def test_n_step_returns_in_place_of_gae(lab: Lab) -> None:
    algorithm = make(lab, num_step_returns=2, val_loss_coef=1.0, policy_loss_coef=0.0)
    _, metrics = algorithm.learn(state_of(lab, algorithm), rollout_of(lab), lab.clock(), KEY)
    # γ = ½: 1 + ½·2 + ¼·1½ (cut at step 1), 2 + ½·1½, 3 + ½·4, 4, less V = ½ 1 1½ 2
    errors = np.asarray([2.375 - 0.5, 2.75 - 1, 5 - 1.5, 4 - 2])
    assert float(metrics["value_loss"]) == pytest.approx((errors**2).mean(), rel=1e-5)
    assert float(metrics["loss"]) == pytest.approx((errors**2).mean(), rel=1e-5)


def test_advantages_are_standardised(lab: Lab) -> None:
    algorithm = make(lab, normalize_advantage=True)
    _, metrics = algorithm.learn(state_of(lab, algorithm), rollout_of(lab), lab.clock(), KEY)
    scaled = (ADVANTAGES - ADVANTAGES.mean()) / ADVANTAGES.std()
    log_pi = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    assert float(metrics["policy_loss"]) == pytest.approx(-(scaled * log_pi[range(4), ACTIONS]).mean(), rel=1e-4)


def test_normalised_values_are_used_in_units_of_reward(lab: Lab) -> None:
    algorithm = make(lab, normalize_v_targets=True)
    scale = RunningStats(jnp.asarray(100.0), jnp.asarray(10.0), jnp.asarray(4.0))
    state = state_of(lab, algorithm)._replace(returns=scale)
    value, next_value = algorithm.raw_values(state, rollout_of(lab))
    np.testing.assert_allclose(value[:, 0], 10 + 2 * VALUES[:, 0], rtol=1e-6)
    np.testing.assert_allclose(next_value[:, 0], 10 + 2 * VALUES[NEXT, 0], rtol=1e-6)
    # δ3 = 4 − 14 = −10 (terminated): A3 = −10, and the target is 4, of which the critic learns the scaled one
    advantages, target = algorithm.advantages(state, rollout_of(lab))
    assert float(advantages[3, 0]) == pytest.approx(-10.0)
    assert float(target[3, 0]) == pytest.approx(4.0)
    stats, scaled = algorithm.normalize_targets(state, target)
    raw = np.asarray(target).ravel()
    np.testing.assert_allclose(stats.mean, (100 * 10 + raw.sum()) / 104, rtol=1e-5)
    np.testing.assert_allclose(scaled[:, 0] * np.sqrt(stats.var) + stats.mean, raw, rtol=1e-4)
    after, _ = algorithm.learn(state, rollout_of(lab), lab.clock(), KEY)
    np.testing.assert_allclose(after.returns.mean, stats.mean, rtol=1e-6)


def test_acting_keeps_what_was_believed(lab: Lab) -> None:
    algorithm = make(lab)
    state = state_of(lab, algorithm)
    action, kept = algorithm.act(state, lab.see([1]), lab.clock(), jnp.asarray([[0.0, 9.0]]))  # the noise decides
    assert int(action[0]) == 1
    assert float(kept["log_prob"][0]) == pytest.approx(0.5 - np.log(np.exp(1.0) + np.exp(0.5)), rel=1e-5)
    assert float(kept["value"][0]) == 1.0
    assert int(algorithm.play(algorithm.policy(state), lab.see([1]), KEY)[0]) == 0


def test_a_critic_net_beside_a_shared_body_is_refused(lab: Lab) -> None:
    with pytest.raises(SpecError, match=r"agent.critic_net has no effect where agent.net.shared is true"):
        lab.make("A2C", net={"shared": True}, agent={"critic_net": {"hid_layers": [3]}})
