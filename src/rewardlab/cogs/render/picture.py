"""A scene as text for a terminal: the map with two columns per cell, a panel beside it, the keys below."""

from __future__ import annotations

from dataclasses import dataclass

from rewardlab.cogs.maps.grid import SYMBOLS
from rewardlab.cogs.render.camera import areas_of
from rewardlab.cogs.render.scene import Scene, Setting
from rewardlab.cogs.rules import ACTIONS, CLIPS, ELEMENTS, EXTRACTORS, GEAR, INDEX, NEUTRAL, STORED, VIBES

NAMES = "0123456789abcdefghij"  # of cogs
PANEL, WIDEST_PANEL = 28, 46  # columns
LEVELS = "▁▂▃▄▅▆▇█"
# Of the 256 colours that nearly every terminal has; floors are dark shades of the owners' colours.
OWNER = (250, 209, 75, 79, 227, 176)
GROUND = {0: 234, CLIPS: 52, 2: 17, 3: 22, 4: 58, 5: 53, -1: 237}
WALL, INK, QUIET, DARK = 240, 254, 246, 16
ROLE = dict(zip(GEAR, (221, 211, 114, 147), strict=True))
ELEMENT = {"oxygen": 80, "carbon": 110, "germanium": 177, "silicon": 179}
HEART, ENERGY, INFLUENCE = 204, 221, 183


@dataclass(frozen=True)
class Cell:
    """Two columns of the screen."""

    text: str = "  "
    ink: int = INK
    ground: int = 234
    bold: bool = False


@dataclass(frozen=True)
class Look:
    """How the person wants to see it."""

    centre: tuple[int, int]  # row, column
    follow: int = 0
    steering: bool = False
    paused: bool = False
    speed: float = 8.0
    newest: int = 0
    panned: bool = False  # moved by hand; else the followed cog stays in the middle
    colour: bool = True
    legend: bool = True
    keys: str = ""
    recent: tuple[str, ...] = ()  # events, newest first


def paint(text: str, ink: int = INK, ground: int | None = None, bold: bool = False, colour: bool = True) -> str:
    """Text in colours."""
    if not colour:
        return text
    back = f";48;5;{ground}" if ground is not None else ""
    return f"\x1b[{'1;' if bold else ''}38;5;{ink}{back}m{text}\x1b[0m"


def owner_colour(owner: int) -> int:
    """The colour of an owner by its number."""
    return OWNER[owner] if owner < len(OWNER) else OWNER[2 + (owner - 2) % (len(OWNER) - 2)]


def grid_of(setting: Setting, scene: Scene, look: Look, rows: range, cols: range) -> list[list[Cell]]:
    """A part of the map."""
    held = areas_of(setting, scene)[rows.start : rows.stop, cols.start : cols.stop].tolist()
    floor = {owner: Cell(ground=GROUND.get(owner, GROUND[2])) for line in held for owner in line}
    rock = Cell("██" if look.colour else "##", WALL, WALL)
    cells = [
        [rock if wall == "#" else floor[owner] for wall, owner in zip(line, owners, strict=True)]
        for line, owners in zip((setting.walls[row][cols.start : cols.stop] for row in rows), held, strict=True)
    ]
    for thing, owner, amount in zip(setting.things, scene["owner"].tolist(), scene["amount"].tolist(), strict=True):
        if thing.row in rows and thing.col in cols:
            i, j = thing.row - rows.start, thing.col - cols.start
            share = amount / max(setting.extractor_amount, 1)
            cells[i][j] = thing_cell(thing.kind, owner, share, cells[i][j].ground)
    for cog in range(setting.cogs):
        row, col = setting.place(int(scene["cell"][cog]))
        if row in rows and col in cols:
            text = SYMBOLS.get(f"c:{scene.role(cog)}", "·") + NAMES[cog % len(NAMES)]
            ground = 231 if cog == look.follow else owner_colour(setting.owner_of(cog))
            cells[row - rows.start][col - cols.start] = Cell(text, DARK, ground, bold=True)
    return cells


def thing_cell(kind: str, owner: int, share: float, ground: int) -> Cell:
    """One object; extractors show how full they are."""
    if kind == "junction":
        sign = {NEUTRAL: "◇◇", CLIPS: "◈◈"}.get(owner, "◆◆")
        return Cell(sign, owner_colour(owner), ground, bold=owner != NEUTRAL)
    if kind == "c:hub":
        return Cell("HQ", DARK, owner_colour(owner), bold=True)
    if kind == "c:chest":
        return Cell("♥♥", HEART, 238, bold=True)
    if kind in EXTRACTORS:
        element = kind.removesuffix("_extractor")
        if share <= 0:
            return Cell("· ", QUIET, ground)
        level = LEVELS[min(int(share * len(LEVELS)), len(LEVELS) - 1)]
        return Cell(element[0].upper() + level, ELEMENT[element], ground)
    role = kind.removeprefix("c:")
    return Cell(f"+{SYMBOLS[kind]}", DARK, ROLE.get(role, QUIET), bold=True)


def bar(share: float, width: int, ink: int, colour: bool) -> str:
    """How full something is."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return paint("━" * full, ink, colour=colour) + paint("─" * (width - full), 238, colour=colour)


def panel_of(setting: Setting, scene: Scene, look: Look, height: int, wide: int = PANEL) -> list[tuple[str, int]]:
    """The lines beside the map, each with the columns that it takes."""
    lines: list[tuple[str, int]] = []

    def add(*parts: tuple[str, int]) -> None:
        text = "".join(paint(part, ink, colour=look.colour) for part, ink in parts)
        lines.append((text, sum(len(part) for part, _ in parts)))

    counts = scene.counts(setting)
    shown = [*range(2, len(counts)), *([CLIPS] if setting.clips else []), NEUTRAL]
    add(("junctions", QUIET))
    for start in range(0, len(shown), 3):
        add(*((f"{setting.owners[i][:7]} {counts[i]:<3}", owner_colour(i)) for i in shown[start : start + 3]))
    for team, store in zip(setting.teams, scene["store"].tolist(), strict=True):
        add((f"store {team}" if len(setting.teams) > 1 else "store", QUIET))
        amounts = dict(zip(STORED, store, strict=True))
        elements = [(f"{name[0].upper()}{amounts[name]:<5}", ELEMENT[name]) for name in ELEMENTS]
        add(*elements, (f"♥{amounts['heart']}", HEART))
    lines += cog_lines(setting, scene, look, wide)
    lines.append(("", 0))
    lines += _events(look, height - len(lines), wide)
    return lines[:height]


def cog_lines(setting: Setting, scene: Scene, look: Look, wide: int = PANEL) -> list[tuple[str, int]]:
    """The followed cog: meters, what it carries, what its policy says."""
    cog = look.follow
    if not 0 <= cog < setting.cogs:
        return [(paint("no cog followed (Tab)", QUIET, colour=look.colour), 21)]
    inventory = scene["inventory"][cog]
    role = scene.role(cog)
    title = f"cog {cog} · {role or 'no gear'} · {VIBES[int(scene['vibe'][cog])]}"[:wide]
    lines = [(paint(title, ROLE.get(role, INK), bold=True, colour=look.colour), len(title))]
    for name, ink in (("hp", HEART), ("energy", ENERGY), ("influence", INFLUENCE)):
        amount, most = int(inventory[INDEX[name]]), setting.cap(name, inventory) or 0
        value = f"{amount}/{most}"
        meter = bar(amount / max(most, 1), wide - 12 - 8, ink, look.colour)
        lines.append((f"{paint(f'{name:<10}', QUIET, colour=look.colour)}{meter} {value:<7}", wide - 2))
    carried = [f"{name} {int(inventory[INDEX[name]])}" for name in (*ELEMENTS, "heart") if inventory[INDEX[name]]]
    action = ACTIONS[int(scene["action"][cog])].replace("change_", "") + (" ✗" if scene["failed"][cog] else "")
    said = [f"{name} {value}" for name, value in scene.infos[cog].items()] if scene.infos else []
    texts = [", ".join(carried) or "carries nothing", f"{action} · reward {scene.reward(cog):.2f}", ", ".join(said)]
    return lines + [_cut(text, wide, look.colour) for text in texts]


def _cut(text: str, wide: int, colour: bool) -> tuple[str, int]:
    """A line no wider than the panel."""
    short = clean(text if len(text) <= wide else text[: wide - 1] + "…")
    return paint(short, INK, colour=colour), len(short)


def _events(look: Look, room: int, wide: int) -> list[tuple[str, int]]:
    """What has happened lately, newest first; what is longer than the panel is cut."""
    return [_cut(text, wide, look.colour) for text in look.recent[: max(room, 0)]]


def clean(text: str) -> str:
    """Text that cannot command the terminal: names come from files and policies."""
    return "".join(c if c.isprintable() else "·" for c in text)


def window_of(setting: Setting, look: Look, rows: int, cols: int) -> tuple[int, int]:
    """The upper left cell of what is shown: centred, but not beyond the edge."""
    top = min(max(look.centre[0] - rows // 2, 0), max(setting.height - rows, 0))
    left = min(max(look.centre[1] - cols // 2, 0), max(setting.width - cols, 0))
    return top, left


def picture(setting: Setting, scene: Scene, look: Look, columns: int, rows: int) -> list[str]:
    """`rows` lines of at most `columns` columns."""
    side = min(max(PANEL, columns // 4), WIDEST_PANEL) if columns >= 2 * PANEL else 0
    below = [LEGEND] * look.legend + [look.keys] * bool(look.keys)
    height = max(rows - 1 - len(below), 1)
    cols = max((columns - side - (1 if side else 0)) // 2, 1)
    top, left = window_of(setting, look, height, cols)
    seen = range(top, min(top + height, setting.height)), range(left, min(left + cols, setting.width))
    grid = grid_of(setting, scene, look, *seen)
    panel = panel_of(setting, scene, look, height, side) if side else []
    lines = [heading(setting, scene, look, columns)]
    for i in range(height):
        row = grid[i] if i < len(grid) else []
        text = "".join(paint(c.text, c.ink, c.ground, c.bold, look.colour) for c in row) + "  " * (cols - len(row))
        lines.append(f"{text} {panel[i][0]}" if i < len(panel) else text)
    return lines + [paint(line[:columns], QUIET, colour=look.colour) for line in below]


LEGEND = "◇ neutral ◆ held ◈ clips · HQ hub · ♥♥ chest · +ARMT gear · COGS ore · A0 cog"


def heading(setting: Setting, scene: Scene, look: Look, columns: int) -> str:
    """The first line: where we are."""
    state = "paused" if look.paused else f"{look.speed:g}/s"
    night = "night" if setting.is_night(scene.step) else "day"
    parts = [f"step {scene.step}/{setting.max_steps}", night, state, setting.mission]
    if look.newest > scene.step:
        parts.insert(1, f"({scene.step - look.newest})")
    if look.steering:
        parts.insert(0, f"STEERING cog {look.follow}")
    text = clean(" · ".join(parts))[:columns]
    return paint(text.ljust(columns), INK, 236, bold=True, colour=look.colour)
