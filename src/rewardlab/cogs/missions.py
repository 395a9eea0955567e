"""Missions: rules and a map by name, changed by difficulty, variants and team size; mission files; evaluation sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.maps.generate import ARENA, MACHINA_1, MapSpec, generate
from rewardlab.cogs.maps.grid import GameMap, from_ascii
from rewardlab.cogs.rules import DIFFICULTIES, MAX_COGS, REWARD_VARIANTS, Amounts, Rules, Team

TERRAIN = MapSpec | str  # how a map is generated, or an ASCII map


@dataclass(frozen=True)
class Mission:
    """A game one can play: `site.name`."""

    site: str
    name: str
    description: str
    rules: Rules = field(default_factory=Rules)
    terrain: TERRAIN = ARENA
    difficulty: str = "hard"
    variants: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """`site.name`."""
        return f"{self.site}.{self.name}"

    def with_cogs(self, cogs: int) -> Mission:
        """For another number of cogs (1 to 20)."""
        return replace(self, rules=self.rules.with_cogs(cogs))

    def with_difficulty(self, difficulty: str) -> Mission:
        """At another difficulty."""
        return replace(self, rules=self.rules.with_difficulty(difficulty), difficulty=difficulty)

    def with_variants(self, names: Sequence[str]) -> Mission:
        """With variants applied one after another."""
        mission = self
        for name in names:
            if name not in VARIANTS:
                raise unknown("variant", name, VARIANTS)
            mission = VARIANTS[name].change(mission)
            mission = replace(mission, variants=(*mission.variants, name))
        return mission

    def with_steps(self, steps: int) -> Mission:
        """With another episode length."""
        return replace(self, rules=replace(self.rules, max_steps=steps))

    def map(self, seed: int) -> GameMap:
        """The map of a seed; an ASCII map is always the same."""
        return from_ascii(self.terrain) if isinstance(self.terrain, str) else generate(self.terrain, seed)


@dataclass(frozen=True)
class Variant:
    """A named change of a mission."""

    description: str
    change: Callable[[Mission], Mission]


def _rules(**changes: Any) -> Callable[[Mission], Mission]:
    return lambda mission: replace(mission, rules=replace(mission.rules, **changes))


def _clips(**changes: Any) -> Callable[[Mission], Mission]:
    return lambda mission: replace(mission, rules=replace(mission.rules, clips=replace(mission.rules.clips, **changes)))


def _terrain(**changes: Any) -> Callable[[Mission], Mission]:
    def change(mission: Mission) -> Mission:
        if isinstance(mission.terrain, str):
            raise CogsError(f"Mission '{mission.full_name}' has a fixed map: a variant of terrain cannot change it.")
        return replace(mission, terrain=replace(mission.terrain, **changes))

    return change


def _store(factor: int) -> Callable[[Mission], Mission]:
    def change(mission: Mission) -> Mission:
        store: Amounts = tuple((name, amount * factor) for name, amount in mission.rules.store)
        return replace(mission, rules=replace(mission.rules, store=store))

    return change


def _weather(day_length: int) -> Callable[[Mission], Mission]:
    return lambda mission: replace(
        mission, rules=replace(mission.rules, weather=replace(mission.rules.weather, day_length=day_length))
    )


def _reward(name: str) -> Callable[[Mission], Mission]:
    return lambda mission: replace(
        mission, rules=replace(mission.rules, rewards=tuple(dict.fromkeys((*mission.rules.rewards, name))))
    )


REWARD_TEXTS = {
    "objective": "Junctions held pay, as always (no change).",
    "no_objective": "Junctions held pay nothing.",
    "milestones": "Also pays for the junctions held, for aligning and for scrambling.",
    "credit": "Also pays a little for hearts, gear, elements and deposits.",
    "penalize_vibe_change": "Each change of vibe costs 0.01.",
}
VARIANTS: dict[str, Variant] = {
    **{name: Variant(REWARD_TEXTS[name], _reward(name)) for name in REWARD_VARIANTS},
    "no_clips": Variant("No clips.", _clips(enabled=False)),
    "fast_clips": Variant("The clips act twice as often.", _clips(neutralise_start=25, align_start=50, every=50)),
    "slow_clips": Variant("The clips act half as often.", _clips(neutralise_start=100, align_start=200, every=200)),
    "short_day": Variant("A day lasts 100 steps.", _weather(100)),
    "long_day": Variant("A day lasts 400 steps.", _weather(400)),
    "wealthy": Variant("The team starts with ten times the store.", _store(10)),
    "destitute": Variant("The team starts with an empty store.", _store(0)),
    "rich_extractors": Variant("Extractors hold 200.", _rules(extractor_amount=200)),
    "mined_out": Variant("Extractors hold 20.", _rules(extractor_amount=20)),
    "rough_terrain": Variant("A move costs 6 energy.", _rules(move_cost=6)),
    "open_ground": Variant("No walls but the hub's.", _terrain(layout="open")),
    "dense": Variant("Twice the buildings tried.", _terrain(coverage=0.2)),
    "sparse": Variant("Few buildings.", _terrain(coverage=0.03)),
    "small_map": Variant("36×36 inside the border.", _terrain(width=36, height=36)),
    "truncates": Variant("The time limit truncates instead of terminating.", _rules(truncates=True)),
}

_BASIC = (
    Mission("cogsguard_arena", "basic", "Hold junctions on a compact map: 50×50, 1000 steps.", Rules(), ARENA),
    Mission(
        "cogsguard_machina_1",
        "basic",
        "Hold junctions on an asteroid: 88×88, 10000 steps.",
        Rules(max_steps=10_000),
        MACHINA_1,
    ),
)
MISSIONS: dict[str, Mission] = {mission.full_name: mission for mission in _BASIC}
SITES: dict[str, tuple[str, str]] = {
    "cogsguard_arena": ("A compact arena with gear stations.", f"1-{MAX_COGS} cogs"),
    "cogsguard_machina_1": ("An asteroid with gear stations.", f"1-{MAX_COGS} cogs"),
}


def find_mission(name: str) -> Mission:
    """A mission by `site.name`, by its site alone (the site's first), or from a file (.yaml, .yml, .json)."""
    if name.endswith((".yaml", ".yml", ".json")):
        return load_mission(Path(name))
    if name in MISSIONS:
        return MISSIONS[name]
    of_site = [mission for mission in MISSIONS.values() if mission.site == name]
    if of_site:
        return of_site[0]
    raise unknown("mission", name, [*MISSIONS, *SITES])


def make_mission(
    name: str,
    *,
    cogs: int | None = None,
    variants: Sequence[str] = (),
    difficulty: str | None = None,
    steps: int | None = None,
) -> Mission:
    """A mission by name with what the command line changes."""
    mission = find_mission(name)
    if difficulty is not None:
        mission = mission.with_difficulty(difficulty)
    mission = mission.with_variants(variants)
    if cogs is not None:
        mission = mission.with_cogs(cogs)
    return mission if steps is None else mission.with_steps(steps)


@dataclass(frozen=True)
class MissionFile:
    """What a mission file may say; every key but `base` is optional."""

    base: str = "cogsguard_arena.basic"
    site: str | None = None
    name: str | None = None
    description: str | None = None
    difficulty: str | None = None
    variants: tuple[str, ...] = ()
    cogs: int | None = None
    teams: tuple[Mapping[str, Any], ...] = ()  # name and size each
    max_steps: int | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)  # numbers of `rules.Rules`
    map: Mapping[str, Any] = field(default_factory=dict)  # of `MapSpec`
    ascii: str | None = None


def load_mission(path: Path) -> Mission:
    """A mission from a YAML or JSON file."""
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise CogsError(f"Mission file {path} cannot be read: {error}.") from error
    if not isinstance(said, dict):
        raise CogsError(f"Mission file {path} holds no mapping of keys to values.")
    return mission_of(said, path)


def mission_of(said: Mapping[str, Any], path: Path) -> Mission:
    """A mission from what its file says."""
    for key in said:
        if key not in {known.name for known in fields(MissionFile)}:
            raise unknown(f"key in {path.name}:", str(key), [known.name for known in fields(MissionFile)])
    return _build(MissionFile(**{**said, "variants": tuple(said.get("variants") or ())}), path)


def _build(file: MissionFile, path: Path) -> Mission:
    mission = find_mission(file.base)
    rules = _changed(mission.rules, file.rules, (int, bool), f"'rules' of {path.name}")
    if file.teams:
        rules = replace(rules, teams=tuple(_changed(Team(), team, (int, str), "a team") for team in file.teams))
    terrain: TERRAIN = mission.terrain
    if file.ascii is not None:
        terrain = file.ascii
    elif file.map:
        base = ARENA if isinstance(terrain, str) else terrain
        terrain = _changed(base, file.map, (int, float, str), f"'map' of {path.name}")
    hubs = 1 if isinstance(terrain, str) else terrain.hubs
    if not isinstance(terrain, str) and len(rules.teams) > hubs:
        terrain = replace(terrain, hubs=len(rules.teams))
    mission = replace(
        mission,
        site=file.site or mission.site,
        name=file.name or path.stem,
        description=file.description or mission.description,
        rules=rules,
        terrain=terrain,
    )
    if file.difficulty is not None:
        mission = mission.with_difficulty(file.difficulty)
    mission = mission.with_variants(file.variants)
    if file.cogs is not None:
        mission = mission.with_cogs(file.cogs)
    return mission if file.max_steps is None else mission.with_steps(file.max_steps)


def _changed(base: Any, said: Mapping[str, Any], kinds: tuple[type, ...], where: str) -> Any:
    """A dataclass with some plain fields replaced; unknown or ill-typed ones are errors."""
    plain = {known.name for known in fields(base) if isinstance(getattr(base, known.name), kinds)}
    for key, value in said.items():
        if key not in plain:
            raise unknown(f"key in {where}:", str(key), plain)
        if not isinstance(value, (*kinds, type(getattr(base, key)))):
            raise CogsError(f"{where}: {key} is {value!r}, which is no {type(getattr(base, key)).__name__}.")
    return replace(base, **said)


def save_mission(mission: Mission, path: Path) -> None:
    """Write a mission to a file that `load_mission` reads back to the same (JSON or YAML by its ending)."""
    base = next((m for m in MISSIONS.values() if m.site == mission.site), _BASIC[0])
    said: dict[str, Any] = {"base": base.full_name, "site": mission.site, "name": mission.name}
    said |= {"description": mission.description, "difficulty": mission.difficulty}
    said |= {"teams": [{"name": team.name, "size": team.size} for team in mission.rules.teams]}
    said["max_steps"] = mission.rules.max_steps
    if isinstance(mission.terrain, str):
        said["ascii"] = mission.terrain
    else:
        drawn = mission.terrain
        said["map"] = {"width": drawn.width, "height": drawn.height, "layout": drawn.layout}
        said["map"] |= {"coverage": drawn.coverage, "hubs": drawn.hubs}
    if mission.variants:
        said["variants"] = list(mission.variants)
    text = json.dumps(said, indent=2) + "\n" if path.suffix == ".json" else yaml.safe_dump(said, sort_keys=False)
    path.write_text(text, encoding="utf-8")


def _case(name: str, description: str, base: str = "cogsguard_arena", **changes: Any) -> Mission:
    return replace(make_mission(base, **changes), name=name, description=description)


def eval_sets() -> dict[str, tuple[Mission, ...]]:
    """The evaluation sets. The original's members are not documented; these probe what the sets' names say."""
    return {
        "integrated_evals": (
            _case("easy", "Without clips.", difficulty="easy"),
            _case("medium", "Clips until step 300.", difficulty="medium"),
            _case("hard", "Clips to the end."),
            _case("machina_hard", "The large map, cut to 1000 steps.", "cogsguard_machina_1", steps=1000),
        ),
        "spanning_evals": (
            _case("small_map", "Little way between everything.", variants=["small_map"]),
            _case("open_ground", "Nothing to walk around.", variants=["open_ground"]),
            _case("dense", "Many buildings.", variants=["dense"]),
            _case("sparse", "Few buildings, long ways.", variants=["sparse"]),
            _case("short_day", "Energy comes and goes fast.", variants=["short_day"]),
            _case("large_map", "Long ways.", "cogsguard_machina_1", steps=1000, difficulty="easy"),
        ),
        "diagnostic_evals": (
            _case(
                "economy",
                "An empty store and no clips: can they mine and deposit?",
                difficulty="easy",
                variants=["destitute"],
            ),
            _case("scarcity", "Extractors run dry after 20.", difficulty="easy", variants=["mined_out"]),
            _case("alignment", "A full store and no clips: can they align?", difficulty="easy", variants=["wealthy"]),
            _case("scrambling", "A full store and busy clips: can they win back?", variants=["wealthy", "fast_clips"]),
            _case("energy", "A move costs 6.", difficulty="easy", variants=["rough_terrain"]),
            _case("alone", "One cog must do everything.", difficulty="easy", cogs=1),
        ),
        "cogsguard_evals": (
            _case("arena_2", "Two cogs.", cogs=2),
            _case("arena_4", "Four cogs.", cogs=4),
            _case("arena_8", "Eight cogs.", cogs=8),
            _case("arena_20", "Twenty cogs.", cogs=20),
            _case("machina_8", "The large map, cut to 1000 steps.", "cogsguard_machina_1", cogs=8, steps=1000),
        ),
    }


def find_evals(name: str) -> tuple[Mission, ...]:
    """The missions of an evaluation set, or of all."""
    sets = eval_sets()
    if name == "all":
        return tuple(mission for missions in sets.values() for mission in missions)
    if name not in sets:
        raise unknown("evaluation set", name, [*sets, "all"])
    return sets[name]


def describe_difficulties() -> tuple[str, ...]:
    """The difficulties' names, the easiest first."""
    return tuple(DIFFICULTIES)
