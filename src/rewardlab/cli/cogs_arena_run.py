"""What the arena's commands under `rewardlab cogs` do; imported when called."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.arena import models
from rewardlab.arena.client import Client, as_json
from rewardlab.arena.errors import ArenaError, missing
from rewardlab.cli.tables import emit, number, table

LOCAL = "http://127.0.0.1:8000"
PATIENCE = 300.0  # seconds that an upload waits for its validation


@dataclass(frozen=True)
class Wanted:
    """What is to be uploaded."""

    policy: str
    name: str
    arguments: Sequence[str] = ()
    extra: Sequence[Path] = ()
    setup_script: Path | None = None


class Memory:
    """The arenas that this person is logged in to; a file for their eyes only."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_CONFIG_HOME")
        self.path = (Path(home) if home else Path("~/.config").expanduser()) / "rewardlab" / "arena.json"
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            held = {}
        except (OSError, ValueError) as error:
            raise ArenaError(f"{self.path} cannot be read ({error}): remove it and log in again.") from error
        self.server: str | None = held.get("server")
        self.tokens: dict[str, str] = held.get("tokens", {})

    def keep(self, server: str, token: str) -> None:
        """Remember a login."""
        self.tokens[server] = token
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"server": server, "tokens": self.tokens}, file, indent=2)
        part.replace(self.path)


@contextmanager
def connected(server: str | None, needs_login: bool = False) -> Iterator[Client]:
    """The arena that is meant, with the token that was kept or is in the environment."""
    memory = Memory()
    address = (server or os.environ.get("REWARDLAB_ARENA_SERVER") or memory.server or LOCAL).rstrip("/")
    token = os.environ.get("REWARDLAB_ARENA_TOKEN") or memory.tokens.get(address)
    if needs_login and token is None:
        raise ArenaError(f"You are not logged in to {address}: run rewardlab cogs login --server {address}", 401)
    with closing(Client(address, token)) as client:
        yield client


def login(server: str | None, token: str | None, force: bool, timeout: float) -> None:
    """Get or take a token, see that it works, keep it."""
    memory = Memory()
    address = (server or os.environ.get("REWARDLAB_ARENA_SERVER") or memory.server or LOCAL).rstrip("/")
    if token is None and not force and address in memory.tokens:
        try:
            me = _me(address, memory.tokens[address])
        except ArenaError as error:
            if error.status != 401:
                raise
        else:
            memory.keep(address, memory.tokens[address])
            print(f"Logged in to {address} as {me.user} already (--force logs in anew).")
            return
    if token is None:
        with closing(Client(address)) as client:
            token = client.login(_show, timeout).token
    elif token == "-":
        token = sys.stdin.readline().strip()
    me = _me(address, token)
    memory.keep(address, token)
    print(f"Logged in to {address} as {me.user}.")


def _me(address: str, token: str) -> models.Me:
    with closing(Client(address, token)) as client:
        return client.me()


def _show(started: models.DeviceStarted) -> None:
    print(f"Open {started.verification_url} and confirm the code {started.user_code}.", file=sys.stderr, flush=True)


def validate_policy(policy: str, setup_script: Path | None, season: str | None, server: str | None) -> None:
    """Pack a policy and try it as an arena would."""
    if season is not None:
        with connected(server) as client:
            if client.season(season).status != "open":
                raise ArenaError(f"The season {season} is closed to entries.", 409)
    with packed(Wanted(policy, "candidate", setup_script=setup_script)) as bundle:
        kind = tried(bundle)
    print(f"The policy loads and acts: an arena would accept it ({_kind(kind)}).")


@contextmanager
def packed(wanted: Wanted) -> Iterator[Path]:
    """The bundle that would be uploaded."""
    from rewardlab.arena.match.pack import arguments_of, pack

    with tempfile.TemporaryDirectory(prefix="rewardlab-upload-") as folder:
        target = Path(folder) / "bundle.zip"
        yield pack(wanted.policy, target, arguments_of(wanted.arguments), wanted.extra, wanted.setup_script)


def tried(bundle: Path) -> str:
    """Its kind, if it loads and acts here; else an error that says why not."""
    from rewardlab.arena import sandbox
    from rewardlab.arena.match.bundles import CODE
    from rewardlab.arena.match.play import Table, try_policy
    from rewardlab.cli.cogs_run import prepare

    prepare()
    with tempfile.TemporaryDirectory(prefix="rewardlab-try-") as folder:
        Path(folder).chmod(0o711)
        held = not sandbox.problems()
        table = Table(lambda _: bundle, Path(folder) / "bundles", takes_code=True, own_code=not held)
        kind, reason = try_policy("candidate", table)
    if reason:
        raise ArenaError(f"The policy would be refused: {reason}")
    if kind == CODE and not held:
        print(f"Tried without a sandbox: {'; '.join(sandbox.problems())}.", file=sys.stderr)
    return kind or ""


def upload(
    wanted: Wanted, season: str | None, dry_run: bool, skip_validation: bool, server: str | None, as_text: bool
) -> None:
    """Try it here, send it, wait until the arena has tried it."""
    with packed(wanted) as bundle:
        kind = "" if skip_validation and not dry_run else tried(bundle)
        size = bundle.stat().st_size
        if dry_run:
            content = {"policy": wanted.name, "size": size, "kind": kind, "uploaded": False}
            if not emit(content, "json" if as_text else None):
                print(f"Dry run: {wanted.name} loads and acts ({_kind(kind)}, {size:,} bytes); nothing was uploaded.")
            return
        with connected(server, needs_login=True) as client:
            done = client.upload(bundle, wanted.name, season)
            print(f"Uploaded {done.name}:v{done.version} ({size:,} bytes); the arena tries it …", file=sys.stderr)
            version = _settled(lambda: client.version(done.id))
    if version.status == "refused":
        raise ArenaError(f"The arena refused {version.name}:v{version.version}: {version.reason}")
    if emit(as_json(version), "json" if as_text else None):
        return
    entered = f" and entered into {season}" if season and version.status == "accepted" else ""
    print(f"{version.name}:v{version.version} is {version.status}{entered}.")
    if not season:
        print(f"Enter it into a season: rewardlab cogs submit {version.name}:v{version.version} --season NAME")


def _settled(look: Callable[[], models.PolicyVersion]) -> models.PolicyVersion:
    """A version once it is out of quarantine, or as it is when patience ends."""
    deadline, pause = time.monotonic() + PATIENCE, 0.2
    while True:
        version = look()
        if version.status != "quarantine" or time.monotonic() > deadline:
            return version
        time.sleep(pause)
        pause = min(2.0, pause * 1.5)


def submit(reference: str, season: str | None, server: str | None, as_text: bool) -> None:
    """Enter one of the person's versions."""
    with connected(server, needs_login=True) as client:
        version = _mine(client, reference)
        wanted = _season(client, season)
        done = client.submit(version.id, wanted)
    content = {"policy": version.name, "version": version.version, "season": wanted, "pools": done.pools}
    if not emit(content, "json" if as_text else None):
        print(f"{version.name}:v{version.version} is in {wanted}, pool {', '.join(done.pools)}.")


def _mine(client: Client, reference: str) -> models.PolicyVersion:
    name, colon, version = reference.partition(":v")
    if colon and not version.isdigit():
        raise ArenaError(f"{reference!r} is not of the form NAME or NAME:vN.")
    found = client.mine(name, int(version) if colon else None)
    if not found:
        own = {f"{v.name}:v{v.version}" if colon else v.name for v in client.mine()}
        raise missing("policy of yours", reference, own)
    accepted = [v for v in found if v.status == "accepted"]
    return (accepted or found)[0]


def _season(client: Client, name: str | None) -> str:
    """The season that is meant: the arena's default one, where none is named."""
    if name is not None:
        return name
    found = client.seasons()
    if not found:
        raise ArenaError(f"The arena at {client.server} has no season.", 404)
    return next((season.name for season in found if season.is_default), found[0].name)


def submissions(policy: str | None, season: str | None, server: str | None, as_text: bool) -> None:
    """The person's versions with their pools."""
    with connected(server, needs_login=True) as client:
        versions, members = client.mine(policy), client.memberships()
    rows: list[dict[str, Any]] = []
    for version in versions:
        pools = [m for m in members if m.version_id == version.id and season in (None, m.season)]
        if pools or season is None:
            rows.append({**as_json(version), "pools": as_json(pools)})
    if emit(rows, "json" if as_text else None):
        return
    lines = []
    for row in rows:
        playing = [f"{p['season']}/{p['pool_name']}: {p['status']}, {p['completed']} played" for p in row["pools"]]
        told = "; ".join(playing) or row["reason"] or "–"
        lines.append((f"{row['name']}:v{row['version']}", row["status"], _when(row["created_at"]), told))
    table("Your policies", ("policy", "status", "uploaded", "where it plays"), lines)


def seasons(name: str | None, versions: bool, server: str | None, as_text: bool) -> None:
    """All seasons, or one."""
    if versions and name is None:
        raise ArenaError("--versions needs the name of a season.")
    with connected(server) as client:
        if name is not None and versions:
            emit(as_json(client.versions(name)), "json" if as_text else "yaml")
            return
        if name is not None:
            emit(as_json(client.season(name)), "json" if as_text else "yaml")
            return
        found = client.seasons()
    if not emit(as_json(found), "json" if as_text else None):
        rows = [(s.name + (" (default)" if s.is_default else ""), s.status, s.closes or "–", s.summary) for s in found]
        table("Seasons", ("season", "status", "closes", "summary"), rows)


def leaderboard(season: str | None, server: str | None, as_text: bool) -> None:
    """Rank, policy, score, matches."""
    with connected(server) as client:
        wanted = _season(client, season)
        lines = client.leaderboard(wanted)
    if emit(as_json(lines), "json" if as_text else None):
        return
    if not lines:
        print(f"{wanted}: nobody is on the leaderboard yet. What is played: rewardlab cogs matches --season {wanted}")
        return
    rows = []
    for line in lines:
        score = f"{line.score:.2f}" + (f" ± {line.score_error:.2f}" if line.score_error is not None else "")
        rating = f"{line.rating:.1f} ± {1.96 * line.rating_uncertainty:.1f}"
        name = f"{line.policy.name}:v{line.policy.version}"
        rows.append((line.rank, name, line.user, score, line.matches, rating, number(line.value_over_replacement)))
    heads = ("Rank", "Policy", "User", "Score", "Matches", "Rating", "VOR")
    table(f"{wanted}: leaderboard", heads, rows)


def matches(
    match: str | None, season: str | None, policy: str | None, limit: int, server: str | None, as_text: bool
) -> None:
    """The latest matches, or one."""
    with connected(server) as client:
        if match is not None:
            emit(as_json(client.match(match)), "json" if as_text else "yaml")
            return
        wanted = _season(client, season)
        version = _mine(client, policy).id if policy else None
        found = client.matches(wanted, version, limit)
    if emit(as_json(found), "json" if as_text else None):
        return
    rows = []
    for one in found:
        sides = [f"{p.policy.name}:v{p.policy.version} ×{p.cogs} {number(p.score)}" for p in one.players]
        rows.append((one.id, one.pool, one.status, " – ".join(sides), _when(one.finished)))
    table(f"{wanted}: matches", ("match", "pool", "status", "policies", "finished"), rows)


def _when(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _kind(kind: str) -> str:
    return {"weights": "no code of its own", "code": "its code runs in a sandbox"}.get(kind, kind)
