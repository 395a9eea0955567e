"""SAC: soft values, targets, temperature and slow copies, on tables. γ = ½, α = ½."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.algos.sac import SAC, SACLearner
from rewardlab.maths.distribution import Categorical, TanhNormal
from rewardlab.nets.heads import Actor, SquashedActor
from rewardlab.spec import SpecError

if TYPE_CHECKING:
    from tests.algos.conftest import Lab

KEY = jax.random.key(0)
LOGITS = [[0.0, 0.0], [math.log(1.0), math.log(3.0)], [0.0, 0.0], [0.0, 0.0]]  # in state 1: π = ¼ ¾
FIRST = [[1.0, 0.0], [2.0, 9.0], [0.0, 0.0], [0.0, 0.0]]
SECOND = [[3.0, 0.0], [6.0, 4.0], [0.0, 0.0], [0.0, 0.0]]


def learner_of(lab: Lab, algorithm: SAC, **parts: Any) -> SACLearner:
    """A learner on tables; the critics disagree, and so do they and their slow copies."""
    fresh: SACLearner = algorithm.init_learner(KEY)
    zeros = [[0.0, 0.0]] * 4
    given: dict[str, Any] = {"actor": Actor(lab.table(LOGITS), None), "critics": lab.twins(zeros, zeros)}
    return fresh._replace(**(given | {"target": lab.twins(FIRST, SECOND)} | parts))


def make(lab: Lab, **keys: Any) -> SAC:
    algorithm: SAC = lab.make("SAC", gamma=0.5, **({"init_alpha": 0.5} | keys))
    return algorithm


# V(1) = Σ π (min Q − α log π) = ¼ (2 − ½ ln ¼) + ¾ (4 − ½ ln ¾)
SOFT = 0.25 * (2 - 0.5 * math.log(0.25)) + 0.75 * (4 - 0.5 * math.log(0.75))


@pytest.mark.parametrize(("double_q", "expected"), [("min", [2.5, 0.0]), ("average", [3.0, 1.5])])
def test_values_by_the_lower_critic_or_by_both(lab: Lab, double_q: str, expected: list[float]) -> None:
    algorithm: SAC = lab.make("SAC", lab.continuous, init_alpha=0.5, double_q=double_q)
    q = jnp.asarray([[[3.0], [1.0]], [[2.0], [4.0]]])  # two critics, two observations
    pi = TanhNormal(jnp.zeros((2, 2)), jnp.zeros((2, 2)))
    # 2 + ½ · 1, 1 − ½ · 2 | 2½ + ½ · 1, 2½ − ½ · 2
    actual = algorithm.soft_value(algorithm.init_learner(KEY), pi, jnp.asarray([-1.0, 2.0]), q)
    np.testing.assert_allclose(actual, expected)
    with pytest.raises(SpecError, match="double_q is 'mean', expected min or average"):
        lab.make("SAC", double_q="mean")


@pytest.mark.parametrize(("terminated", "truncated", "follows"), [((), (), 1), ((), (0,), 1), ((0,), (), 0)])
def test_discrete_targets(lab: Lab, terminated: Any, truncated: Any, follows: int) -> None:
    algorithm = make(lab)
    learner = learner_of(lab, algorithm)
    batch = lab.batch([0], [1], [1.0], [1], terminated, truncated)
    value, (error, _, _) = algorithm.critic_loss(learner.critics, learner, batch, jnp.ones(1), KEY)
    target = 1.0 + 0.5 * SOFT * follows
    assert float(error[0]) == pytest.approx(target, rel=1e-5)  # the critics say 0
    assert float(value) == pytest.approx(2 * target**2, rel=1e-5)  # both critics' squared errors


def test_continuous_critics_see_the_action_and_aim_at_the_soft_value(lab: Lab) -> None:
    algorithm: SAC = lab.make("SAC", lab.continuous, gamma=0.5, init_alpha=0.5)
    still = [[0.0] * 2 + [-5.0] * 2] * 4  # mean 0 and the smallest deviation
    sums = [[0.0]] * 4 + [[1.0], [10.0]]  # Q = a₀ + 10 a₁ (+ 1 for the second)
    fresh = algorithm.init_learner(KEY)
    learner = fresh._replace(
        actor=SquashedActor(lab.table(still)), critics=lab.twins(sums, sums), target=lab.twins(sums, sums)
    )
    batch = lab.batch([0], [[0.5, 0.1]], [1.0], [1])
    _, (error, q, _) = algorithm.critic_loss(learner.critics, learner, batch, jnp.ones(1), KEY)
    assert float(q) == pytest.approx(1.5)  # 0.5 + 10 · 0.1
    pi = learner.actor(batch.next_obs)
    action, log_prob = pi.sample_log_prob(pi.noise(KEY, (1, 2)))
    soft = float(action[0, 0] + 10 * action[0, 1] - 0.5 * log_prob[0])
    assert float(error[0]) == pytest.approx(1.0 + 0.5 * soft - 1.5, rel=1e-4)


def test_the_actor_moves_towards_the_better_action_and_towards_entropy(lab: Lab) -> None:
    batch = lab.batch([1], [0], [0.0], [0])
    better = lab.twins([[0, 0], [5.0, 1.0], [0, 0], [0, 0]], [[0, 0], [6.0, 1.0], [0, 0], [0, 0]])
    cool = make(lab, fixed_alpha=1e-4)
    after, _ = cool.update_actor(learner_of(lab, cool, critics=better), batch, lab.clock(), KEY)
    gap = after.actor.net.output.weight[1, 0] - after.actor.net.output.weight[1, 1]
    # −V by the first logit: −π₀ (1 − π₀)(Q₀ − Q₁) = −3/16 · 4; by the second its opposite; the learning rate is 1
    assert float(gap) == pytest.approx(-math.log(3) + 2 * 0.75, rel=1e-3)
    warm = make(lab, fixed_alpha=1.0)  # with nothing to gain, the ¼ ¾ evens out
    after, entropy = warm.update_actor(learner_of(lab, warm), batch, lab.clock(), KEY)
    gap = after.actor.net.output.weight[1, 1] - after.actor.net.output.weight[1, 0]
    assert 0 < float(gap) < math.log(3)
    assert float(entropy) == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)), rel=1e-5)


@pytest.mark.parametrize("goal", [0.5, 0.9, None])
def test_the_temperature_falls_above_its_entropy_and_rises_below(lab: Lab, goal: float | None) -> None:
    # in state 0 the entropy is ln 2 = 0.693; by default it aims at 0.98 ln 2
    keys = {} if goal is None else {"target_entropy": goal}
    algorithm = make(lab, init_alpha=1.0, **keys)
    before = learner_of(lab, algorithm)
    after, entropy = algorithm.update_actor(before, lab.batch([0], [0], [0.0], [1]), lab.clock(), KEY)
    assert float(entropy) == pytest.approx(math.log(2), rel=1e-5)
    goal = 0.98 * math.log(2) if goal is None else goal
    # log α ← log α − α (H − goal), the learning rate being 1
    assert float(after.log_alpha) == pytest.approx(-(math.log(2) - goal), rel=1e-3)


def test_the_temperature_can_be_held(lab: Lab) -> None:
    batch = lab.batch([0], [0], [0.0], [1])
    fixed = make(lab, fixed_alpha=0.2)
    after, _ = fixed.update_actor(learner_of(lab, fixed), batch, lab.clock(), KEY)
    assert float(jnp.exp(after.log_alpha)) == pytest.approx(0.2)
    capped = make(lab, init_alpha=1.0, target_entropy=9.0, log_alpha_max=0.5)
    after, _ = capped.update_actor(learner_of(lab, capped), batch, lab.clock(), KEY)
    assert float(after.log_alpha) == 0.5  # it would have been 8.3


def test_entropy_goals(lab: Lab) -> None:
    assert float(lab.make("SAC", lab.continuous).entropy_goal) == -2.0  # two actions
    assert float(make(lab, target_entropy_ratio=0.5).entropy_goal) == pytest.approx(0.5 * math.log(2))


def test_slow_copies_follow_the_critics_as_they_are_now(lab: Lab) -> None:
    algorithm = make(lab, net={"polyak_coef": 0.25})
    learner = learner_of(lab, algorithm, target=lab.twins([[4.0, 4.0]] * 4, [[8.0, 8.0]] * 4))
    batch = lab.batch([0], [1], [1.0], [1], (0,))
    after, _, _ = algorithm.update(learner, batch, jnp.ones(1), lab.clock(), jnp.asarray(0), KEY)
    # both critics step from 0 by 2 · 1 at (0, 1): the copies go a quarter of the way there
    np.testing.assert_allclose(after.critics.output.weight[:, 0, 1], [2.0, 2.0])
    np.testing.assert_allclose(after.target.output.weight[:, 0, 1], [3.5, 6.5])
    np.testing.assert_allclose(after.target.output.weight[:, 3, 0], [3.0, 6.0])


@pytest.mark.parametrize("continuous", [False, True])
def test_actions_are_uniform_until_learning_starts(lab: Lab, continuous: bool) -> None:
    space = lab.continuous if continuous else lab.discrete
    algorithm = lab.make("SAC", space, env={"num_envs": 400}, training_start_step=100)
    state = algorithm.init(KEY)
    if continuous:
        actor: Any = SquashedActor(lab.table([[3.0, 3.0, -5.0, -5.0]] * 4))  # tanh 3 = 0.995
    else:
        actor = Actor(lab.table([[-50.0, 50.0]] * 4), None)
    state = state._replace(learner=state.learner._replace(actor=actor))
    noise = algorithm.noise(KEY, 1)[0]
    before, _ = algorithm.act(state, lab.see([0] * 400), lab.clock(0, 99), noise)
    after, _ = algorithm.act(state, lab.see([0] * 400), lab.clock(1, 100), noise)
    stats: Any = pytest.importorskip("scipy.stats")
    if continuous:
        assert stats.kstest(np.asarray(before).ravel(), "uniform", (-1, 2)).pvalue > 0.01
        assert (after > 0.98).all()
    else:
        assert 160 < int(before.sum()) < 240
        assert (after == 1).all()
    np.testing.assert_array_equal(algorithm.play(actor, lab.see([0]), KEY)[0], actor(lab.see([0])).mode()[0])


def test_the_twin_critics_start_apart_and_their_copies_with_them(lab: Lab) -> None:
    learner = make(lab).init_learner(KEY)
    first, second = learner.critics.output.weight
    assert (first != second).all()
    np.testing.assert_array_equal(learner.target.output.weight, learner.critics.output.weight)
    assert isinstance(learner.actor(lab.see([0])), Categorical)
