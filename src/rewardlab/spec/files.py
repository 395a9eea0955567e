"""Where specs are: a file, or the folder of specs that comes with the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rewardlab.spec.build import near
from rewardlab.spec.text import parse
from rewardlab.spec.types import SpecError

ENDINGS = (".yaml", ".yml", ".json")
TOP_LEVEL = re.compile(r"""^(["']?)([A-Za-z0-9][\w.\-]*)\1\s*:""", re.MULTILINE)


def folder() -> Path:
    """The specs inside the installed package, or the repository's beside its source."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "specs"
    return packaged if packaged.is_dir() else package.parent.parent / "specs"


def _files() -> list[Path]:
    return sorted(path for path in folder().rglob("*") if path.suffix in ENDINGS)


def _names_in(path: Path) -> Iterator[str]:
    """The specs of a file; YAML is scanned, not parsed, so that looking up a name stays fast."""
    text = read(path)
    if path.suffix == ".json":
        yield from (str(key) for key in parse(text, path)[0] if not str(key).startswith("_"))
    else:
        yield from (match[2] for match in TOP_LEVEL.finditer(text))


def names() -> list[tuple[Path, str]]:
    """Every spec that comes with the package, with its file."""
    return [(path, name) for path in _files() for name in _names_in(path)]


def find(name: str) -> Path:
    """The packaged file that holds a spec of this name."""
    known: dict[str, Path] = {}
    for path, spec_name in names():
        known.setdefault(spec_name, path)
    if name not in known:
        raise SpecError(f"there is no spec {name}; {_suggest(name, list(known))}")
    return known[name]


def _suggest(name: str, known: list[str]) -> str:
    nearest = near(name, known)
    if nearest:
        return f"did you mean {nearest}?"
    return f"there are {len(known)}, such as {', '.join(known[:5])}" if known else f"{folder()} holds none"


def locate(path_or_name: str | Path, spec_name: str | None = None) -> tuple[Path, str | None, list[str]]:
    """The file, the spec's name (None: the file's only one) and notes on how they were found."""
    from rewardlab import slm

    path = Path(path_or_name)
    if path.is_file():
        return path, spec_name, []
    given = str(path_or_name)
    if path.suffix not in ENDINGS:
        if path.is_dir():
            raise SpecError(f"{given} is a folder, expected a spec file or the name of a spec")
        if spec_name is not None and "/" not in given:
            raise SpecError(f"there is no file {given}; {_suggest_file(path)}")
        return _by_name(given)
    ours = slm.map_path(given)
    mapped = slm.map_name(spec_name) if spec_name else None
    if ours is not None:
        if not ours.is_file():
            raise SpecError(f"there is no file {given}, nor {_short(ours)}, which would stand for it")
        if mapped and mapped != spec_name:
            return ours, mapped, [f"{given} {spec_name} is SLM-Lab's; running our {mapped} from {_short(ours)}"]
        return ours, mapped, [f"{given} is SLM-Lab's; using our {_short(ours)}"]
    same = [file for file in _files() if file.name == path.name]
    if same:
        return same[0], spec_name, [f"there is no {given}; using our {_short(same[0])}"]
    raise SpecError(f"there is no file {given}; {_suggest_file(path)}")


def _by_name(name: str) -> tuple[Path, str, list[str]]:
    """A bare name: ours, or SLM-Lab's for one of ours."""
    from rewardlab import slm

    try:
        return find(name), name, []
    except SpecError:
        ours = slm.map_name(name)
        if ours == name or ours not in {known for _, known in names()}:
            raise
        return find(ours), ours, [f"{name} is SLM-Lab's; running our {ours}"]


def _suggest_file(path: Path) -> str:
    """The sentence for a file that is not there: its nearest neighbour, or ours."""
    beside = path.parent.iterdir() if path.parent.is_dir() else iter(())
    here = {str(file): file for file in beside if file.suffix in ENDINGS}
    ours = {file.stem: file for file in _files()}
    nearest = near(path.name, [file.name for file in here.values()])
    if nearest:
        return f"did you mean {path.parent / nearest}?"
    nearest = near(path.stem, ours)
    if nearest:
        return f"did you mean {_short(ours[nearest])}?"
    return "a bare spec name, such as ppo_cartpole, is looked up in the packaged specs"


def _short(path: Path) -> str:
    return str(Path("specs") / path.relative_to(folder()))


def read(path: Path) -> str:
    """The text of a file, or why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SpecError(f"{path} cannot be read: {reason}") from error
