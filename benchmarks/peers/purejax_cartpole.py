"""CartPole-v1 in JAX (Barto, Sutton & Anderson 1983; Gymnasium's constants), resetting itself when an episode ends."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH, FORCE, TIME_STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
ANGLE_LIMIT, POSITION_LIMIT, MAX_STEPS = 12 * 2 * jnp.pi / 360, 2.4, 500
OBSERVATION_SIZE, ACTIONS = 4, 2


class CartPole(NamedTuple):
    """`physics` is (position, speed, angle, turning speed); it is also the observation. `returned` is a log."""

    physics: jax.Array
    steps: jax.Array
    returned: jax.Array


def fresh_physics(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(key, (*shape, OBSERVATION_SIZE), minval=-0.05, maxval=0.05)


def reset(key: jax.Array) -> CartPole:
    return CartPole(fresh_physics(key, ()), jnp.int32(0), jnp.float32(0))


def move(physics: jax.Array, action: jax.Array) -> jax.Array:
    _, speed, angle, turning = physics
    total_mass, pole_moment = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (jnp.where(action == 1, FORCE, -FORCE) + pole_moment * turning**2 * sine) / total_mass
    leverage = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / total_mass)
    turning_acceleration = (GRAVITY * sine - cosine * push) / leverage
    acceleration = push - pole_moment * turning_acceleration * cosine / total_mass
    speeds = jnp.stack([speed, acceleration, turning, turning_acceleration])
    return physics + TIME_STEP * speeds


def step(state: CartPole, action: jax.Array, next_start: jax.Array) -> tuple[CartPole, jax.Array]:
    """The state after one step (already reset where the episode ended) and whether it ended; the reward is always 1."""
    physics = move(state.physics, action)
    steps = state.steps + 1
    fallen = (jnp.abs(physics[0]) > POSITION_LIMIT) | (jnp.abs(physics[2]) > ANGLE_LIMIT)
    done = fallen | (steps >= MAX_STEPS)
    after = CartPole(
        physics=jnp.where(done, next_start, physics),
        steps=jnp.where(done, 0, steps),
        returned=jnp.where(done, steps.astype(jnp.float32), state.returned),
    )
    return after, done
