"""What `rewardlab arena admin` does: directly on the database, for who can reach it."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.arena.errors import ArenaError, missing
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.cli.arena_run import place_of as place_at
from rewardlab.cli.tables import emit, table

STATES = {"open": "open", "closed": "closed", "finished": "finished"}
SIGHT = {"hidden": True, "shown": False}


def place_of(root: Path, database: str | None) -> Place:
    """An arena that is there."""
    place = place_at(root, database)
    if not place.exists():
        raise ArenaError(f"There is no arena in {root}: rewardlab arena serve makes one.")
    place.database.migrate()
    return place


def add_user(place: Place, name: str, role: str, password: bool) -> None:
    """A new user with a first token."""
    user = place.accounts.add_user(name, role, _ask() if password else None)
    print(place.accounts.make_token(user, "first", "admin" if role == "admin" else "play"))
    print(f"{name} logs in with this token: rewardlab cogs login --token TOKEN", file=sys.stderr)


def users(place: Place, as_text: bool) -> None:
    """All users."""
    rows: list[dict[str, Any]] = [
        {"name": u.name, "role": u.role, "disabled": u.disabled, "created": u.created} for u in place.accounts.users()
    ]
    if not emit(rows, "json" if as_text else None):
        shown = [(r["name"], r["role"], "shut out" if r["disabled"] else "", _when(r["created"])) for r in rows]
        table("Users", ("user", "role", "", "since"), shown)


def disable_user(place: Place, name: str, undo: bool) -> None:
    """Shut out, or let in again."""
    place.accounts.set_disabled(name, not undo)
    print(f"{name} is {'let in again' if undo else 'shut out'}.")


def set_password(place: Place, name: str) -> None:
    """A new password."""
    place.accounts.user(name)
    place.accounts.set_password(name, _ask())
    print(f"{name} has a new password; earlier tokens have ended.")


def _ask() -> str:
    """A password from the terminal, twice; from a pipe, a line."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != first:
        raise ArenaError("The two passwords differ.")
    return first


def add_token(place: Place, name: str, scope: str, label: str, days: float) -> None:
    """A token, shown once."""
    print(place.accounts.make_token(place.accounts.user(name), label, scope, days, actor="admin"))


def tokens(place: Place, name: str, as_text: bool) -> None:
    """A user's tokens."""
    found = place.accounts.tokens(place.accounts.user(name))
    keys = ("id", "label", "scope", "created", "expires", "revoked", "used")
    rows = [{key: getattr(token, key) for key in keys} for token in found]
    if not emit(rows, "json" if as_text else None):
        shown = [
            (t.id, t.label, t.scope, _when(t.created), _when(t.expires), _when(t.revoked), _when(t.used)) for t in found
        ]
        table(f"Tokens of {name}", ("id", "for", "scope", "made", "ends", "revoked", "used"), shown)


def revoke_token(place: Place, token: str) -> None:
    """End a token."""
    place.accounts.revoke(token)
    print("The token has ended.")


def add_season(place: Place, file: Path) -> None:
    """A season from its file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArenaError(f"{file} cannot be read: {error}.") from error
    from rewardlab.arena.match.play import check_season

    season = read_season(text, str(file))
    check_season(season)
    place.seasons.add(season)
    print(f"The season {season.name} is open.")


def set_season(place: Place, name: str, state: str) -> None:
    """Its state or its being seen."""
    if state not in STATES | SIGHT:
        raise missing("state of a season", state, STATES | SIGHT)
    place.seasons.set_state(name, STATES.get(state), SIGHT.get(state))
    print(f"The season {name} is {state}.")


def hide_policy(place: Place, version: str, undo: bool) -> None:
    """Away from the pages, or back."""
    place.policies.hide(version, not undo, "admin")
    print(f"{version} is {'shown' if undo else 'hidden'}.")


def failed(place: Place, as_text: bool) -> None:
    """What was set aside."""
    rows = [{"kind": j.kind, "id": j.subject, "attempts": j.attempts, "log": j.log} for j in place.jobs.failed()]
    if emit(rows, "json" if as_text else None):
        return
    for row in rows:
        print(f"{row['kind']} {row['id']}, {row['attempts']} attempts\n{row['log']}\n")
    if not rows:
        print("Nothing was set aside.")


def retry(place: Place, subject: str) -> None:
    """Again."""
    if not place.jobs.retry(subject):
        raise missing("job that was set aside", subject, [job.subject for job in place.jobs.failed()])
    print(f"{subject} waits for a worker again.")


def audit(place: Place, most: int, as_text: bool) -> None:
    """The record."""
    keys = ("id", "at", "actor", "action", "subject", "detail")
    rows = [{key: getattr(entry, key) for key in keys} for entry in place.accounts.audit(most)]
    if not emit(rows, "json" if as_text else None):
        shown = [(_when(r["at"]), r["actor"], r["action"], r["subject"], r["detail"]) for r in rows]
        table("Audit", ("when", "who", "what", "to what", ""), shown)


def _when(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
