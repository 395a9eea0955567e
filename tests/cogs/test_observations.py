"""Both observations beside a slow reading of the same world, and what they must never do."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from rewardlab.cogs.env import make_env
from rewardlab.cogs.maps.grid import from_ascii
from rewardlab.cogs.missions import find_mission, make_mission
from rewardlab.cogs.observe import window_cells
from rewardlab.cogs.rules import CODE, FEATURES, FIRST_AGENT, INDEX, KINDS
from rewardlab.cogs.simulation import Simulation
from rewardlab.cogs.window import GridView

ENVS, STEPS = 4, 40


def play(observation: str) -> Any:
    """The same random episodes under one kind of observation: the last state and what was seen."""
    mission = make_mission("cogsguard_arena", cogs=5)
    env = make_env(mission, ENVS, observation=observation, maps=2)

    @jax.jit
    def run(key: Any) -> Any:
        def one(carry: Any, key: Any) -> tuple[Any, None]:
            actions = jax.random.randint(key, (ENVS, 5), 0, 12)
            state, step = env.step(carry[0], actions, key)
            return (state, step.obs), None

        return jax.lax.scan(one, env.reset(key), jax.random.split(key, STEPS))[0]

    state, seen = run(jax.random.key(3))
    return env, jax.tree.map(np.asarray, state.game), jax.tree.map(np.asarray, seen)


@pytest.fixture(scope="module")
def tokens() -> Any:
    return play("tokens")


@pytest.fixture(scope="module")
def grid() -> Any:
    return play("grid")


def test_the_observation_changes_nothing_else(tokens: Any, grid: Any) -> None:
    for name in ("cell", "inventory", "owner", "amount", "store", "vibe"):
        np.testing.assert_array_equal(getattr(tokens[1], name), getattr(grid[1], name), err_msg=name)


def test_the_window_and_the_tokens_tell_the_same(tokens: Any, grid: Any) -> None:
    """Per cell: who or what is there, and what an agent there holds."""
    seen: GridView = grid[2]
    half = 5
    for env in range(ENVS):
        for agent in range(5):
            by_cell: dict[tuple[int, int], dict[str, int]] = {}
            for location, feature, value in tokens[2][env, agent]:
                if location < 0xFE:
                    by_cell.setdefault((location >> 4, location & 15), {})[FEATURES.names[feature]] = int(value)
            for row in range(11):
                for col in range(11):
                    first, second = (seen.cells[env, agent, plane, row, col].astype(int) for plane in range(2))
                    said = by_cell.get((row, col), {})
                    assert bool(said) == (first[0] != CODE["empty"])
                    if first[0] >= FIRST_AGENT:
                        assert said["agent_id"] == first[0] - FIRST_AGENT
                        assert said.get("inv:energy", 0) == first[1]
                        hp = first[2] + 256 * (first[3] & 1)
                        assert said.get("inv:hp", 0) + 256 * said.get("inv:hp:p1", 0) == hp
                        assert said.get("inv:heart", 0) == first[3] >> 4
                        assert said.get("vibe", 0) == second[0] >> 5
                        cargo = second[1] | second[2] << 8 | second[3] << 16
                        for i, name in enumerate(("oxygen", "carbon", "germanium", "silicon")):
                            assert said.get(f"inv:{name}", 0) == cargo >> 6 * i & 63
                    elif said and KINDS[first[0]].endswith("extractor"):
                        element = KINDS[first[0]].removesuffix("_extractor")
                        assert said[f"inv:{element}"] == first[2]
            assert seen.cells[env, agent, 0, half, half, 0] == FIRST_AGENT + agent


def test_the_numbers_beside_the_window(grid: Any) -> None:
    env, state, seen = grid
    width = env.engine.layout.width
    rows = state.cell // width - state.spawn // width
    np.testing.assert_array_equal(seen.whole[:, :, 0], STEPS)
    np.testing.assert_array_equal(seen.whole[:, :, 3], rows.T)
    np.testing.assert_array_equal(seen.whole[:, :, 5], state.store[0, 0][:, None].repeat(5, 1))


def test_tokens_are_counted_as_written(tokens: Any) -> None:
    state, seen = tokens[1], tokens[2]
    written, free = state.stats.tokens_written, state.stats.tokens_free
    assert (written + free == (STEPS + 1) * 5 * 200).all()
    assert (written >= (seen[..., 0] != 255).sum((1, 2))).all()


def test_cells_go_by_manhattan_distance() -> None:
    cells = window_cells(3).tolist()
    assert cells == [[0, 0], [-1, 0], [0, -1], [0, 1], [1, 0], [-1, -1], [-1, 1], [1, -1], [1, 1]]


def test_a_crowd_of_tokens_is_cut_at_two_hundred() -> None:
    """Twenty cogs in one corner between walls: more tokens than slots; what is cut is counted."""
    text = "\n".join(["H" + "." * 20] + ["@" * 7 + "." * 14] * 3)
    mission = find_mission("cogsguard_arena").with_cogs(20)
    simulation = Simulation(mission, game_map=from_ascii(text))
    assert simulation.observations.shape == (20, 200, 3)
    full = (simulation.observations[:, :, 0] != 255).sum(1)
    assert full.max() == 200
    assert simulation.stats()["game"]["tokens_dropped"] > 0
    np.testing.assert_array_equal(simulation.observations[0, 0], [254, FEATURES["episode_completion_pct"], 0])


def test_large_stores_take_two_tokens() -> None:
    mission = make_mission("cogsguard_arena", cogs=1, variants=["wealthy", "wealthy"])
    simulation = Simulation(mission, seed=1)
    globals_ = [tuple(int(x) for x in token) for token in simulation.observations[0] if token[0] == 254]
    oxygen = FEATURES["inv:collective:oxygen"]
    # 1000 = 3·256 + 232
    assert (254, oxygen, 232) in globals_
    assert (254, oxygen + 1, 3) in globals_
    assert INDEX["oxygen"] == 5
