"""Schedules at their start, on the way, at their end and beyond."""

from __future__ import annotations

import math

import jax.numpy as jnp
import pytest

from rewardlab.maths.schedule import Schedule

# from 2 at frame 100 to 1 at frame 300
FRAMES = (0, 100, 200, 300, 999)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_decay", (2.0, 2.0, 2.0, 2.0, 2.0)),
        ("linear_decay", (2.0, 2.0, 1.5, 1.0, 1.0)),
        ("rate_decay", (2.0, 2.0, 1.0, 1.0, 1.0)),  # 2 · 0.9¹⁰ = 0.697 is below the end, so 1
        # 1 + ½ · 1 · (1 + cos 30) · ½ = 1.2886 (cos 30 rad = 0.15425)
        ("periodic_decay", (2.0, 2.0, 1 + 0.25 * (1 + math.cos(30.0)), 1.0, 1.0)),
    ],
)
def test_values(name: str, expected: tuple[float, ...]) -> None:
    schedule = Schedule(name, 2.0, 1.0, 100.0, 300.0)
    for frame, value in zip(FRAMES, expected, strict=True):
        assert float(schedule(jnp.asarray(frame))) == pytest.approx(value, rel=1e-5), frame


def test_rate_decay_above_its_floor() -> None:
    schedule = Schedule("rate_decay", 1.0, 0.05, 0.0, 100.0)
    assert float(schedule(jnp.asarray(5))) == pytest.approx(0.9)  # a twentieth of the way: one factor
    assert float(schedule(jnp.asarray(50))) == pytest.approx(0.9**10, rel=1e-5)
    assert float(schedule(jnp.asarray(100))) == pytest.approx(0.05)  # 0.9²⁰ = 0.12 on the way, then the end


def test_a_schedule_may_rise_as_pers_beta_does() -> None:
    schedule = Schedule("linear_decay", 0.4, 1.0, 0.0, 10.0)
    assert [float(schedule(jnp.asarray(f))) for f in (0, 5, 10, 20)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_without_an_end_it_stays() -> None:
    assert float(Schedule("linear_decay", 0.3)(jnp.asarray(7))) == pytest.approx(0.3)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'linear' is unknown; the schedules are no_decay, linear_decay"):
        Schedule("linear", 1.0)
