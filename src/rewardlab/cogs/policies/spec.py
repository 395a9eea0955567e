"""How a policy is written on a command line, and who plays how many cogs.

NAME · class=NAME_OR_PATH,data=FILE,proportion=F,kw.x=v · URI,proportion=F
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import PolicySpec
from rewardlab.cogs.policies.bundle import Bundle, is_bundle, read_bundle

SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
OPTION = re.compile(r"(class|data|proportion|kw\.[A-Za-z_]\w*)=(.*)", re.DOTALL)
VERSION = re.compile(r"(.+):(latest|v(\d+))")
WORD = re.compile(r"[A-Za-z_][\w.-]*")
METTA_POLICY = "policy/"
REMOTE = ("s3", "http", "https", "hf")


@dataclass(frozen=True)
class PolicyRequest:
    """One `-p`: how to make the policy, and its share of the cogs."""

    text: str
    spec: PolicySpec
    proportion: float = 1.0
    bundle: Bundle | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A short name for tables."""
        return Path(self.bundle.name).name if self.bundle else self.spec.name


def parse_policy(text: str) -> PolicyRequest:
    """Read one policy as written on a command line."""
    base, options = _split(text.strip())
    proportion = _proportion(options.pop("proportion", "1"), text)
    arguments = {key.removeprefix("kw."): value_of(options.pop(key)) for key in list(options) if key.startswith("kw.")}
    named = options.pop("class", "")
    data = options.pop("data", None)
    if bool(base) == bool(named):
        raise CogsError(f"Policy {text!r} names {'two policies' if base else 'no policy'}: write NAME or class=NAME.")
    request = _named(named, text) if named else _resolve(base, text)
    if data is not None:
        if request.bundle:
            raise CogsError(f"Policy {text!r} gives data= to a bundle, which brings its own.")
        if not Path(data).exists():
            raise CogsError(f"Policy {text!r} needs the file {data}, which does not exist.")
    spec = replace(
        request.spec,
        data_path=data if data is not None else request.spec.data_path,
        init_kwargs={**request.spec.init_kwargs, **arguments},
    )
    return replace(request, spec=spec, proportion=proportion)


def parse_policies(texts: Sequence[str]) -> list[PolicyRequest]:
    """Read all policies of a command line."""
    return [parse_policy(text) for text in texts]


def allocate(proportions: Sequence[float], agents: int) -> list[int]:
    """Cogs per policy, by largest remainder; of equal remainders the first gets the cog."""
    total = sum(proportions)
    if not proportions or total <= 0:
        raise CogsError("At least one policy needs a proportion above zero.")
    exact = [agents * proportion / total for proportion in proportions]
    counts = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (counts[i] - exact[i], i))
    for i in by_remainder[: agents - sum(counts)]:
        counts[i] += 1
    return counts


def value_of(text: str) -> Any:
    """A value as written in a query: digits are a whole number, true and false are truth values."""
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+", text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def _split(text: str) -> tuple[str, dict[str, str]]:
    """What is named and its options. Options are read from the end, so that commas of a query stay in it."""
    parts = text.split(",")
    options: dict[str, str] = {}
    while parts and (match := OPTION.fullmatch(parts[-1].strip())):
        if match[1] in options:
            raise CogsError(f"Policy {text!r} says {match[1]}= twice.")
        options[match[1]] = match[2].strip()
        parts.pop()
    base = ",".join(parts).strip()
    if base and not SCHEME.match(base) and "?" not in base and (wrong := re.search(r",\s*([\w.]+)=", base)):
        raise CogsError(
            f"Policy {text!r} has the option {wrong[1]!r}; there are class, data, proportion and kw.NAME (an argument)."
        )
    if base and "://" not in base and re.match(r"[\w.]+=", base):
        raise CogsError(
            f"Policy {text!r} has the option {base.split('=')[0]!r}; there are class, data, proportion and kw.NAME."
        )
    return base, options


def _proportion(text: str, policy: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not (math.isfinite(share) and share > 0):
        raise CogsError(f"Policy {policy!r} has the proportion {text!r}: a number above zero is needed.")
    return share


def _resolve(base: str, text: str) -> PolicyRequest:
    """A name, a path or a URI."""
    if match := SCHEME.fullmatch(base):
        return _from_uri(match[1].lower(), match[2], text)
    if _looks_like_a_path(base):
        return _from_path(Path(base).expanduser(), text)
    name, _, query = base.partition("?")
    if ":" in name:
        raise CogsError(
            f"Policy {text!r} uses ':' after a name; weights are given as class={name.split(':')[0]},data=FILE."
        )
    return _named(name, text, query)


def _looks_like_a_path(base: str) -> bool:
    starts = base.startswith((".", "/", "~")) or base.endswith(".zip")
    return starts or "/" in base or Path(base).is_dir()


def _named(name: str, text: str, query: str = "") -> PolicyRequest:
    if not WORD.fullmatch(name):
        raise CogsError(f"Policy {text!r} has no readable name.")
    return PolicyRequest(text, PolicySpec(name, init_kwargs=_arguments(query, text)))


def _arguments(query: str, text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise CogsError(f"Policy {text!r} has a query that is not of the form ?name=value&name=value.") from None
    return {key: value_of(value) for key, value in pairs}


def _from_uri(scheme: str, rest: str, text: str) -> PolicyRequest:
    if scheme == "file":
        return _from_path(Path(unquote(rest)), text)
    if scheme == "mock":
        return PolicyRequest(text, PolicySpec("noop"))
    if scheme == "metta":
        parts = urlsplit(f"metta://{rest}")
        if not rest.startswith(METTA_POLICY):
            raise CogsError(f"Policy {text!r}: metta:// addresses have the form metta://policy/NAME?argument=value.")
        return _named(unquote(parts.path.strip("/")), text, parts.query)
    if scheme in REMOTE:
        raise CogsError(f"Policy {text!r} is elsewhere: fetch it first (rewardlab pull) and give its folder or zip.")
    raise CogsError(f"Policy {text!r} has the scheme {scheme}://; there are file, metta and mock.")


def _from_path(path: Path, text: str) -> PolicyRequest:
    """A bundle, or the version of a run that is asked for; the latest if none is."""
    found = _bundle_at(path)
    if found is None:
        raise CogsError(f"Policy {text!r}: {_what_is_missing(path)}")
    bundle = read_bundle(found)
    return PolicyRequest(text, bundle.spec, bundle=bundle)


def _bundle_at(path: Path) -> Path | None:
    if is_bundle(path):
        return path
    match = VERSION.fullmatch(path.name)
    run, wanted = (path.with_name(match[1]), match[3]) if match else (path, None)
    versions = _versions(run)
    if wanted is not None:
        return versions.get(int(wanted))
    if versions:
        return versions[max(versions)]
    return run if match and is_bundle(run) else None


def _versions(run: Path) -> dict[int, Path]:
    """The bundles `RUN:vN` beside a run, in it and in its checkpoints folder."""
    found: dict[int, Path] = {}
    for folder in (run.parent, run, run / "checkpoints"):
        for place in sorted(folder.glob("*:v*")) if folder.is_dir() else ():
            match = VERSION.fullmatch(place.name.removesuffix(".zip"))
            if match and match[1] == run.name and match[3] and is_bundle(place):
                found[int(match[3])] = place
    return found


def _what_is_missing(path: Path) -> str:
    match = VERSION.fullmatch(path.name)
    run = path.with_name(match[1]) if match else path
    versions = _versions(run)
    if versions:
        there = ", ".join(f"v{number}" for number in sorted(versions))
        return f"{run} has no version {match[2] if match else 'latest'}; there are {there}."
    if not path.exists() and not run.exists():
        return f"there is no {run}."
    return f"{run} is no bundle: it holds no policy_spec.json and no versions of one."
