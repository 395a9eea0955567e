"""Gymnasium's Classic Control environments, written in JAX: the same physics, spaces, rewards and endings.

A state is one small array in the order of Gymnasium's `state` (one array per environment keeps the compiled loop to few
operations). Everything is elementwise and follows the state's dtype: float32 in training, float64 under
`jax.enable_x64`, where the parity tests compare with Gymnasium to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from rewardlab.envs.base import Box, Discrete, JaxEnv

TWO_PI = 2 * math.pi
Outcome = tuple[Float[Array, " n"], Float[Array, ""], Bool[Array, ""]]


class _ClassicControl:
    """How a state passes to and from `gym_env.unwrapped.state` (for rendering and for the parity tests)."""

    def gym_state(self, state: Float[Array, " n"]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """What to assign to the Gymnasium original's `unwrapped.state`."""
        return np.asarray(state, dtype=np.float64)

    def from_gym(self, state: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Float[Array, " n"]:
        """Our state from the Gymnasium original's `unwrapped.state`, in JAX's default float."""
        return jnp.asarray(np.asarray(state, dtype=np.float64), dtype=jnp.result_type(float))


@dataclass(frozen=True)
class CartPole(_ClassicControl):
    """A pole balanced on a cart that is pushed left or right (Barto, Sutton & Anderson 1983); state x, ẋ, θ, θ̇."""

    sutton_barto_reward: bool = False

    X_LIMIT: ClassVar[float] = 2.4
    ANGLE_LIMIT: ClassVar[float] = 12 * TWO_PI / 360
    # Twice the limits, so that the observation that ends an episode still lies inside.
    observation: ClassVar[Box] = Box(
        (4,),
        low=(-2 * X_LIMIT, -math.inf, -2 * ANGLE_LIMIT, -math.inf),
        high=(2 * X_LIMIT, math.inf, 2 * ANGLE_LIMIT, math.inf),
    )
    action: ClassVar[Discrete] = Discrete(2)
    max_episode_steps: ClassVar[int] = 500

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 4"]:
        """All four coordinates uniform in ±0.05."""
        return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def step(self, state: Float[Array, " 4"], action: Array, key: PRNGKeyArray) -> Outcome:
        """Explicit Euler with a 0.02 s step under a push of ±10 N."""
        x, x_dot, theta, theta_dot = (state[i] for i in range(4))
        force = jnp.where(action == 1, 10.0, -10.0).astype(state.dtype)
        cos, sin = jnp.cos(theta), jnp.sin(theta)
        total_mass, pole_mass, half_length, tau = 1.1, 0.1, 0.5, 0.02
        push = (force + pole_mass * half_length * theta_dot**2 * sin) / total_mass
        theta_acc = (9.8 * sin - cos * push) / (half_length * (4.0 / 3.0 - pole_mass * cos**2 / total_mass))
        x_acc = push - pole_mass * half_length * theta_acc * cos / total_mass
        x, theta_next = x + tau * x_dot, theta + tau * theta_dot
        state = jnp.stack([x, x_dot + tau * x_acc, theta_next, theta_dot + tau * theta_acc])
        terminated = (jnp.abs(x) > self.X_LIMIT) | (jnp.abs(theta_next) > self.ANGLE_LIMIT)
        reward = jnp.where(terminated, -1.0, 0.0) if self.sutton_barto_reward else jnp.ones(())
        return state, reward.astype(state.dtype), terminated

    def observe(self, state: Float[Array, " 4"]) -> Float[Array, " 4"]:
        """The state itself."""
        return state


@dataclass(frozen=True)
class CartPoleV0(CartPole):
    """CartPole with the time limit of its first version."""

    max_episode_steps: ClassVar[int] = 200


@dataclass(frozen=True)
class Acrobot(_ClassicControl):
    """Two links, torque at the elbow; swing the tip up (Sutton & Barto's book equations); state θ₁, θ₂, θ̇₁, θ̇₂."""

    MAX_SPEED_1: ClassVar[float] = 4 * math.pi
    MAX_SPEED_2: ClassVar[float] = 9 * math.pi
    observation: ClassVar[Box] = Box(
        (6,),
        low=(-1.0, -1.0, -1.0, -1.0, -MAX_SPEED_1, -MAX_SPEED_2),
        high=(1.0, 1.0, 1.0, 1.0, MAX_SPEED_1, MAX_SPEED_2),
    )
    action: ClassVar[Discrete] = Discrete(3)
    max_episode_steps: ClassVar[int] = 500

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 4"]:
        """All four coordinates uniform in ±0.1."""
        return jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)

    def step(self, state: Float[Array, " 4"], action: Array, key: PRNGKeyArray) -> Outcome:
        """One fourth-order Runge-Kutta step of 0.2 s, then angles wrapped and speeds bounded."""
        torque = jnp.asarray(action).astype(state.dtype) - 1.0
        theta_1, theta_2, speed_1, speed_2 = _runge_kutta(
            _acrobot_slope, tuple(state[i] for i in range(4)), torque, 0.2
        )
        theta_1, theta_2 = _wrap(theta_1), _wrap(theta_2)
        speed_1 = jnp.clip(speed_1, -self.MAX_SPEED_1, self.MAX_SPEED_1)
        speed_2 = jnp.clip(speed_2, -self.MAX_SPEED_2, self.MAX_SPEED_2)
        terminated = -jnp.cos(theta_1) - jnp.cos(theta_2 + theta_1) > 1.0
        reward = jnp.where(terminated, 0.0, -1.0).astype(state.dtype)
        return jnp.stack([theta_1, theta_2, speed_1, speed_2]), reward, terminated

    def observe(self, state: Float[Array, " 4"]) -> Float[Array, " 6"]:
        """Both angles as cosine and sine, and both speeds."""
        theta_1, theta_2, speed_1, speed_2 = (state[i] for i in range(4))
        return jnp.stack([jnp.cos(theta_1), jnp.sin(theta_1), jnp.cos(theta_2), jnp.sin(theta_2), speed_1, speed_2])


Coordinates = tuple[Array, ...]


def _acrobot_slope(coordinates: Coordinates, torque: Array) -> Coordinates:
    """Time derivatives of the acrobot: both links have mass, length and inertia 1, their centres of mass at 0.5."""
    theta_1, theta_2, speed_1, speed_2 = coordinates
    cos, sin = jnp.cos(theta_2), jnp.sin(theta_2)
    d_1 = 3.5 + cos
    d_2 = 1.25 + 0.5 * cos
    # Gymnasium writes cos(x - π/2); the sine is the same number without the rounding of π/2.
    gravity_2 = 4.9 * jnp.sin(theta_1 + theta_2)
    gravity_1 = 14.7 * jnp.sin(theta_1) + gravity_2
    phi_1 = -0.5 * speed_2**2 * sin - speed_2 * speed_1 * sin + gravity_1
    ratio = d_2 / d_1
    acceleration_2 = (torque + ratio * phi_1 - 0.5 * speed_1**2 * sin - gravity_2) / (1.25 - d_2 * ratio)
    acceleration_1 = -(d_2 * acceleration_2 + phi_1) / d_1
    return speed_1, speed_2, acceleration_1, acceleration_2


def _runge_kutta(
    slope: Callable[[Coordinates, Array], Coordinates], start: Coordinates, force: Array, dt: float
) -> Coordinates:
    """One classical fourth-order Runge-Kutta step under a constant force."""

    def ahead(by: float, k: Coordinates) -> Coordinates:
        return tuple(y + by * dy for y, dy in zip(start, k, strict=True))

    k_1 = slope(start, force)
    k_2 = slope(ahead(dt / 2, k_1), force)
    k_3 = slope(ahead(dt / 2, k_2), force)
    k_4 = slope(ahead(dt, k_3), force)
    steps = zip(start, k_1, k_2, k_3, k_4, strict=True)
    return tuple(y + dt / 6 * (a + 2 * b + 2 * c + d) for y, a, b, c, d in steps)


def _wrap(angle: Array) -> Array:
    """The angle brought into [-π, π] by whole turns; an angle already inside is left bit for bit."""
    turns = jnp.ceil((jnp.abs(angle) - math.pi) / TWO_PI)
    return angle - jnp.sign(angle) * turns * TWO_PI


@dataclass(frozen=True)
class Pendulum(_ClassicControl):
    """Swing a pendulum up and hold it with a bounded torque; it never terminates; state θ (0 is up), θ̇."""

    g: float = 10.0

    MAX_SPEED: ClassVar[float] = 8.0
    MAX_TORQUE: ClassVar[float] = 2.0
    observation: ClassVar[Box] = Box((3,), low=(-1.0, -1.0, -MAX_SPEED), high=(1.0, 1.0, MAX_SPEED))
    action: ClassVar[Box] = Box((1,), low=-MAX_TORQUE, high=MAX_TORQUE)
    max_episode_steps: ClassVar[int] = 200

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """The angle uniform in ±π, the speed in ±1."""
        unit = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return unit * jnp.array([math.pi, 1.0], unit.dtype)

    def step(self, state: Float[Array, " 2"], action: Float[Array, " 1"], key: PRNGKeyArray) -> Outcome:
        """Semi-implicit Euler with a 0.05 s step; the cost is that of the state left, not of the one reached."""
        theta, speed = state[0], state[1]
        torque = jnp.clip(action[0].astype(state.dtype), -self.MAX_TORQUE, self.MAX_TORQUE)
        upright = theta - TWO_PI * jnp.round(theta / TWO_PI)
        cost = upright**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = speed + (1.5 * self.g * jnp.sin(theta) + 3.0 * torque) * 0.05
        speed = jnp.clip(speed, -self.MAX_SPEED, self.MAX_SPEED)
        return jnp.stack([theta + speed * 0.05, speed]), -cost, jnp.zeros((), bool)

    def observe(self, state: Float[Array, " 2"]) -> Float[Array, " 3"]:
        """The angle as cosine and sine, and the speed."""
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])


class _Valley(_ClassicControl):
    """What both mountain cars share: the valley, its left wall, the start; state position, velocity."""

    MAX_SPEED: ClassVar[float] = 0.07
    LEFT: ClassVar[float] = -1.2
    RIGHT: ClassVar[float] = 0.6
    observation: ClassVar[Box] = Box((2,), low=(LEFT, -MAX_SPEED), high=(RIGHT, MAX_SPEED))

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """At rest, the position uniform in [-0.6, -0.4]."""
        position = jax.random.uniform(key, (), minval=-0.6, maxval=-0.4)
        return jnp.stack([position, jnp.zeros_like(position)])

    def observe(self, state: Float[Array, " 2"]) -> Float[Array, " 2"]:
        """The state itself."""
        return state

    def _roll(self, state: Float[Array, " 2"], push: Array) -> tuple[Array, Array]:
        """One step under a push; the left wall stops the car dead, the right end only holds its position."""
        position, velocity = state[0], state[1]
        velocity = velocity + push - 0.0025 * jnp.cos(3 * position)
        velocity = jnp.clip(velocity, -self.MAX_SPEED, self.MAX_SPEED)
        position = jnp.clip(position + velocity, self.LEFT, self.RIGHT)
        at_wall = (position <= self.LEFT) & (velocity < 0)
        return position, jnp.where(at_wall, jnp.zeros_like(velocity), velocity)


@dataclass(frozen=True)
class MountainCar(_Valley):
    """An underpowered car rocks itself out of a valley (Moore 1990), pushed left, not at all, or right."""

    goal_velocity: float = 0.0

    GOAL: ClassVar[float] = 0.5
    action: ClassVar[Discrete] = Discrete(3)
    max_episode_steps: ClassVar[int] = 200

    def step(self, state: Float[Array, " 2"], action: Array, key: PRNGKeyArray) -> Outcome:
        """A push of -1, 0 or 1 thousandths; every step costs 1, the last one too."""
        push = (jnp.asarray(action).astype(state.dtype) - 1.0) * 0.001
        position, velocity = self._roll(state, push)
        terminated = (position >= self.GOAL) & (velocity >= self.goal_velocity)
        return jnp.stack([position, velocity]), -jnp.ones_like(position), terminated


@dataclass(frozen=True)
class MountainCarContinuous(_Valley):
    """The mountain car under a continuous push that costs energy."""

    goal_velocity: float = 0.0

    GOAL: ClassVar[float] = 0.45
    action: ClassVar[Box] = Box((1,), low=-1.0, high=1.0)
    max_episode_steps: ClassVar[int] = 999

    def step(self, state: Float[Array, " 2"], action: Float[Array, " 1"], key: PRNGKeyArray) -> Outcome:
        """The push is clipped, its price is not: 0.1·action², and 100 at the goal."""
        chosen = action[0].astype(state.dtype)
        position, velocity = self._roll(state, jnp.clip(chosen, -1.0, 1.0) * 0.0015)
        terminated = (position >= self.GOAL) & (velocity >= self.goal_velocity)
        reward = jnp.where(terminated, 100.0, 0.0).astype(state.dtype) - chosen**2 * 0.1
        return jnp.stack([position, velocity]), reward, terminated


CLASSIC: dict[str, Callable[..., JaxEnv]] = {
    "Acrobot-v1": Acrobot,
    "CartPole-v0": CartPoleV0,
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Pendulum-v1": Pendulum,
}
