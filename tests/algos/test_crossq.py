"""CrossQ: what it has that SAC has not, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.nets.batch_renorm import BatchRenorm
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

KEY = jax.random.key(0)
RENORM = {"momentum": 0.1, "eps": 0.01, "warmup_steps": 100}
# a critic that is a batch renorm of what it sees, and a table
CRITIC = {
    "critic_net": {
        "type": "TorchArcNet",
        "layers": [{"batch_renorm": RENORM}],
        "optim_spec": {"name": "SGD", "lr": 1.0},
    }
}


def test_there_is_no_target_network(lab: Lab) -> None:
    algorithm = lab.make("CrossQ", agent=CRITIC)
    learner = algorithm.init_learner(KEY)
    assert learner.target is None
    batch = lab.batch([0, 1], [0, 1], [1.0, 2.0], [1, 2])
    learner, _, _ = algorithm.update(learner, batch, jnp.ones(2), lab.clock(), jnp.asarray(0), KEY)
    assert learner.target is None


def test_the_statistics_are_of_here_and_there_together(lab: Lab) -> None:
    algorithm = lab.make("CrossQ", agent=CRITIC)
    learner = algorithm.init_learner(KEY)
    # states 0 and 1 lead to 1 and 1: of four observations one is in state 0, three in state 1
    batch = lab.batch([0, 1], [0, 1], [1.0, 2.0], [1, 1])
    _, (_, _, (stats,)) = algorithm.critic_loss(learner.critics, learner, batch, jnp.ones(2), KEY)
    np.testing.assert_allclose(stats.mean, [[0.025, 0.075, 0.0, 0.0]] * 2, rtol=1e-5)  # 0 + 0.1 · (¼, ¾); both critics
    deviation = np.sqrt(0.25 * 0.75 + 0.01)  # with ε; of the others √0.01
    np.testing.assert_allclose(stats.std[0], [0.9 + 0.1 * deviation] * 2 + [0.91] * 2, rtol=1e-5)
    assert stats.steps.tolist() == [1, 1]


def test_targets_come_from_the_critics_themselves_without_a_gradient(lab: Lab) -> None:
    algorithm = lab.make("CrossQ", agent=CRITIC, gamma=0.5, fixed_alpha=0.25)
    learner = algorithm.init_learner(KEY)
    batch = lab.batch([0, 1], [0, 1], [1.0, 2.0], [1, 2], (1,))
    value, (error, q, _) = algorithm.critic_loss(learner.critics, learner, batch, jnp.ones(2), KEY)
    seen = np.asarray(jnp.concatenate([batch.obs, batch.next_obs]))
    normal = (seen - seen.mean(0)) / np.sqrt(seen.var(0) + 0.01)  # the warm-up: plain batch norm
    last = learner.critics.output
    out = np.einsum("bs,csa->cba", normal, np.asarray(last.weight)) + np.asarray(last.bias)[:, None]
    pi = learner.actor(batch.next_obs)
    p = np.exp(pi.log_probs)
    soft = (p * (out[:, 2:].min(0) - 0.25 * np.log(p))).sum(-1)
    target = np.asarray([1.0 + 0.5 * soft[0], 2.0])
    chosen = np.stack([out[:, 0, 0], out[:, 1, 1]], 1)
    np.testing.assert_allclose(error, target - chosen.min(0), rtol=1e-4)
    assert float(q) == pytest.approx(chosen.mean(), rel=1e-4)
    assert float(value) == pytest.approx(((chosen - target) ** 2).mean(1).sum(), rel=1e-4)


def test_the_actor_waits_for_its_turn(lab: Lab) -> None:
    algorithm = lab.make("CrossQ", agent=CRITIC, policy_delay=3)
    fresh = algorithm.init_learner(KEY)
    batch = lab.batch([0, 1], [0, 1], [1.0, 2.0], [1, 2])
    before = fresh.actor.net.output.weight
    for count, steps in ((0, True), (1, False), (2, False), (3, True)):
        after, _, metrics = algorithm.update(fresh, batch, jnp.ones(2), lab.clock(), jnp.asarray(count), KEY)
        assert bool((after.actor.net.output.weight != before).any()) is steps
        assert bool(after.log_alpha != fresh.log_alpha) is steps
        assert bool(jnp.isfinite(metrics["entropy"])) is steps
        assert (after.critics.output.weight != fresh.critics.output.weight).any()  # the critics never wait


def test_the_entropy_of_the_steps_that_have_one_is_logged(lab: Lab) -> None:
    keys: dict[str, Any] = {"training_start_step": 0, "training_frequency": 8, "training_batch_iter": 2}
    algorithm = lab.make("CrossQ", agent=CRITIC, policy_delay=2, **keys)
    rollout = lab.rollout([0, 1, 2, 3] * 2, [0, 1] * 4, [1.0] * 8, [1, 2, 3, 0] * 2)
    _, metrics = algorithm.learn(algorithm.init(KEY), rollout, lab.clock(), KEY)
    assert jnp.isfinite(metrics["entropy"])  # of the first of two steps


def test_critics_get_batch_renorm_where_their_spec_has_none(lab: Lab) -> None:
    learner = lab.make("CrossQ", net={"hid_layers": [3, 3]}).init_learner(KEY)
    kinds = [type(layer).__name__ for layer in learner.critics.layers]
    assert kinds == ["Linear", "BatchRenorm", "Activation"] * 2
    assert len(learner.stats) == 2
    assert not any(isinstance(layer, BatchRenorm) for layer in learner.actor.net.layers)
    own = lab.make("CrossQ", agent=CRITIC).init_learner(KEY)
    assert [type(layer).__name__ for layer in own.critics.layers] == ["BatchRenorm"]


@pytest.mark.parametrize("name", ["A2C", "DQN", "SAC", "CrossQ"])
def test_batch_renorm_where_nothing_keeps_its_statistics_is_refused(lab: Lab, name: str) -> None:
    with pytest.raises(SpecError, match=r"agent\.net has batch_renorm, which works in the critic_net of CrossQ only"):
        lab.make(name, net={"hid_layers": [3], "batch_renorm": RENORM})
    if name != "CrossQ":
        with pytest.raises(SpecError, match=r"agent\.critic_net has batch_renorm"):
            lab.make(name, agent={"critic_net": {"hid_layers": [3], "batch_renorm": RENORM}})
