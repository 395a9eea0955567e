"""Optimisers against PyTorch's documented update rules, written out in numpy, over several steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.nets.optimizer import Optimizer
from rewardlab.spec import LrScheduleSpec, NetSpec, OptimSpec

P0 = np.asarray([1.0, -2.0])
GRADIENTS = [np.asarray([0.5, -1.0]), np.asarray([-0.25, 2.0]), np.asarray([1.0, 0.1])]
LR = 0.1
Rule = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any], int], np.ndarray[Any, Any]]


def adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, decay: float = 0.0, decoupled: bool = False) -> Rule:
    """m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; p ← p − lr · m̂ / (√v̂ + ε). AdamW first p ← p − lr · λ p."""

    def step(p: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        p, g = (p - LR * decay * p, g) if decoupled else (p, g + decay * p)
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g**2
        return p - LR * (s["m"] / (1 - b1**t)) / (np.sqrt(s["v"] / (1 - b2**t)) + eps)

    return step


def rmsprop(alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0, decay: float = 0.0) -> Rule:
    """v ← αv + (1−α)g²; b ← μb + g / (√v + ε); p ← p − lr · b."""

    def step(p: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        g = g + decay * p
        s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g**2
        s["b"] = momentum * s.get("b", 0) + g / (np.sqrt(s["v"]) + eps)
        return p - LR * s["b"]

    return step


def sgd(momentum: float = 0.0, decay: float = 0.0) -> Rule:
    """b ← μb + g; p ← p − lr · b."""

    def step(p: Any, g: Any, s: dict[str, Any], t: int) -> Any:
        s["b"] = momentum * s.get("b", 0) + g + decay * p
        return p - LR * s["b"]

    return step


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (OptimSpec("Adam", LR), adam()),
        (OptimSpec("Adam", LR, betas=(0.5, 0.9), eps=0.1), adam(0.5, 0.9, 0.1)),
        (OptimSpec("Adam", LR, weight_decay=0.2), adam(decay=0.2)),
        (OptimSpec("AdamW", LR), adam(decay=0.01, decoupled=True)),
        (OptimSpec("AdamW", LR, weight_decay=0.3), adam(decay=0.3, decoupled=True)),
        (OptimSpec("RMSprop", LR), rmsprop()),
        (OptimSpec("RMSprop", LR, alpha=0.9, eps=1e-5, momentum=0.7), rmsprop(0.9, 1e-5, 0.7)),
        (OptimSpec("RMSprop", LR, weight_decay=0.2), rmsprop(decay=0.2)),
        (OptimSpec("SGD", LR), sgd()),
        (OptimSpec("SGD", LR, momentum=0.9), sgd(0.9)),
        (OptimSpec("SGD", LR, momentum=0.9, weight_decay=0.2), sgd(0.9, 0.2)),
    ],
    ids=lambda x: f"{x.name} {x.momentum:g} {x.weight_decay}" if isinstance(x, OptimSpec) else "",
)
def test_steps_as_pytorch_documents_them(spec: OptimSpec, rule: Rule) -> None:
    optimizer = Optimizer.create(NetSpec(optim_spec=spec), None, 100)
    params, expected = jnp.asarray(P0, jnp.float32), P0
    state, numbers = optimizer.init(params), dict[str, Any]()
    for t, gradient in enumerate(GRADIENTS, start=1):
        params, state, norm = optimizer.step(params, jnp.asarray(gradient, jnp.float32), state, jnp.asarray(0))
        expected = rule(expected, gradient, numbers, t)
        np.testing.assert_allclose(params, expected, rtol=2e-5, atol=1e-6, err_msg=f"step {t}")
        assert float(norm) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


def test_adams_first_step_is_the_learning_rate() -> None:
    optimizer = Optimizer.create(NetSpec(optim_spec=OptimSpec("Adam", LR)), None, 100)
    params = jnp.asarray([1.0, 1.0])
    params, _, _ = optimizer.step(params, jnp.asarray([1e-3, -50.0]), optimizer.init(params), jnp.asarray(0))
    np.testing.assert_allclose(params, [0.9, 1.1], rtol=1e-4)  # m̂ / √v̂ is the gradient's sign


def test_the_gradient_is_clipped_by_the_norm_of_the_whole() -> None:
    net = NetSpec(optim_spec=OptimSpec("SGD", 1.0), clip_grad_val=2.5)
    optimizer = Optimizer.create(net, None, 100)
    params = {"a": jnp.asarray([0.0]), "b": jnp.asarray([0.0])}
    gradient = {"a": jnp.asarray([3.0]), "b": jnp.asarray([-4.0])}  # norm 5: halved
    stepped, _, norm = optimizer.step(params, gradient, optimizer.init(params), jnp.asarray(0))
    assert (float(stepped["a"][0]), float(stepped["b"][0])) == pytest.approx((-1.5, 2.0))
    assert float(norm) == pytest.approx(5.0)
    small = {"a": jnp.asarray([0.3]), "b": jnp.asarray([-0.4])}  # within: as it is
    stepped, _, _ = optimizer.step(params, small, optimizer.init(params), jnp.asarray(0))
    assert (float(stepped["a"][0]), float(stepped["b"][0])) == pytest.approx((-0.3, 0.4))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, (0.1, 0.1, 0.1, 0.1)),
        (LrScheduleSpec("LinearToZero"), (0.1, 0.05, 0.0, 0.0)),  # ends with the run, at frame 200
        (LrScheduleSpec("LinearToZero", frame=100.0), (0.1, 0.0, 0.0, 0.0)),
        (LrScheduleSpec("LinearToZero", end_factor=0.2), (0.1, 0.06, 0.02, 0.02)),  # 0.1 · (0.2 + 0.8 · ½)
        (LrScheduleSpec("cosine"), (0.1, 0.05, 0.0, 0.0)),
        (LrScheduleSpec("cosine", frame=400.0), (0.1, 0.1 * 0.5 * (1 + 0.5**0.5), 0.05, 0.0)),  # cos ¼π; cos ½π
        (LrScheduleSpec("CosineAnnealingLR", end_factor=0.1), (0.1, 0.055, 0.01, 0.01)),
    ],
)
def test_learning_rate(schedule: LrScheduleSpec | None, expected: tuple[float, ...]) -> None:
    net = NetSpec(optim_spec=OptimSpec("SGD", LR), lr_scheduler_spec=schedule)
    optimizer = Optimizer.create(net, None, 200)
    actual = [float(optimizer.learning_rate(jnp.asarray(frame))) for frame in (0, 100, 200, 400)]
    assert actual == pytest.approx(expected, abs=1e-7)
    params = jnp.zeros(1)
    stepped, _, _ = optimizer.step(params, jnp.ones(1), optimizer.init(params), jnp.asarray(100))
    assert float(stepped[0]) == pytest.approx(-expected[1], abs=1e-7)


def test_an_optimiser_of_its_own_goes_before_the_nets() -> None:
    net = NetSpec(optim_spec=OptimSpec("Adam", 0.1))
    assert Optimizer.create(net, OptimSpec("SGD", 0.5), 100).lr == 0.5
    assert Optimizer.create(net, None, 100).lr == 0.1
