"""Missions by name, changed, in files; evaluation sets; what is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.missions import (
    MISSIONS,
    VARIANTS,
    eval_sets,
    find_evals,
    find_mission,
    load_mission,
    make_mission,
    save_mission,
)


def test_missions_and_sites_by_name() -> None:
    assert set(MISSIONS) == {"cogsguard_arena.basic", "cogsguard_machina_1.basic"}
    arena, machina = find_mission("cogsguard_arena"), find_mission("cogsguard_machina_1.basic")
    assert arena.full_name == "cogsguard_arena.basic"
    assert (arena.rules.max_steps, arena.rules.num_agents) == (1000, 8)
    assert (machina.rules.max_steps, machina.map(0).width) == (10_000, 98)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_mission("cogsguard_arina"), "Did you mean 'cogsguard_arena"),
        (lambda: make_mission("cogsguard_arena", variants=["milestone"]), "Did you mean 'milestones'"),
        (lambda: make_mission("cogsguard_arena", difficulty="brutal"), "Known: easy, hard, medium"),
        (lambda: make_mission("cogsguard_arena", cogs=0), "1 to 20 cogs"),
        (lambda: make_mission("cogsguard_arena", cogs=21), "1 to 20 cogs"),
        (lambda: find_evals("integrated"), "Did you mean 'integrated_evals'"),
        (lambda: load_mission(Path("nowhere.yaml")), "cannot be read"),
    ],
)
def test_what_is_unknown_is_a_sentence(make: object, says: str) -> None:
    with pytest.raises(CogsError, match=says):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_changes_something(name: str) -> None:
    plain = find_mission("cogsguard_arena")
    varied = plain.with_variants([name])
    assert varied.variants == (name,)
    same = (varied.rules, varied.terrain) == (plain.rules, plain.terrain)
    assert same == (name == "objective")


def test_variants_stack() -> None:
    mission = make_mission("cogsguard_arena", variants=["milestones", "credit", "no_clips"], cogs=4)
    assert mission.rules.rewards == ("objective", "milestones", "credit")
    assert not mission.rules.clips.enabled
    assert mission.rules.num_agents == 4


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_mission_file_comes_back_the_same(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine.{ending}"
    mission = make_mission("cogsguard_arena", cogs=3, difficulty="medium", variants=["credit", "small_map"], steps=50)
    save_mission(mission, path)
    again = find_mission(str(path))
    assert again.rules == mission.rules
    assert again.terrain == mission.terrain
    assert (again.full_name, again.variants) == (mission.full_name, mission.variants)


def test_mission_files_say_rules_maps_and_teams(tmp_path: Path) -> None:
    path = tmp_path / "duel.yaml"
    path.write_text(
        "teams: [{name: red, size: 2}, {name: blue, size: 3}]\n"
        "rules: {move_cost: 5}\nmap: {width: 60, layout: open}\nmax_steps: 70\ndifficulty: easy\n"
    )
    mission = load_mission(path)
    assert mission.rules.team_of == (0, 0, 1, 1, 1)
    assert (mission.rules.move_cost, mission.rules.max_steps, mission.name) == (5, 70, "duel")
    assert len(mission.map(1).hubs()) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stepps: 3", "Unknown key in m.yaml: 'stepps'"),
        ("rules: {move_cots: 3}", "Did you mean 'move_cost'"),
        ("rules: {move_cost: many}", "is no int"),
        ("- 1", "no mapping"),
        ("base: [", "cannot be read"),
    ],
)
def test_bad_mission_files_are_sentences(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(CogsError, match=says):
        load_mission(tmp_path / "m.yaml")


def test_evaluation_sets() -> None:
    sets = eval_sets()
    assert set(sets) == {"integrated_evals", "spanning_evals", "diagnostic_evals", "cogsguard_evals"}
    assert len(find_evals("all")) == sum(len(missions) for missions in sets.values())
    for missions in sets.values():
        names = [mission.full_name for mission in missions]
        assert len(set(names)) == len(names)
        assert all(mission.rules.max_steps == 1000 for mission in missions)
