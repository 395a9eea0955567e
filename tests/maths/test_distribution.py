"""Distributions against scipy's, and draws against the frequencies they promise (fixed seeds)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.maths.distribution import Boltzmann, Categorical, EpsilonGreedy, Normal, TanhNormal

stats: Any = pytest.importorskip("scipy.stats")  # comes with jax
KEY = jax.random.key(7)
DRAWS = 20_000


def counts(actions: jax.Array, n: int) -> Any:
    return np.bincount(np.asarray(actions).ravel(), minlength=n)


def test_categorical_against_scipy() -> None:
    p = np.asarray([[0.2, 0.5, 0.3], [0.98, 0.01, 0.01]])
    pi = Categorical(jnp.log(p) + 5.0)  # logits need not be normalised
    np.testing.assert_allclose(pi.log_prob(jnp.asarray([1, 2])), np.log([0.5, 0.01]), rtol=1e-4)
    np.testing.assert_allclose(pi.entropy(), stats.entropy(p, axis=-1), rtol=1e-4)
    np.testing.assert_array_equal(pi.mode(), [1, 0])


def test_categorical_draws() -> None:
    p = np.asarray([0.2, 0.5, 0.3])
    pi = Categorical(jnp.broadcast_to(jnp.log(p), (DRAWS, 3)))
    drawn = pi.sample(pi.noise(KEY, (DRAWS, 3)))
    assert stats.chisquare(counts(drawn, 3), p * DRAWS).pvalue > 0.01


def test_normal_against_scipy() -> None:
    mean, std = np.asarray([[0.0, 1.0], [2.0, -3.0]]), np.asarray([0.5, 2.0])
    action = np.asarray([[0.3, 0.0], [2.0, 4.0]])
    pi = Normal(jnp.asarray(mean), jnp.log(std))  # one deviation for all rows
    np.testing.assert_allclose(
        pi.log_prob(jnp.asarray(action)), stats.norm.logpdf(action, mean, std).sum(-1), rtol=1e-5
    )
    np.testing.assert_allclose(pi.entropy(), [stats.norm.entropy(mean[0], std).sum()] * 2, rtol=1e-5)
    np.testing.assert_array_equal(pi.mode(), mean)


def test_normal_draws() -> None:
    pi = Normal(jnp.full((DRAWS, 1), 3.0), jnp.log(jnp.asarray([0.5])))
    drawn = np.asarray(pi.sample(pi.noise(KEY, (DRAWS, 1))))[:, 0]
    assert stats.kstest(drawn, "norm", (3.0, 0.5)).pvalue > 0.01


def test_tanh_normal_by_a_numeric_change_of_variables() -> None:
    mean, log_std = np.asarray([0.4, -1.0]), np.asarray([-0.5, 0.3])
    noise = np.asarray([[0.7, -0.2], [-1.5, 1.1]])
    action, log_prob = TanhNormal(jnp.asarray(mean), jnp.asarray(log_std)).sample_log_prob(jnp.asarray(noise))
    u, h = mean + np.exp(log_std) * noise, 1e-6
    np.testing.assert_allclose(action, np.tanh(u), rtol=1e-5)
    slope = (np.tanh(u + h) - np.tanh(u - h)) / (2 * h)  # da/du, so p(a) = p(u) / slope
    expected = (stats.norm.logpdf(u, mean, np.exp(log_std)) - np.log(slope)).sum(-1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4)


def test_tanh_normal_is_a_density() -> None:
    # ∫ p(a) da over (−1, 1) is one; u on a fine grid, da = tanh(u_{i+1}) − tanh(u_i)
    u = np.linspace(-8, 8, 4001)
    noise = ((u[1:] + u[:-1]) / 2 - 0.3) / np.exp(-0.2)
    pi = TanhNormal(jnp.full((4000, 1), 0.3), jnp.full((4000, 1), -0.2))
    log_prob = pi.sample_log_prob(jnp.asarray(noise, jnp.float32)[:, None])[1]
    assert np.sum(np.exp(np.asarray(log_prob, np.float64)) * np.diff(np.tanh(u))) == pytest.approx(1.0, abs=1e-3)


def test_tanh_normal_stays_finite_where_tanh_is_one() -> None:
    def log_prob(mean: jax.Array) -> jax.Array:
        return TanhNormal(mean, jnp.zeros(1)).sample_log_prob(jnp.zeros(1))[1]

    value, slope = jax.value_and_grad(log_prob)(jnp.asarray([30.0]))
    # u = 30: −½ log 2π − log(1 − tanh² 30) = −0.919 + (60 − 2 log 2) = 57.695
    assert float(value) == pytest.approx(57.695, abs=1e-2)
    assert float(slope[0]) == pytest.approx(2.0, rel=1e-4)
    assert float(TanhNormal(jnp.asarray([0.5]), jnp.zeros(1)).mode()[0]) == pytest.approx(np.tanh(0.5))


def test_epsilon_greedy_throws_a_die_per_row() -> None:
    q = jnp.asarray([[0.0, 9.0, 0.0]] * 3)
    # the first number of a row is the die: below ε = ½ it explores, and then the largest of the others chooses
    noise = jnp.asarray([[0.4, 0.9, 0.1, 0.2], [0.6, 0.9, 0.1, 0.2], [0.1, 0.1, 0.2, 0.9]])
    np.testing.assert_array_equal(EpsilonGreedy(q, jnp.asarray(0.5)).sample(noise), [0, 1, 2])


def test_epsilon_greedy_frequencies() -> None:
    q = jnp.broadcast_to(jnp.asarray([1.0, 3.0, 2.0]), (DRAWS, 3))
    pi = EpsilonGreedy(q, jnp.asarray(0.3))
    drawn = pi.sample(pi.noise(KEY, (DRAWS, 3)))
    # the greedy one 1 − ε + ε/n = 0.8, the others ε/n = 0.1 each
    assert stats.chisquare(counts(drawn, 3), np.asarray([0.1, 0.8, 0.1]) * DRAWS).pvalue > 0.01
    never = EpsilonGreedy(q, jnp.asarray(0.0)).sample(pi.noise(KEY, (DRAWS, 3)))
    assert (never == 1).all()


def test_boltzmann_frequencies() -> None:
    q, temperature = np.asarray([1.0, 3.0, 2.0]), 2.0
    pi = Boltzmann(jnp.broadcast_to(jnp.asarray(q), (DRAWS, 3)), jnp.asarray(temperature))
    drawn = pi.sample(pi.noise(KEY, (DRAWS, 3)))
    expected = np.exp(q / temperature) / np.exp(q / temperature).sum()
    assert stats.chisquare(counts(drawn, 3), expected * DRAWS).pvalue > 0.01


@pytest.mark.parametrize(
    ("pi", "width"),
    [
        (Categorical(jnp.zeros((2, 3))), 3),
        (Normal(jnp.zeros((2, 3)), jnp.zeros(3)), 3),
        (TanhNormal(jnp.zeros((2, 3)), jnp.zeros((2, 3))), 3),
        (EpsilonGreedy(jnp.zeros((2, 3)), jnp.ones(())), 4),  # the die and one number per action
        (Boltzmann(jnp.zeros((2, 3)), jnp.ones(())), 3),
    ],
    ids=lambda x: type(x).__name__,
)
def test_noise_is_drawn_for_many_steps_at_once(pi: Any, width: int) -> None:
    noise = pi.noise(KEY, (5, 2, 3))
    assert noise.shape == (5, 2, width)
    assert pi.sample(noise[0]).shape == ((2, 3) if isinstance(pi, Normal | TanhNormal) else (2,))
