"""Whether what a file says can be an episode: a ValueError says what cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewardlab.cogs.render.history import EVENT_FIELDS, History
from rewardlab.cogs.rules import ACTIONS, KINDS, MAX_COGS, RESOURCES, VIBES

LARGEST_SIDE = 1024
LARGEST_NUMBER = 1 << 40
NUMBERS = ("seed", "map_seed", "max_steps", "radius", "window", "day_length", "extractor_amount")
EVENT_KINDS = (
    *("align", "scramble", "clips_take", "clips_scramble", "heart_taken", "heart_made"),
    *("gear", "gear_lost", "deposit", "exhausted", "down", "dawn", "dusk"),
)


def _whole(value: Any, least: int = -LARGEST_NUMBER, most: int = LARGEST_NUMBER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def require(condition: bool, what: str) -> None:
    """A ValueError unless the condition holds."""
    if not condition:
        raise ValueError(what)


def check_header(header: Mapping[str, Any], words: Mapping[str, Sequence[str]]) -> None:
    """Types, sizes and ranges of everything before the frames."""
    require(isinstance(header["mission"], str) and isinstance(header["clips"], bool), "its mission or clips are odd")
    for name in NUMBERS:
        require(
            _whole(header[name], 0 if name in ("radius", "window", "extractor_amount") else -LARGEST_NUMBER),
            f"its {name} is no whole number",
        )
    require(header["max_steps"] >= 1 and header["day_length"] >= 2, "its lengths are too short")
    for name, known in words.items():
        require(header[name] == list(known), f"its {name} are not those of this RewardLab")
    require(_names(header["teams"]) and 1 <= len(header["teams"]) <= MAX_COGS, "its teams are no list of names")
    teams, team_of = len(header["teams"]), header["team_of"]
    require(isinstance(team_of, list) and 1 <= len(team_of) <= MAX_COGS, f"it has not 1 to {MAX_COGS} cogs")
    require(all(_whole(team, 0, teams - 1) for team in team_of), "a cog is in no team")
    require(_names(header["policies"]) and len(header["policies"]) == len(team_of), "its policies are not one per cog")
    _check_map(header["walls"], header["things"])
    _check_limits(header["limits"])


def _check_map(walls: Any, things: Any) -> None:
    require(_names(walls) and 1 <= len(walls) <= LARGEST_SIDE, "its map has no rows")
    width = len(walls[0])
    require(1 <= width <= LARGEST_SIDE and all(len(row) == width for row in walls), "its map's rows differ in length")
    require(all(set(row) <= {"#", "."} for row in walls), "its map has unknown symbols")
    require(isinstance(things, list), "its objects are no list")
    for thing in things:
        fits = isinstance(thing, list) and len(thing) == 3 and thing[0] in KINDS
        fits = fits and _whole(thing[1], 0, len(walls) - 1) and _whole(thing[2], 0, width - 1)
        require(fits, f"{thing!r} is no object on its map")


def _check_limits(limits: Any) -> None:
    require(isinstance(limits, list), "its limits are no list")
    for limit in limits:
        require(isinstance(limit, dict) and _names(limit["resources"]), "a limit has no resources")
        require(set(limit["resources"]) <= set(RESOURCES) and _whole(limit["least"]), "a limit is odd")
        require(limit["most"] is None or _whole(limit["most"]), "a limit is odd")
        require(all(name in RESOURCES and _whole(each) for name, each in limit["modifiers"]), "a limit is odd")


def check_frames(frames: Any, history: History) -> None:
    """Add every frame to the history; it must fit, and nobody may leave the map."""
    require(isinstance(frames, list) and len(frames) >= 1, "it has no frames")
    setting = history.setting
    require(len(frames) <= setting.max_steps + 1, "it has more frames than steps")
    bounds = {
        "cell": setting.height * setting.width,
        "action": len(ACTIONS),
        "failed": 2,
        "vibe": len(VIBES),
        "owner": len(setting.owners),
    }
    cells = {(thing.row, thing.col) for thing in setting.things}
    require(len(cells) == len(setting.things), "two of its objects stand on one cell")
    for step, frame in enumerate(frames):
        require(isinstance(frame, dict) and set(frame) <= {"d", "e", "i"}, f"frame {step} is odd")
        changes = frame.get("d", [])
        require(isinstance(changes, list) and len(changes) % 2 == 0, f"the changes of frame {step} are odd")
        require(all(map(_whole, changes)), f"a change of frame {step} is no whole number")
        for event in frame.get("e", ()):
            _check_event(event, len(setting.things), setting.cogs, step)
        infos = frame.get("i", {})
        require(isinstance(infos, dict) and all(isinstance(info, dict) for info in infos.values()), "its infos are odd")
        history.add_frame(frame)
        scene = history.latest
        for name, bound in bounds.items():
            part = scene[name]
            fits = part.size == 0 or (part.min() >= 0 and part.max() < bound)
            require(bool(fits), f"{name} of frame {step} is out of range")


def _check_event(event: Any, things: int, cogs: int, step: int) -> None:
    fits = isinstance(event, list) and len(event) == len(EVENT_FIELDS)
    fits = fits and event[0] in EVENT_KINDS and _whole(event[1], -1, cogs - 1) and _whole(event[2], -1, things - 1)
    require(fits and isinstance(event[3], str) and _whole(event[4]), f"{event!r} of frame {step} is no event")
