"""`role` and `role_py`: the same decisions from the same observations; and what their cogs do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.cogs.missions import MISSIONS
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.crew import Crew
from rewardlab.cogs.policies.make import make_policy
from rewardlab.cogs.policies.roster import RolePy, role_settings
from rewardlab.cogs.policies.settings import ALIGNER, MINER, ROLES, SCOUT, SCRAMBLER
from rewardlab.cogs.simulation import Simulation

MISSION = MISSIONS["cogsguard_arena.basic"].with_steps(400)
INFO = PolicyEnvInterface.from_rules(MISSION.rules)


@dataclass
class Episode:
    """What `role_py` saw and did."""

    simulation: Simulation
    observations: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    infos: list[list[dict[str, Any]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def episode() -> Episode:
    played = Episode(Simulation(MISSION, seed=7))
    policy, actions = make_policy("role_py", INFO), np.zeros(8, np.int32)
    while not played.simulation.done:
        played.observations.append(played.simulation.observations)
        policy.step_batch(played.simulation.observations, actions)
        played.actions.append(actions.copy())
        played.infos.append([policy.agent_policy(i).infos for i in range(8)])
        played.simulation.step(actions)
    return played


def test_the_twins_decide_the_same(episode: Episode) -> None:
    """Bit for bit, over an episode; a second lane runs beside it and starts again on the way."""
    crew = Crew(INFO, role_settings())
    act = jax.jit(crew.act)
    memory = crew.init(2)
    again = 60
    for step, (seen, done) in enumerate(zip(episode.observations, episode.actions, strict=True)):
        late = episode.observations[step - again] if step >= again else seen
        actions, memory = act(memory, np.stack([seen, late]))
        np.testing.assert_array_equal(actions[0], done, err_msg=f"step {step}")
        if step >= again:
            np.testing.assert_array_equal(actions[1], episode.actions[step - again], err_msg=f"restarted, step {step}")
        elif step == again - 1:
            memory = crew.restart(memory, jnp.array([False, True]))


def test_role_is_the_compiled_twin(episode: Episode) -> None:
    policy, actions = make_policy("role", INFO), np.zeros(8, np.int32)
    for seen, done, infos in zip(episode.observations[:30], episode.actions, episode.infos, strict=False):
        policy.step_batch(seen, actions)
        np.testing.assert_array_equal(actions, done)
        assert [policy.agent_policy(i).infos for i in range(8)] == infos
    policy.reset()
    policy.step_batch(episode.observations[0], actions)
    np.testing.assert_array_equal(actions, episode.actions[0])


def test_cogs_asked_one_by_one_play_alike(episode: Episode) -> None:
    """The first to be asked does not know yet what the others see now: the same shares of actions, not the same."""
    policy, taken = make_policy("role_py", INFO), Counter[str]()
    agents = [policy.agent_policy(i) for i in range(8)]
    for seen in episode.observations[:200]:
        for i, agent in enumerate(agents):
            taken[agent.step(INFO.observation(i, seen[i])).name.split("_")[0]] += 1
    batch = Counter(INFO.action_names[a].split("_")[0] for done in episode.actions[:200] for a in done)
    for kind in ("move", "noop", "change"):
        assert abs(taken[kind] - batch[kind]) / sum(batch.values()) < 0.1, (kind, taken, batch)


def test_the_crew_expands_and_rarely_fails(episode: Episode) -> None:
    stats = episode.simulation.stats()
    moved = sum(agent["action.move.success"] for agent in stats["agent"])
    failed = sum(agent.get("action.move.failed", 0) for agent in stats["agent"])
    assert failed / (moved + failed) < 0.05
    assert episode.simulation.junctions()["cogs"] >= 5
    assert stats["collective"]["cogs"]["aligned.junction.held"] > 400


def test_all_four_roles_are_taken_and_shown(episode: Episode) -> None:
    assert {info["role"] for infos in episode.infos for info in infos} == set(ROLES)
    names = [INFO.action_names[a] for done in episode.actions for a in done]
    assert {f"change_vibe_{role}" for role in ROLES} <= set(names)


def test_targets_are_shared_out(episode: Episode) -> None:
    """No two aligners are after one junction for more than a moment."""
    together = 0
    for infos in episode.infos:
        targets = [info["target"] for info in infos if info["about"] == "align"]
        together += len(targets) != len(set(targets))
    assert together < len(episode.infos) * 0.05


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ({"miner": 2, "scout": 1, "aligner": 1}, [MINER, MINER, SCOUT, ALIGNER]),
        ({"role_order": "scrambler,miner"}, [SCRAMBLER, MINER]),
        ({"role_cycle": "miner,scout"}, [MINER, SCOUT] * 10),
        ({"gear": 10}, []),
        ({}, []),
    ],
)
def test_roles_by_arguments(text: dict[str, Any], roles: list[int]) -> None:
    assert list(role_settings(**text).fixed) == roles


def test_fixed_roles_are_kept() -> None:
    simulation = Simulation(MISSION.with_steps(60), seed=8)
    policy, actions = RolePy(INFO, miner=4, scout=2, aligner=1, scrambler=1), np.zeros(8, np.int32)
    while not simulation.done:
        policy.step_batch(simulation.observations, actions)
        simulation.step(actions)
        shown = [policy.agent_policy(i).infos["role"] for i in range(8)]
        assert shown == ["miner"] * 4 + ["scout"] * 2 + ["aligner", "scrambler"]


def test_a_crowd_finds_its_ways() -> None:
    mission = MISSION.with_cogs(20).with_steps(60)
    simulation = Simulation(mission, seed=9)
    policy, actions = make_policy("role_py", PolicyEnvInterface.from_rules(mission.rules)), np.zeros(20, np.int32)
    while not simulation.done:
        policy.step_batch(simulation.observations, actions)
        simulation.step(actions)
    failed = sum(agent.get("action.move.failed", 0) for agent in simulation.stats()["agent"])
    assert failed < 0.05 * 60 * 20


def test_a_crew_of_one_aligns_by_itself() -> None:
    """The others rest: it has five hearts to fetch and its gear to buy, and to find where that is."""
    aligned = longest = 0
    for seed in (7, 8):
        simulation, still = Simulation(MISSION.with_steps(200), seed=seed), 0
        policy, actions = make_policy("aligner", INFO), np.zeros(8, np.int32)
        while not simulation.done:
            policy.step_batch(simulation.observations[:1], actions[:1])
            simulation.step(actions)
            rested = actions[0] == 0 and simulation.agents()[0].inventory["energy"] == 20
            still = still + 1 if rested else 0  # seed 8: clips that it does not see drain its influence at home
            longest = max(longest, still)
        aligned += simulation.stats()["agent"][0].get("junction.aligned_by_agent", 0)
    assert aligned >= 4
    assert longest < 20
