"""DQN and its kin on tables made up by hand. γ = ½ throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.dqn import DQN, DQNLearner
from rewardlab.nets.heads import QNet
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

ONLINE = [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
SLOW = [[0.0, 0.0], [10.0, 4.0], [0.0, 0.0], [0.0, 0.0]]


def learner_of(lab: Lab, algorithm: DQN, online: Any = ONLINE, slow: Any = SLOW) -> DQNLearner:
    nets = (QNet(lab.table(rows), dueling=False) for rows in (online, slow))
    fresh: DQNLearner = algorithm.init_learner(jax.random.key(0))
    net, target = nets
    return fresh._replace(online=net, target=target)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("DQN", 10.0),  # the target network's own best
        ("DoubleDQN", 4.0),  # action 1 looks best to the online network; the target network says 4
    ],
)
def test_the_value_of_where_the_action_led(lab: Lab, name: str, expected: float) -> None:
    algorithm = lab.make(name)
    actual = algorithm.next_value(learner_of(lab, algorithm), lab.see([1]))
    np.testing.assert_allclose(actual, [expected])


@pytest.mark.parametrize(
    ("terminated", "truncated", "target"),
    [((), (), 6.0), ((), (0,), 6.0), ((0,), (), 1.0), ((0,), (0,), 1.0)],  # 1 + ½ · 10; where it ended, 1
)
def test_one_step_of_learning(lab: Lab, terminated: Any, truncated: Any, target: float) -> None:
    algorithm = lab.make("DQN", gamma=0.5)
    batch = lab.batch([0], [1], [1.0], [1], terminated, truncated)
    key = jax.random.key(0)
    learner, error, metrics = algorithm.update(
        learner_of(lab, algorithm), batch, jnp.ones(1), lab.clock(), jnp.asarray(0), key
    )
    assert float(error[0]) == pytest.approx(target)  # Q(0, 1) was 0
    assert float(metrics["loss"]) == pytest.approx(target**2)
    # gradient of (q − y)² at the entry of state 0, action 1: −2y; the learning rate is 1
    np.testing.assert_allclose(learner.online.net.output.weight - jnp.asarray(ONLINE), [[0, 2 * target]] + [[0, 0]] * 3)
    assert int(learner.opt_step) == 1


def test_importance_weights_scale_each_transitions_loss(lab: Lab) -> None:
    algorithm = lab.make("DQN", gamma=0.5, net={"loss_spec": {"name": "SmoothL1Loss"}})
    batch = lab.batch([0, 2], [0, 1], [3.0, 0.5], [3, 3])
    weight = jnp.asarray([1.0, 0.2])
    args = batch, weight, lab.clock(), jnp.asarray(0), jax.random.key(0)
    _, error, metrics = algorithm.update(learner_of(lab, algorithm), *args)
    np.testing.assert_allclose(error, [3.0, 0.5])
    assert float(metrics["loss"]) == pytest.approx((1.0 * 2.5 + 0.2 * 0.125) / 2)  # Huber: 3 − ½, ½ · ½²


def test_the_target_is_replaced_exactly_at_its_frames(lab: Lab) -> None:
    # 2 steps of 2 environments: 4 frames and 6 updates (3 batches, each twice) per iteration; a period of 10 frames
    keys = {"training_frequency": 2, "training_iter": 3, "training_batch_iter": 2}
    algorithm = lab.make("DQN", env={"num_envs": 2}, net={"update_frequency": 10}, **keys)
    fresh = learner_of(lab, algorithm)
    replaced = []
    for iteration in range(6):
        for step in range(6):
            count = jnp.asarray(iteration * 6 + step)
            clock = lab.clock(iteration, 4 * iteration)
            after = algorithm.follow(fresh.target, fresh.online, clock, count).net.output.weight
            if (after == fresh.online.net.output.weight).all():
                replaced.append((iteration, step))
            else:
                np.testing.assert_array_equal(after, SLOW)
    # frames 8–12 pass 10 and frames 16–20 reach 20: after the last update of iterations 2 and 4
    assert replaced == [(2, 5), (4, 5)]


def test_the_target_follows_by_polyak_at_each_step(lab: Lab) -> None:
    algorithm = lab.make("DQN", net={"update_type": "polyak", "polyak_coef": 0.25})
    fresh = learner_of(lab, algorithm)
    after = algorithm.follow(fresh.target, fresh.online, lab.clock(), jnp.asarray(0))
    np.testing.assert_allclose(after.net.output.weight[1], [7.75, 3.5])  # 10 + ¼ (1 − 10), 4 + ¼ (2 − 4)


def test_without_a_target_network_the_online_one_is_its_own(lab: Lab) -> None:
    algorithm = lab.make("VanillaDQN", gamma=0.5)
    learner = learner_of(lab, algorithm, ONLINE, ONLINE)
    batch, key = lab.batch([0], [1], [1.0], [1]), jax.random.key(0)
    learner, error, _ = algorithm.update(learner, batch, jnp.ones(1), lab.clock(), jnp.asarray(0), key)
    assert float(error[0]) == pytest.approx(2.0)  # 1 + ½ · 2 − 0
    np.testing.assert_array_equal(learner.target.net.output.weight, learner.online.net.output.weight)


def test_a_dueling_net_by_name_or_by_key(lab: Lab) -> None:
    for algorithm in (lab.make("DuelingDQN"), lab.make("DQN", net={"dueling": True})):
        net = algorithm.init_learner(jax.random.key(0)).online
        assert net.dueling
        assert net(lab.see([0, 1])).shape == (2, 2)
    assert lab.make("DuelingDQN").double


def test_acting_explores_by_the_schedule_and_playing_does_not(lab: Lab) -> None:
    explore = {"name": "linear_decay", "start_val": 1.0, "end_val": 0.0, "start_step": 0, "end_step": 100}
    algorithm = lab.make("DQN", env={"num_envs": 64}, explore_var_spec=explore)
    state = algorithm.init(jax.random.key(0))
    state = state._replace(learner=learner_of(lab, algorithm))
    obs = lab.see([1] * 64)  # where action 1 is the best
    noise = algorithm.noise(jax.random.key(1), 1)[0]
    first, _ = algorithm.act(state, obs, lab.clock(0, 0), noise)
    half, _ = algorithm.act(state, obs, lab.clock(5, 50), noise)
    last, _ = algorithm.act(state, obs, lab.clock(10, 100), noise)
    assert 16 < int((first == 0).sum()) < 48
    assert 0 < int((half == 0).sum()) < int((first == 0).sum())
    assert (last == 1).all()
    assert (algorithm.play(algorithm.policy(state), obs, jax.random.key(2)) == 1).all()


def test_learning_waits_for_its_first_frames(lab: Lab) -> None:
    algorithm = lab.make("DQN", training_start_step=6, training_frequency=4, memory={"batch_size": 2})
    state = algorithm.init(jax.random.key(0))
    rollout = lab.rollout([0, 1, 2, 3], [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 0])
    waiting, metrics = algorithm.learn(state, rollout, lab.clock(0, 0), jax.random.key(1))
    assert int(waiting.learner.opt_step) == 0
    assert jnp.isnan(metrics["loss"])
    np.testing.assert_array_equal(waiting.memory.data.reward[:4], [1, 2, 3, 4])
    ready, metrics = algorithm.learn(waiting, rollout, lab.clock(1, 4), jax.random.key(1))
    assert int(ready.learner.opt_step) == 1
    assert jnp.isfinite(metrics["loss"])
    np.testing.assert_array_equal(ready.memory.data.reward[:8], [1, 2, 3, 4] * 2)


def test_what_was_learned_from_gets_its_error_as_priority(lab: Lab) -> None:
    memory = {"name": "PrioritizedReplay", "alpha": 1.0, "epsilon": 0.0, "batch_size": 4, "max_size": 4}
    algorithm = lab.make("DQN", gamma=0.5, training_start_step=0, training_frequency=8, memory=memory)
    state = algorithm.init(jax.random.key(0))
    zeros = [[0.0, 0.0]] * 4
    state = state._replace(learner=learner_of(lab, algorithm, zeros, zeros))
    rewards = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # with Q = 0 they are the errors
    rollout = lab.rollout([0] * 8, [0] * 8, rewards, [1] * 8)
    state, _ = algorithm.learn(state, rollout, lab.clock(), jax.random.key(1))
    priority = np.asarray(state.memory.rule.priority).ravel()[:8]
    changed = priority != 1.0  # all came in at 1; one batch of four was drawn, one from each quarter
    np.testing.assert_allclose(priority[changed], np.asarray(rewards)[changed])
    assert changed.sum() in (3, 4)  # the first has an error of 1


def test_pers_beta_follows_its_schedule(lab: Lab) -> None:
    plain = lab.make("DQN", memory={"name": "PrioritizedReplay"})
    assert [float(plain.beta_spec(jnp.asarray(f))) for f in (0, 500, 1000)] == pytest.approx([0.4, 0.7, 1.0])
    beta = {"name": "no_decay", "start_val": 0.6}
    own = lab.make("DQN", memory={"name": "PrioritizedReplay", "beta_spec": beta})
    assert float(own.beta_spec(jnp.asarray(999))) == pytest.approx(0.6)


@pytest.mark.parametrize("name", ["VanillaDQN", "DQN", "DoubleDQN", "DuelingDQN", "SARSA"])
def test_action_values_need_numbered_actions(lab: Lab, name: str) -> None:
    with pytest.raises(SpecError, match=f"{name} needs discrete actions; for continuous ones take PPO, SAC or CrossQ"):
        lab.make(name, lab.continuous)
    with pytest.raises(SpecError, match="action_policy 'greedy' is unknown; there are epsilon_greedy, boltzmann"):
        lab.make(name, action_policy="greedy")
