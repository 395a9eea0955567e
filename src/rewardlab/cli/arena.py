"""`rewardlab arena`: run a tournament: serve it, work for it, administer it. And `rewardlab board`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Run a tournament: serve it, work for it, administer it.", no_args_is_help=True)
admin = typer.Typer(help="Users, tokens, seasons, matches: directly on the database.", no_args_is_help=True)
app.add_typer(admin, name="admin")

Root = Annotated[Path, typer.Option("--root", help="The arena's folder: its database and files.")]
Database = Annotated[str | None, typer.Option("--database", help="postgresql://… instead of SQLite in the folder.")]
Files = Annotated[
    str | None, typer.Option("--files", help="Where bundles and replays lie: a folder or s3://BUCKET/PREFIX.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]
ROOT = Path("data/arena")


@app.command("serve")
def serve(
    root: Root = ROOT,
    database: Database = None,
    files: Files = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port.", min=0, max=65535)] = 8000,
    workers: Annotated[
        int, typer.Option("--workers", "-w", help="Workers beside the server; 0 leaves it to others.", min=0)
    ] = 1,
    data: Annotated[Path, typer.Option("--data", help="Run folders that the boards show.")] = Path("data"),
    reads: Annotated[
        float, typer.Option("--reads", help="Requests per second that one caller may read.", min=0.001)
    ] = 50.0,
    writes: Annotated[
        float, typer.Option("--writes", help="Requests per second that one caller may write.", min=0.001)
    ] = 5.0,
) -> None:
    """Serve an arena: its API, its pages, and a worker that plays. The first start makes everything."""
    from rewardlab.cli import arena_run as command

    command.serve(command.place_of(root, database, files), host, port, workers, data, reads, writes)


@app.command("worker")
def worker(
    root: Root = ROOT,
    database: Database = None,
    files: Files = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is left to do.")] = False,
    lease: Annotated[
        float, typer.Option("--lease", help="Seconds after which a silent worker's job goes to another.", min=0.5)
    ] = 30.0,
    ray: Annotated[str | None, typer.Option("--ray", help="Work on a Ray cluster: its address, or local.")] = None,
    count: Annotated[int, typer.Option("--count", help="Workers on the Ray cluster.", min=1)] = 1,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Play matches and try policies for an arena, on this machine or on a Ray cluster."""
    from rewardlab.cli.stopping import end_at_once

    end_at_once()  # nothing is at stake until a job is taken
    from rewardlab.cli import arena_run as command

    place = command.place_of(root, database, files)
    if ray is not None:
        command.work_on_ray(place, ray, count, lease, until_idle)
    else:
        command.work(place, lease, until_idle, with_parent)


@admin.command("add-user")
def add_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    role: Annotated[str, typer.Option("--role", help="user or admin.")] = "user",
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password to log in with in the browser.")
    ] = False,
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Add a user and print a token for them."""
    from rewardlab.cli import arena_admin as command

    command.add_user(command.place_of(root, database), name, role, password)


@admin.command("users")
def users(root: Root = ROOT, database: Database = None, json: Json = False) -> None:
    """List the users."""
    from rewardlab.cli import arena_admin as command

    command.users(command.place_of(root, database), json)


@admin.command("disable-user")
def disable_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Shut a user out; what they uploaded stays."""
    from rewardlab.cli import arena_admin as command

    command.disable_user(command.place_of(root, database), name, undo)


@admin.command("set-password")
def set_password(
    name: Annotated[str, typer.Argument(help="The user's name.")], root: Root = ROOT, database: Database = None
) -> None:
    """Give a user a new password; their tokens end."""
    from rewardlab.cli import arena_admin as command

    command.set_password(command.place_of(root, database), name)


@admin.command("add-token")
def add_token(
    user: Annotated[str, typer.Argument(help="The user's name.")],
    scope: Annotated[str, typer.Option("--scope", help="read, play or admin.")] = "play",
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    days: Annotated[float, typer.Option("--days", help="Days until it ends.", min=0.001)] = 365.0,
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Make a token for a user and print it, once."""
    from rewardlab.cli import arena_admin as command

    command.add_token(command.place_of(root, database), user, scope, label, days)


@admin.command("tokens")
def tokens(
    user: Annotated[str, typer.Argument(help="The user's name.")],
    root: Root = ROOT,
    database: Database = None,
    json: Json = False,
) -> None:
    """List a user's tokens."""
    from rewardlab.cli import arena_admin as command

    command.tokens(command.place_of(root, database), user, json)


@admin.command("revoke-token")
def revoke_token(
    token: Annotated[str, typer.Argument(help="The token's id, as `tokens` lists it.")],
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """End a token."""
    from rewardlab.cli import arena_admin as command

    command.revoke_token(command.place_of(root, database), token)


@admin.command("add-season")
def add_season(
    file: Annotated[Path, typer.Argument(help="A YAML file: docs/arena.md has its keys.")],
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Make a season from its file."""
    from rewardlab.cli import arena_admin as command

    command.add_season(command.place_of(root, database), file)


@admin.command("set-season")
def set_season(
    name: Annotated[str, typer.Argument(help="The season.")],
    state: Annotated[str, typer.Argument(help="open, closed (to entries), finished, hidden or shown")],
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Open, close, finish, hide or show a season."""
    from rewardlab.cli import arena_admin as command

    command.set_season(command.place_of(root, database), name, state)


@admin.command("hide-policy")
def hide_policy(
    version: Annotated[str, typer.Argument(help="The id of a policy version.")],
    undo: Annotated[bool, typer.Option("--undo", help="Show it again.")] = False,
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Take a policy version from the pages; what it played stays."""
    from rewardlab.cli import arena_admin as command

    command.hide_policy(command.place_of(root, database), version, undo)


@admin.command("failed")
def failed(root: Root = ROOT, database: Database = None, json: Json = False) -> None:
    """List the jobs that were set aside, with their logs."""
    from rewardlab.cli import arena_admin as command

    command.failed(command.place_of(root, database), json)


@admin.command("retry")
def retry(
    match: Annotated[str, typer.Argument(help="The match or policy version, by id.")],
    root: Root = ROOT,
    database: Database = None,
) -> None:
    """Give a job that was set aside three more attempts."""
    from rewardlab.cli import arena_admin as command

    command.retry(command.place_of(root, database), match)


@admin.command("audit")
def audit(
    most: Annotated[int, typer.Option("--most", help="How many entries.", min=1)] = 50,
    root: Root = ROOT,
    database: Database = None,
    json: Json = False,
) -> None:
    """Who did what, the latest first."""
    from rewardlab.cli import arena_admin as command

    command.audit(command.place_of(root, database), most, json)


def board(
    port: Annotated[int, typer.Option("--port", help="The port.", min=0, max=65535)] = 8000,
    data: Annotated[Path, typer.Option("--data", help="Run folders, and the arena in their midst.")] = Path("data"),
) -> None:
    """Serve all boards on this machine: benchmarks, speedruns, seasons, runs. Nothing else has to run."""
    from rewardlab.cli import arena_run as command

    command.board(data, port)


def mount(front: typer.Typer) -> None:
    """The room at the front door."""
    front.add_typer(app, name="arena")
    front.command("board")(board)
