"""The host's view of an episode, and episodes that follow each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.cogs.worlds import QUIET, World

from rewardlab.cogs.env import make_env
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.missions import make_mission
from rewardlab.cogs.rules import ACTIONS, CODE, FIRST_AGENT
from rewardlab.cogs.simulation import Simulation

MISSION = make_mission("cogsguard_arena", cogs=5, steps=30, variants=["milestones"])


def run(seed: int) -> Simulation:
    simulation, rng = Simulation(MISSION, seed=seed), np.random.default_rng(seed)
    while not simulation.done:
        simulation.step(rng.integers(0, 12, 5))
    return simulation


@pytest.fixture(scope="module")
def played() -> Simulation:
    return run(4)


def test_an_episode_ends_and_says_so(played: Simulation) -> None:
    assert (played.step_count, played.terminated, played.truncated) == (30, True, False)
    with pytest.raises(CogsError, match="over"):
        played.step([0] * 5)


def test_the_same_seed_is_the_same_episode(played: Simulation) -> None:
    again = run(4)
    np.testing.assert_array_equal(played.observations, again.observations)
    assert played.agents() == again.agents()
    assert played.stats() == again.stats()


def test_everything_can_be_looked_at(played: Simulation) -> None:
    codes = played.codes()
    assert codes.shape == (60, 60)
    for agent in played.agents():
        assert codes[agent.row, agent.col] == FIRST_AGENT + agent.id
    kinds = [thing.kind for thing in played.objects()]
    assert kinds.count("c:hub") == 1
    assert sum(codes.reshape(-1) == CODE["junction"]) == kinds.count("junction") == sum(played.junctions().values())
    assert set(played.stores()["cogs"]) == {"oxygen", "carbon", "germanium", "silicon", "heart"}
    assert played.text().count("#") == int((codes == CODE["wall"]).sum())


def test_statistics_have_the_originals_names_and_add_up(played: Simulation) -> None:
    stats = played.stats()
    for agent in stats["agent"]:
        acts = [f"action.{name}" for name in ("move.success", "move.failed", "noop.success", "change_vibe.success")]
        assert sum(agent.get(name, 0) for name in acts) == 30
        assert 50 + agent["hp.gained"] - agent["hp.lost"] == agent["hp.amount"]
        # All start with 100 energy, and the first update clamps it to 20.
        assert 100 + agent["energy.gained"] - agent["energy.lost"] == agent["energy.amount"]
    assert (
        stats["collective"]["clips"]["aligned.junction.held"] == 21 * stats["collective"]["clips"]["aligned.junction"]
    )
    assert stats["game"]["objects.c:hub"] == 1
    assert stats["game"]["objects.wall"] == (played.map.codes == CODE["wall"]).sum()


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ([0] * 4, "4 actions for 5 cogs"),
        ([12] * 5, "none of 0 to 11"),
        (["move_nrth"] * 5, "Did you mean 'move_north'"),
    ],
)
def test_nonsense_actions_are_sentences(actions: list[Any], says: str) -> None:
    with pytest.raises(CogsError, match=says):
        Simulation(MISSION, seed=4).step(actions)


def test_actions_by_name() -> None:
    simulation = Simulation(MISSION, seed=4)
    simulation.step(["change_vibe_miner"] * 5)
    assert {agent.vibe for agent in simulation.agents()} == {"miner"}
    assert {agent.last_action for agent in simulation.agents()} == {ACTIONS[10]}


def test_episodes_follow_each_other() -> None:
    env = make_env(MISSION, 6, observation="none", maps=2)

    @jax.jit
    def many(key: Any) -> Any:
        def one(state: Any, key: Any) -> tuple[Any, Any]:
            actions = jnp.zeros((6, 5), jnp.int32)
            state, step = env.step(state, actions, key)
            return state, (step.terminated, state.game.step, step.stats.nooped, step.episode_return)

        return jax.lax.scan(one, env.reset(key, staggered=True)[0], jax.random.split(key, 70))[1]

    over, step, nooped, _ = (np.asarray(x) for x in many(jax.random.key(0)))
    for lane in range(6):
        ends = np.nonzero(over[:, lane])[0]
        assert len(ends) in (2, 3)
        assert (np.diff(ends) == 30).all()
        assert (step[ends, lane] == 0).all()  # the next episode has begun
        assert (nooped[ends[1:], :, lane] == 30).all()  # … and the statistics are those of the one that ended
    assert len({tuple(np.nonzero(over[:, lane])[0]) for lane in range(6)}) > 1  # at different times


def test_shaping_pays_as_statistics_change() -> None:
    """`milestones`: the base junction, aligned, pays 1 for the junction held and 1 for the deed, once."""
    world = World(replace(QUIET, rewards=("milestones", "penalize_vibe_change", "no_objective")))
    world.give(aligner=1, heart=1, influence=5, hp=100)
    assert float(world.act("move_east").reward[0, 0]) == pytest.approx(2.0)
    assert float(world.act("noop").reward[0, 0]) == 0
    assert float(world.act("change_vibe_gear").reward[0, 0]) == pytest.approx(-0.01)
