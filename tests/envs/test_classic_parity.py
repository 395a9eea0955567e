"""Every Classic Control environment equals Gymnasium's own, step for step: same state, same action, same outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.registration import load_env_creator
from jaxtyping import Array

from rewardlab.envs.base import Box, Discrete
from rewardlab.envs.check import check_env
from rewardlab.envs.classic import CLASSIC

Rows = Any  # a NumPy array with one row per sample
EPSILON = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Case:
    """One environment: where its states are drawn, its edges, and how far a state is from an ending."""

    name: str
    draw: Callable[[np.random.Generator, int], Rows]
    edges: list[list[float]]
    distance: Callable[[Rows], Rows]  # (rows, k): of k quantities from the thresholds that decide `terminated`
    unit: Callable[[Rows], Rows]  # per entry of a state: the size of the numbers added up in a step from there
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        return self.name + "".join(f"-{key}={value}" for key, value in self.kwargs.items())


def within(*high: float) -> Callable[[np.random.Generator, int], Rows]:
    """States uniform within ±high."""
    return lambda rng, n: rng.uniform(-1, 1, (n, len(high))) * np.array(high)


def valley(rng: np.random.Generator, n: int) -> Rows:
    """Positions and velocities over the whole observation space."""
    return np.stack([rng.uniform(-1.2, 0.6, n), rng.uniform(-0.07, 0.07, n)], 1)


def cart_pole(rng: np.random.Generator, n: int) -> Rows:
    """Half ordinary states, half far outside: fast, and the pole anywhere."""
    return np.concatenate([within(2.5, 3, 0.22, 3)(rng, n // 2), within(20, 50, 10, 20)(rng, n - n // 2)])


ANGLE = 12 * 2 * np.pi / 360
PI = np.pi


def from_rails(s: Rows) -> Rows:
    return np.abs(np.abs(s[:, [0, 2]]) - [2.4, ANGLE])


def from_height(s: Rows) -> Rows:
    return np.abs(-np.cos(s[:, :1]) - np.cos(s[:, :1] + s[:, 1:2]) - 1)


def from_goal(position: float, velocity: float) -> Callable[[Rows], Rows]:
    return lambda s: np.abs(s - [position, velocity])


def squares(s: Rows) -> Rows:
    """Speeds enter an acceleration squared."""
    return np.broadcast_to(1 + np.max(np.abs(s), axis=1, keepdims=True) ** 2, s.shape)


def turns(s: Rows) -> Rows:
    """An angle is known to its own rounding, and no more; forces add up to about 10."""
    return np.broadcast_to(10 + np.abs(s[:, :1]), s.shape)


def valley_size(s: Rows) -> Rows:
    return np.broadcast_to([1.2, 0.07], s.shape)


CART_EDGES = [[2.4, 0.0, 0.0, 0.0], [-2.4, 0.0, 0.0, 0.0], [2.41, 0.0, 0.0, 0.0], [0.0, 0.0, ANGLE, 0.0], [0.0] * 4]
ACROBOT_EDGES = [
    [0.0] * 4,
    [PI, 0.0, 0.0, 0.0],
    [-PI, PI, 0.0, 0.0],
    [3.0, -3.0, 4 * PI, -9 * PI],
    [3.1, 3.1, 12.5, 28.2],
]
PENDULUM_EDGES = [[0.0, 0.0], [PI, 8.0], [-PI, -8.0], [100.0, 8.0]]
CAR_EDGES = [
    [-1.2, 0.0],
    [-1.2, -0.07],
    [-1.19, -0.07],
    [0.6, 0.07],
    [0.5, 0.0],
    [0.45, 0.0],
    [0.49, 0.02],
    [0.44, 0.02],
]

CASES = [
    *(
        Case(name, cart_pole, CART_EDGES, from_rails, squares, kwargs)
        for name, kwargs in (("CartPole-v0", {}), ("CartPole-v1", {}), ("CartPole-v1", {"sutton_barto_reward": True}))
    ),
    Case("Acrobot-v1", within(PI, PI, 4 * PI, 9 * PI), ACROBOT_EDGES, from_height, squares, {}),
    *(
        Case("Pendulum-v1", within(30, 8), PENDULUM_EDGES, lambda s: s[:, :0], turns, kwargs)
        for kwargs in ({}, {"g": 9.81})
    ),
    *(
        Case(name, valley, CAR_EDGES, from_goal(goal, velocity), valley_size, kwargs)
        for name, goal in (("MountainCar-v0", 0.5), ("MountainCarContinuous-v0", 0.45))
        for velocity, kwargs in (
            (0.0, {}),
            (0.07, {"goal_velocity": 0.07}),
        )  # the second is reached exactly, by clipping
    ),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_name = pytest.mark.parametrize("name", CLASSIC)


def ours_of(name: str, **kwargs: Any) -> Any:
    """The environment under test."""
    return CLASSIC[name](**kwargs)


def original(name: str, **kwargs: Any) -> Any:
    """Gymnasium's environment without wrappers."""
    env = load_env_creator(gym.spec(name).entry_point)(**kwargs)
    env.reset(seed=0)
    return env


def draw_actions(env: Any, rng: np.random.Generator, n: int) -> Rows:
    """Random actions; continuous ones also outside their bounds, which the originals clip."""
    if isinstance(env.action, Discrete):
        return rng.integers(env.action.n, size=n)
    return rng.uniform(-1.5, 1.5, (n, 1)) * env.action.high


def gym_steps(case: Case, states: Rows, actions: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """One step of the original from each state: next states, observations, rewards, terminations."""
    theirs = original(case.name, **case.kwargs)
    rows = []
    for state, action in zip(states, actions, strict=True):
        theirs.state = state.copy()
        theirs.steps_beyond_terminated = None
        observation, reward, terminated, truncated, _ = theirs.step(action)
        assert not truncated
        rows.append((np.array(theirs.state), observation, reward, terminated))
    return tuple(np.array(column) for column in zip(*rows, strict=True))  # type: ignore[return-value]


def our_steps(case: Case, states: Rows, actions: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """The same steps here, compiled and batched, in the precision that JAX is set to."""
    env = ours_of(case.name, **case.kwargs)

    def one(state: Array, action: Array) -> tuple[Array, Array, Array, Array]:
        state, reward, terminated = env.step(state, action, jax.random.key(0))
        return state, env.observe(state), reward, terminated

    outcome = jax.jit(jax.vmap(one))(env.from_gym(states), jnp.asarray(actions))
    return tuple(np.asarray(x) for x in outcome)  # type: ignore[return-value]


def draw(case: Case, seed: int, n: int = 1500) -> tuple[Rows, Rows]:
    """Random states, then every edge with several actions."""
    rng = np.random.default_rng(seed)
    states = np.concatenate([case.draw(rng, n), np.repeat(np.array(case.edges), 6, axis=0)])
    return states, draw_actions(ours_of(case.name), rng, len(states))


@each_case
def test_step_equals_gymnasium_in_float64(case: Case) -> None:
    states, actions = draw(case, seed=1)
    state, observation, reward, terminated = gym_steps(case, states, actions)
    with jax.enable_x64(True):
        ours = our_steps(case, states, actions)
    assert ours[0].dtype == np.float64
    # MountainCarContinuous hands its state on in float32, so ours is compared after the same rounding.
    np.testing.assert_allclose(ours[0].astype(state.dtype), state, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(ours[1], observation, rtol=EPSILON, atol=1e-11)  # the originals observe in float32
    np.testing.assert_allclose(ours[2], reward, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ours[3], terminated)
    if case.distance(states).size:
        assert 0 < np.sum(terminated) < len(terminated)  # both outcomes were compared


@each_case
def test_step_equals_gymnasium_within_float32_rounding(case: Case) -> None:
    """From states and actions that float32 holds exactly, a float32 step is off by a few roundings of what it adds up.

    `terminated` must agree wherever every deciding quantity of the float64 step lies farther than that from its
    threshold; only rows nearer than that are left out, and there must be few of them.
    """
    states, actions = draw(case, seed=2)
    states = states.astype(np.float32).astype(np.float64)
    actions = actions if actions.dtype.kind == "i" else actions.astype(np.float32).astype(np.float64)
    state, observation, reward, terminated = gym_steps(case, states, actions)
    ours = our_steps(case, states, actions)
    assert {x.dtype for x in ours[:3]} == {np.dtype(np.float32)}

    allowed = 4 * EPSILON * case.unit(states)
    assert np.all(off(case, ours[0], state) <= allowed)
    widest = np.max(allowed, axis=1, keepdims=True)
    assert np.all(np.abs(ours[1] - observation) <= widest)
    distance = case.distance(state)
    clear = np.all(distance > allowed[:, : distance.shape[1]], axis=1)
    assert np.mean(clear) > 0.98
    np.testing.assert_array_equal(ours[3][clear], terminated[clear])
    assert np.all((np.abs(ours[2] - reward) <= widest[:, 0] + 4 * EPSILON * np.abs(reward))[clear])


def off(case: Case, ours: Rows, theirs: Rows) -> Rows:
    """The difference of two states; whole turns do not count, nor the stop at a wall that only one of them touches."""
    difference = np.abs(ours - theirs)
    if case.name == "Acrobot-v1":
        difference[:, :2] = np.minimum(difference[:, :2], np.abs(difference[:, :2] - 2 * PI))
    if case.name.startswith("MountainCar"):
        one_touches = (ours[:, 0] == np.float32(-1.2)) != (theirs[:, 0] == theirs.dtype.type(-1.2))
        assert np.mean(one_touches) < 0.01
        difference[one_touches, 1] = 0.0
    return difference


def follow(name: str, start: Rows, actions: Rows, stored: type[np.floating[Any]] | None) -> tuple[Rows, ...]:
    """Our trajectory from a state; `stored` rounds the state after each step, as one of the originals does."""
    env = ours_of(name)

    def one(state: Array, action: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        state, reward, terminated = env.step(state, action, jax.random.key(0))
        if stored is not None:
            state = state.astype(stored).astype(state.dtype)
        return state, (env.observe(state), reward, terminated)

    return tuple(np.asarray(x) for x in jax.jit(lambda s, a: jax.lax.scan(one, s, a))(env.from_gym(start), actions)[1])


@pytest.mark.parametrize("seed", [0, 1, 2])
@each_name
def test_whole_episodes_equal_gymnasium_in_float64(name: str, seed: int) -> None:
    env, theirs, rng = ours_of(name), original(name), np.random.default_rng(seed)
    stored = np.float32 if name == "MountainCarContinuous-v0" else None
    observation, _ = theirs.reset(seed=seed)
    if stored:
        theirs.state = theirs.state.astype(stored).astype(np.float64)
    start = np.array(theirs.state, dtype=np.float64)
    actions, rows = draw_actions(env, rng, env.max_episode_steps), []
    for action in actions:
        observation, reward, terminated, _, _ = theirs.step(action)
        if stored:  # else NumPy would go on in float32 arithmetic from the state that the original rounded
            theirs.state = theirs.state.astype(np.float64)
        rows.append((observation, reward, terminated))
        if terminated:
            break
    with jax.enable_x64(True):
        ours = follow(name, start, actions[: len(rows)], stored)
    observation, reward, terminated = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_allclose(ours[0], observation, rtol=EPSILON, atol=1e-9)
    np.testing.assert_allclose(ours[1], reward, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(ours[2], terminated)


def test_a_float32_episode_stays_with_the_unchanged_mountain_car_continuous() -> None:
    """This original keeps its state in float32 itself, so whole float32 episodes can be compared with it as it is."""
    theirs, rng = original("MountainCarContinuous-v0"), np.random.default_rng(3)
    theirs.reset(seed=3)
    start = np.array(theirs.state)
    actions = rng.uniform(-1, 1, (999, 1)).astype(np.float32)
    observed = np.array([theirs.step(action)[0] for action in actions])
    ours = follow("MountainCarContinuous-v0", start, actions, None)
    assert np.all(np.abs(ours[0] - observed) <= 999 * EPSILON * np.array([1.2, 0.07]))


def largest_gap(a: Rows, b: Rows) -> float:
    """The two-sample Kolmogorov-Smirnov statistic: the largest gap of the two empirical distributions."""
    points = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (a, b)]
    return float(np.max(np.abs(below[0] - below[1])))


@each_name
def test_resets_are_distributed_as_gymnasiums(name: str) -> None:
    env, theirs = ours_of(name), original(name)
    ours = np.asarray(jax.vmap(env.reset)(jax.random.split(jax.random.key(4), 4000)))
    samples = []
    for seed in range(2000):
        theirs.reset(seed=seed)
        samples.append(np.array(theirs.state))
    reference = np.array(samples)
    critical = np.sqrt(-np.log(1e-4 / 2) / 2 * (1 / len(ours) + 1 / len(reference)))
    for column in range(ours.shape[1]):
        assert largest_gap(ours[:, column], reference[:, column]) < critical
        low, high = ours[:, column].min(), ours[:, column].max()
        width = reference[:, column].max() - reference[:, column].min()
        np.testing.assert_allclose(
            [low, high], [reference[:, column].min(), reference[:, column].max()], atol=0.01 * width
        )
    varying = ours[:, ours.std(axis=0) > 0]
    correlation = np.atleast_2d(np.corrcoef(varying.T)) - np.eye(varying.shape[1])
    assert np.max(np.abs(correlation)) < 4 / np.sqrt(len(ours))  # one draw, but independent coordinates


@each_name
def test_spaces_and_time_limit_are_gymnasiums(name: str) -> None:
    env, theirs = ours_of(name), original(name)
    assert env.max_episode_steps == gym.spec(name).max_episode_steps
    pairs = [(env.observation, theirs.observation_space), (env.action, theirs.action_space)]
    for space, reference in pairs:
        if isinstance(space, Box):
            assert (space.shape, np.dtype(space.dtype)) == (reference.shape, reference.dtype)
            np.testing.assert_array_equal(
                np.broadcast_to(np.asarray(space.low, np.float32), space.shape), reference.low
            )
            np.testing.assert_array_equal(
                np.broadcast_to(np.asarray(space.high, np.float32), space.shape), reference.high
            )
        else:
            assert (space.n, 0) == (reference.n, reference.start)


@each_name
def test_states_go_to_gymnasium_and_come_back(name: str) -> None:
    env, theirs = ours_of(name), original(name)
    state = env.reset(jax.random.key(5))
    theirs.state = env.gym_state(state)
    np.testing.assert_array_equal(env.from_gym(theirs.state), state)
    theirs.step(theirs.action_space.sample())


@each_name
def test_every_environment_keeps_the_contract(name: str) -> None:
    check_env(ours_of(name), jax.random.key(6))
