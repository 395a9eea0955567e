"""What there is to play: missions, variants, evaluation sets, policies; imported when one of them is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardlab.cli.tables import emit, table
from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.missions import MISSIONS, SITES, VARIANTS, Mission, eval_sets, save_mission
from rewardlab.cogs.missions import make_mission as mission_of
from rewardlab.cogs.policies.make import policy_names
from rewardlab.cogs.policies.starters import SCRIPTED, TRAINABLE


def as_data(mission: Mission) -> dict[str, Any]:
    """A mission as plain data."""
    rules = mission.rules
    shown: dict[str, Any] = {"name": mission.full_name, "description": mission.description}
    shown |= {"difficulty": mission.difficulty, "variants": list(mission.variants)}
    shown |= {"cogs": rules.num_agents, "teams": {team.name: team.size for team in rules.teams}}
    shown |= {"max_steps": rules.max_steps, "rewards": list(rules.rewards)}
    shown["map"] = "ascii" if isinstance(mission.terrain, str) else dataclasses.asdict(mission.terrain)
    return shown


def missions(
    site: str | None,
    name: str | None,
    cogs: int | None,
    variants: Sequence[str],
    difficulty: str | None,
    output: str | None,
    save: Path | None,
) -> None:
    """All missions, a site's, or one."""
    if name is not None:
        mission = mission_of(name, cogs=cogs, variants=variants, difficulty=difficulty)
        if save is not None:
            _save(mission, save)
        elif not emit(as_data(mission), output):
            show(mission)
        return
    if site is not None and site not in SITES:
        raise unknown("site", site, SITES)
    chosen = [
        mission_of(full, cogs=cogs, variants=variants, difficulty=difficulty)
        for full, mission in MISSIONS.items()
        if site in (None, mission.site)
    ]
    if not emit([as_data(mission) for mission in chosen], output):
        rows = [(m.full_name, m.rules.num_agents, m.rules.max_steps, m.description) for m in chosen]
        table("Missions", ("mission", "cogs", "steps", ""), rows)


def _save(mission: Mission, path: Path) -> None:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise CogsError(f"A mission file ends in .yaml, .yml or .json, unlike {path}.")
    try:
        save_mission(mission, path)
    except OSError as error:
        raise CogsError(f"Cannot write {path}: {error.strerror or error}.") from error
    print(f"written: {path}")


def variants(output: str | None) -> None:
    """All variants."""
    if not emit([{"name": name, "description": v.description} for name, v in VARIANTS.items()], output):
        table("Variants", ("variant", ""), [(name, variant.description) for name, variant in VARIANTS.items()])


def evals(output: str | None) -> None:
    """All evaluation sets."""
    sets = eval_sets()
    if emit({name: [as_data(mission) for mission in members] for name, members in sets.items()}, output):
        return
    for name, members in sets.items():
        rows = [(m.full_name, m.rules.num_agents, m.rules.max_steps, m.difficulty, m.description) for m in members]
        table(name, ("mission", "cogs", "steps", "difficulty", ""), rows)


def describe(name: str, cogs: int | None, variants: Sequence[str], difficulty: str | None) -> None:
    """One mission in full."""
    show(mission_of(name, cogs=cogs, variants=variants, difficulty=difficulty))


def show(mission: Mission) -> None:
    """A mission's rules in figures."""
    rules = mission.rules
    clips = rules.clips
    if not clips.enabled:
        raid = "none"
    else:
        until = f" until step {clips.until}" if clips.until else ""
        raid = f"take {clips.first_draws} junction(s) at step {clips.start}, then spread every {clips.every}{until}"
    terrain = mission.terrain
    size = "from ASCII" if isinstance(terrain, str) else f"{terrain.width}×{terrain.height} inside its border"
    rows: list[tuple[str, Any]] = [
        ("description", mission.description),
        ("difficulty", mission.difficulty),
        ("variants", ", ".join(mission.variants) or "none"),
        ("teams", ", ".join(f"{team.name}: {team.size} cogs" for team in rules.teams)),
        ("steps", f"{rules.max_steps}"),
        ("map", size),
        ("clips", raid),
        ("a move costs", f"{rules.move_cost} energy"),
        ("a day", f"{rules.weather.day_length} steps"),
        ("areas", f"{rules.area.radius} cells around hubs and held junctions"),
        (
            "an extractor",
            f"{rules.extractor_amount}, {rules.extract} a use, {rules.extract_with_miner} with miner gear",
        ),
        ("a heart", ", ".join(f"{amount} {name}" for name, amount in rules.heart_cost)),
        *((f"{gear} gear", ", ".join(f"{n} {name}" for name, n in price)) for gear, price in rules.gear_costs),
        ("the store starts with", ", ".join(f"{amount} {name}" for name, amount in rules.store)),
        ("rewards", ", ".join(rules.rewards)),
    ]
    table(mission.full_name, ("", " "), rows)


def policies(output: str | None) -> None:
    """All policies by name."""
    names = policy_names()
    if not emit([{"name": name, "description": text} for name, text in names.items()], output):
        table("Policies", ("policy", ""), list(names.items()))


def make_mission(
    name: str,
    cogs: int | None,
    variants: Sequence[str],
    difficulty: str | None,
    size: tuple[int | None, int | None],
    path: Path,
) -> None:
    """A mission file."""
    mission = mission_of(name, cogs=cogs, variants=variants, difficulty=difficulty)
    wanted: dict[str, Any] = {
        key: value for key, value in zip(("width", "height"), size, strict=True) if value is not None
    }
    if wanted:
        if isinstance(mission.terrain, str):
            raise CogsError(f"Mission {mission.full_name} has a fixed map, which has its own size.")
        mission = dataclasses.replace(mission, terrain=dataclasses.replace(mission.terrain, **wanted))
    _save(mission, path)


def make_policy(scripted: bool, path: Path) -> None:
    """A policy's file."""
    if path.exists():
        raise CogsError(f"There is a file {path} already: name another with -o.")
    try:
        path.write_text(SCRIPTED if scripted else TRAINABLE, encoding="utf-8")
    except OSError as error:
        raise CogsError(f"Cannot write {path}: {error.strerror or error}.") from error
    name = "StarterPolicy" if scripted else "TrainablePolicy"
    print(f"written: {path}; play it with: rewardlab cogs play -p class={path.stem}.{name}")
