"""Scenes from the engine's state, and what is said to have happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rewardlab.cogs.missions import Mission
from rewardlab.cogs.render.camera import areas_of, plain
from rewardlab.cogs.render.replay import ReplayWriter, read_replay
from rewardlab.cogs.render.scene import Infos, describe, play
from rewardlab.cogs.render.session import Actions, LiveSession
from rewardlab.cogs.rules import ACTIONS, INDEX, Rules, Team
from rewardlab.cogs.simulation import Simulation

# The cog starts at @, takes a heart from the chest east of it, gear from the station west of it, and aligns the
# junction south of it, which lies in the hub's area.
MAP = """
#########
#H......#
#..A@=..#
#...J..C#
#.@.....#
#########
"""
EAST, SOUTH, WEST = (ACTIONS.index(f"move_{way}") for way in ("east", "south", "west"))
PLAN = [EAST, WEST, SOUTH]


def mission() -> Mission:
    rules = replace(Rules(teams=(Team(size=1),), max_steps=4), store=(*Rules().store[:4], ("heart", 1)))
    return Mission("tiny", "basic", "", rules.with_difficulty("easy"), terrain=MAP)


@pytest.fixture(scope="module")
def session() -> LiveSession:
    simulation = Simulation(mission(), seed=0, spawns=[(2, 4)])

    def decide(observations: object) -> tuple[Actions, Infos]:
        step = simulation.step_count
        action = PLAN[step] if step < len(PLAN) else 0
        return np.array([action], np.int32), ({"about": ACTIONS[action], "odd": [1], "none": None},)

    return LiveSession(simulation, decide, seed=5, policies=["planned"])


@pytest.mark.slow
def test_an_episode_of_the_engine_is_seen_as_it_is(session: LiveSession, tmp_path: Path) -> None:
    setting, simulation = session.setting, session.simulation
    assert (setting.width, setting.height, setting.mission) == (9, 6, "tiny.basic")
    assert setting.walls == ("#########", *("#.......#",) * 4, "#########")
    assert {(thing.kind, thing.row, thing.col) for thing in setting.things} == {
        (view.kind, view.row, view.col) for view in simulation.objects()
    }
    writer = ReplayWriter(tmp_path)
    summary = play(session, writer)
    assert writer.path is not None
    history = read_replay(writer.path).history
    told = [[describe(setting, event) for event in history.scene(step).events] for step in range(len(history))]
    assert told == [[], ["cog 0 took a heart"], ["cog 0 became aligner"], ["cog 0 aligned junction (3, 4)"], []]
    last = history.scene(4)
    agent = simulation.agents()[0]
    assert setting.place(int(last["cell"][0])) == (agent.row, agent.col) == (2, 4)
    held = {name: int(last["inventory"][0, i]) for name, i in INDEX.items()}
    assert {name: amount for name, amount in held.items() if amount} == agent.inventory
    assert (
        dict(zip(("oxygen", "carbon", "germanium", "silicon", "heart"), last["store"][0].tolist(), strict=True))
        == (simulation.stores()["cogs"])
    )
    assert last.counts(setting) == (0, 0, 1)
    assert summary.rewards == (0.5,)  # one junction in two of four steps
    assert last.infos == ({"about": "noop", "odd": "[1]"},)
    assert summary.statistics["collective"]["cogs"]["aligned.junction.held"] == 2
    assert set(areas_of(setting, last).reshape(-1).tolist()) == {2}


def test_a_policy_may_say_anything() -> None:
    words = {"a": np.int32(3), "b": float("nan"), "c": "x" * 500, "d": True, "none": None, "big": 1 << 80}
    said = {"a": 3, "b": "nan", "c": "x" * 60, "d": True, "big": str(1 << 80)}
    assert plain({**words, 5: 0.1234567891}) == {**said, "5": 0.123457}
    assert plain(None) == {}
    assert len(plain({str(i): i for i in range(99)})) == 12
