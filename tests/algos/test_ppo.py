"""PPO: where it is A2C, and where it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.a2c import ActorCriticState
from rewardlab.maths.normalize import RunningStats
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.nets.heads import Actor, Critic
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

KEY = jax.random.key(0)
LOGITS = [[0.3, -0.2], [1.0, 0.5], [-0.7, 0.1], [0.0, 0.4]]
VALUES = [[0.5], [1.0], [1.5], [2.0]]
ACTIONS = [0, 1, 1, 0]
KEYS: dict[str, Any] = {"gamma": 0.5, "lam": 0.5}
WHOLE: dict[str, Any] = {**KEYS, "time_horizon": 4, "minibatch_size": 4}


def state_of(lab: Lab, algorithm: Any) -> ActorCriticState:
    nets = ActorCritic(Actor(lab.table(LOGITS), None), Critic(lab.table(VALUES)))
    return ActorCriticState(nets, algorithm.optimizer.init(nets), RunningStats.create(()), jnp.asarray(0))


def rollout_of(lab: Lab) -> Any:
    log_pi = jax.nn.log_softmax(jnp.asarray(LOGITS))[jnp.arange(4), jnp.asarray(ACTIONS)]
    kept = {"value": [0.5, 1.0, 1.5, 2.0], "log_prob": log_pi}
    return lab.rollout([0, 1, 2, 3], ACTIONS, [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 0], (3,), (1,), **kept)


def leaves(state: ActorCriticState) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state.nets)]


def test_one_epoch_of_one_minibatch_is_a2c(lab: Lab) -> None:
    """Before the first step π = π_old, so the ratio is one and its gradient that of log π."""
    ppo, a2c = lab.make("PPO", training_epoch=1, **WHOLE), lab.make("A2C", training_frequency=4, **KEYS)
    by_ppo, metrics = ppo.learn(state_of(lab, ppo), rollout_of(lab), lab.clock(), KEY)
    by_a2c, reference = a2c.learn(state_of(lab, a2c), rollout_of(lab), lab.clock(), KEY)
    for one, other in zip(leaves(by_ppo), leaves(by_a2c), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert float(metrics["approx_kl"]) == pytest.approx(0.0, abs=1e-6)
    assert float(metrics["clip_fraction"]) == 0.0
    assert float(metrics["value_loss"]) == pytest.approx(float(reference["value_loss"]), rel=1e-5)


def test_epochs_and_minibatches_make_the_steps(lab: Lab) -> None:
    algorithm = lab.make("PPO", training_epoch=3, **WHOLE | {"minibatch_size": 2})
    state, _ = algorithm.learn(state_of(lab, algorithm), rollout_of(lab), lab.clock(), KEY)
    assert int(state.opt_step) == 6
    uneven = lab.make("PPO", training_epoch=2, **WHOLE | {"minibatch_size": 3})  # one of the four is left out
    state, _ = uneven.learn(state_of(lab, uneven), rollout_of(lab), lab.clock(), KEY)
    assert int(state.opt_step) == 2


def test_the_divergence_ends_an_update(lab: Lab) -> None:
    one = lab.make("PPO", training_epoch=1, **WHOLE)
    many = lab.make("PPO", training_epoch=5, target_kl=1e-6, **WHOLE)
    after_one, _ = one.learn(state_of(lab, one), rollout_of(lab), lab.clock(), KEY)
    after_many, metrics = many.learn(state_of(lab, many), rollout_of(lab), lab.clock(), KEY)
    assert int(after_many.opt_step) == 1  # the first step of 1 takes π far away; no second is made
    for a, b in zip(leaves(after_one), leaves(after_many), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert float(metrics["approx_kl"]) > 1e-6
    patient = lab.make("PPO", training_epoch=5, target_kl=1e6, **WHOLE)
    state, _ = patient.learn(state_of(lab, patient), rollout_of(lab), lab.clock(), KEY)
    assert int(state.opt_step) == 5


def test_the_clip_follows_its_schedule(lab: Lab) -> None:
    schedule = {"name": "linear_decay", "start_val": 0.4, "end_val": 0.0, "start_step": 0, "end_step": 100}
    algorithm = lab.make("PPO", clip_eps_spec=schedule, normalize_advantage=False, **WHOLE)
    nets = state_of(lab, algorithm).nets
    log_prob = jax.nn.log_softmax(jnp.asarray(LOGITS))[0, 0]
    old = log_prob - jnp.log(1.3)  # ρ = 1.3
    batch = (lab.see([0]), jnp.asarray([0]), {"log_prob": old[None]}, jnp.asarray([2.0]), jnp.asarray([0.5]))
    for frame, loss, clipped in ((0, -2.6, 0.0), (50, -2.4, 1.0), (100, -2.0, 1.0)):  # ε = 0.4, 0.2, 0
        _, metrics = algorithm.objective(nets, batch, lab.clock(0, frame))
        assert float(metrics["policy_loss"]) == pytest.approx(loss, rel=1e-5)
        assert float(metrics["clip_fraction"]) == clipped


def test_the_critics_step_is_clipped_if_asked(lab: Lab) -> None:
    # V(0) = ½ now, was 0; the target is 2; ε = 0.2: max((½ − 2)², (0.2 − 2)²) = 3.24
    before = {"log_prob": jnp.zeros(1), "value": jnp.zeros(1)}
    batch = (lab.see([0]), jnp.asarray([0]), before, jnp.ones(1), jnp.asarray([2.0]))
    for clip, expected in ((True, 3.24), (False, 2.25)):
        algorithm = lab.make("PPO", clip_vloss=clip, **WHOLE)
        _, metrics = algorithm.objective(state_of(lab, algorithm).nets, batch, lab.clock())
        assert float(metrics["value_loss"]) == pytest.approx(expected, rel=1e-5)


def test_a_minibatch_larger_than_the_rollout_is_refused(lab: Lab) -> None:
    with pytest.raises(
        SpecError, match=r"minibatch_size is 64, more than a rollout holds \(time_horizon 8 × num_envs 1"
    ):
        lab.make("PPO", time_horizon=8, minibatch_size=64)
