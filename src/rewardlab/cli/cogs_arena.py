"""`rewardlab cogs login`, `upload`, `submit` …: a person's way to an arena; the words and flags are the original's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Server = Annotated[
    str | None, typer.Option("--server", help="The arena's address; the one of the last login if left out.")
]
LoginServer = Annotated[str | None, typer.Option("--login-server", help="Where to log in; --server if left out.")]
Season = Annotated[str | None, typer.Option("--season", help="A season; the arena's default one if left out.")]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]
Policy = Annotated[str, typer.Option("--policy", "-p", help="A name, class=…, a bundle, a run, metta://policy/…")]
SetupScript = Annotated[
    Path | None, typer.Option("--setup-script", help="A .py or .sh file that runs once before the policy is made.")
]


def login(
    server: Server = None,
    login_server: LoginServer = None,
    token: Annotated[str | None, typer.Option("--token", help="A token you have; - reads it from stdin.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Log in anew where you are logged in already.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", "-t", help="Seconds to wait for the browser.")] = 300.0,
) -> None:
    """Log in to an arena: by a code in the browser, or with a token."""
    from rewardlab.cli import cogs_arena_run as command

    command.login(login_server or server, token, force, timeout)


def validate_policy(
    policy: Policy,
    setup_script: SetupScript = None,
    device: Annotated[  # noqa: ARG001 (the original has it)
        str, typer.Option("--device", help="Accepted for the original's sake: an arena plays on cpu.")
    ] = "cpu",
    season: Season = None,
    server: Server = None,
) -> None:
    """See whether an arena would accept a policy: it loads, and acts for ten steps; a season that is named is open."""
    from rewardlab.cli import cogs_arena_run as command

    command.validate_policy(policy, setup_script, season, server)


def upload(
    policy: Policy,
    name: Annotated[str, typer.Option("--name", "-n", help="The policy's name; versions of it count up.")],
    init_kwarg: Annotated[
        list[str] | None, typer.Option("--init-kwarg", "-k", help="KEY=VALUE for its class; may be given often.")
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option("--include-files", "-f", help="A file or folder that it needs; may be given often."),
    ] = None,
    setup_script: SetupScript = None,
    season: Annotated[str | None, typer.Option("--season", help="Enter it there once it is accepted.")] = None,
    no_submit: Annotated[bool, typer.Option("--no-submit", help="Enter no season, whatever --season says.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate it here and upload nothing.")] = False,
    skip_validation: Annotated[
        bool, typer.Option("--skip-validation", help="Do not try it here first; the arena will.")
    ] = False,
    login_server: LoginServer = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Upload a policy; the arena tries it before it accepts it."""
    from rewardlab.cli import cogs_arena_run as command

    wanted = command.Wanted(policy, name, init_kwarg or [], include or [], setup_script)
    command.upload(wanted, None if no_submit else season, dry_run, skip_validation, server or login_server, json)


def submit(
    policy: Annotated[
        str, typer.Argument(metavar="NAME[:vN]", help="Your policy; its latest version if none is named.")
    ],
    season: Season = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Enter an uploaded policy into a season."""
    from rewardlab.cli import cogs_arena_run as command

    command.submit(policy, season, server, json)


def submissions(
    policy: Annotated[str | None, typer.Option("--policy", "-p", help="Only this one of your policies.")] = None,
    season: Annotated[str | None, typer.Option("--season", help="Only what is in this season.")] = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """List your uploads and where they play."""
    from rewardlab.cli import cogs_arena_run as command

    command.submissions(policy, season, server, json)


def seasons(
    name: Annotated[str | None, typer.Argument(help="Show one season.")] = None,
    versions: Annotated[bool, typer.Option("--versions", help="The versions of that season.")] = False,
    server: Server = None,
    json: Json = False,
) -> None:
    """List the seasons, or show one."""
    from rewardlab.cli import cogs_arena_run as command

    command.seasons(name, versions, server, json)


def leaderboard(season: Season = None, server: Server = None, json: Json = False) -> None:
    """Show a season's leaderboard."""
    from rewardlab.cli import cogs_arena_run as command

    command.leaderboard(season, server, json)


def matches(
    match: Annotated[str | None, typer.Argument(help="Show one match by its id.")] = None,
    season: Season = None,
    policy: Annotated[str | None, typer.Option("--policy", "-p", help="Only matches of your NAME[:vN].")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at the most.", min=1, max=500)] = 20,
    server: Server = None,
    json: Json = False,
) -> None:
    """List a season's matches, the latest first, or show one."""
    from rewardlab.cli import cogs_arena_run as command

    command.matches(match, season, policy, limit, server, json)


def mount(app: typer.Typer) -> None:
    """The commands in the room of the game."""
    app.command("login")(login)
    app.command("validate-policy")(validate_policy)
    for command in (upload, submit, submissions, seasons, leaderboard, matches):
        app.command()(command)
