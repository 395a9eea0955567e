"""Batch renormalisation by hand: a batch of 1 and 3 (mean 2, deviation 1) after running statistics of mean 1 and
deviation 2."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab.nets.batch_renorm import BatchRenorm, RenormStats

X = jnp.asarray([[1.0], [3.0]])


def stats(steps: int = 0) -> RenormStats:
    return RenormStats(jnp.asarray([1.0]), jnp.asarray([2.0]), jnp.asarray(steps))


def layer(**options: Any) -> BatchRenorm:
    return BatchRenorm.create(1, **{"eps": 0.0, "momentum": 0.1, "warmup_steps": 10, **options})


def test_warm_up_is_plain_batch_norm() -> None:
    out, _ = layer().train(X, stats(9))
    np.testing.assert_allclose(out, [[-1.0], [1.0]])


def test_after_the_warm_up_r_and_d_correct_towards_the_running_statistics() -> None:
    # r = 1/2, d = (2 − 1)/2 = ½: ((1 − 2)/1 · ½ + ½, (3 − 2)/1 · ½ + ½), which is (x − 1)/2
    out, _ = layer().train(X, stats(10))
    np.testing.assert_allclose(out, [[0.0], [1.0]])
    np.testing.assert_allclose(out, layer()(X, stats(10)))


def test_r_and_d_are_clipped() -> None:
    # r = max(½, 1/1.25) = 0.8, d = min(½, 0.1) = 0.1: −0.8 + 0.1, 0.8 + 0.1
    out, _ = layer(r_max=1.25, d_max=0.1).train(X, stats(10))
    np.testing.assert_allclose(out, [[-0.7], [0.9]], rtol=1e-6)


def test_running_statistics_move_by_the_momentum() -> None:
    _, moved = layer().train(X, stats(3))
    np.testing.assert_allclose([moved.mean[0], moved.std[0], moved.steps], [1.1, 1.9, 4])  # 1 + 0.1·1, 2 − 0.1·1


def test_evaluation_uses_the_running_statistics_alone() -> None:
    normed = layer()
    normed = BatchRenorm(jnp.asarray([3.0]), jnp.asarray([10.0]), normed.momentum, normed.eps)
    np.testing.assert_allclose(normed(jnp.asarray([[5.0]]), stats()), [[16.0]])  # (5 − 1)/2 · 3 + 10
    np.testing.assert_allclose(layer()(X, layer().init_stats()), X)  # none seen: mean 0, deviation 1


def test_gradients_pass_through_the_batch_and_not_through_r_and_d() -> None:
    def through(x: jax.Array, steps: int) -> jax.Array:
        return jnp.sum(layer().train(x, stats(steps))[0] * jnp.asarray([[1.0], [5.0], [-2.0]]))

    x = jnp.asarray([[1.0], [4.0], [2.5]])
    plain, corrected = jax.grad(through)(x, 0), jax.grad(through)(x, 10)
    assert jnp.abs(plain).min() > 0.1
    np.testing.assert_allclose(corrected, plain * jnp.std(x) / 2, rtol=1e-5)  # r held fixed, d no longer there
