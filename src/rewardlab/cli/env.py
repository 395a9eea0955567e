"""`rewardlab env`: which environments there are, whether one is sound, how fast it steps."""

from __future__ import annotations

from typing import Annotated

import typer

from rewardlab.cli.lab import say

env_app = typer.Typer(help="Look at environments: list, check, bench.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ID", help="As in a spec's env.name: an id, module:Env-v0, module:Class.")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="A key of the spec's env, such as max_t=500."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]


@env_app.command("list")
def env_list(
    pattern: Annotated[str | None, typer.Argument(help="Only names that hold this.")] = None, json: Json = False
) -> None:
    """Every environment known by name here, and what would step it."""
    from rewardlab.cli.tables import emit
    from rewardlab.envs.look import listed

    found = [entry for entry in listed() if pattern is None or pattern.lower() in entry.name.lower()]
    if emit([entry._asdict() for entry in found], "json" if json else None):
        return
    for entry in found:
        print(f"{entry.name:52} {entry.backend}")
    say(f"{len(found)} environments; any other Gymnasium id by module:Env-v0, your own in JAX by module:Class")


@env_app.command("check")
def env_check(name: Name, settings: Keys = None) -> None:
    """Say what an environment is like, and whether it can be trained on."""
    from rewardlab.cli import env_run

    env_run.check(name, settings or [])


@env_app.command("bench")
def env_bench(
    name: Name,
    settings: Keys = None,
    envs: Annotated[int, typer.Option("--envs", min=1, help="How many copies step together.")] = 64,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long it is measured.")] = 3.0,
    json: Json = False,
) -> None:
    """Steps per second under random actions, for everything that can step it here."""
    from rewardlab.cli import env_run

    env_run.bench(name, settings or [], envs, seconds, json)


def mount(app: typer.Typer) -> None:
    """The environments at the front door."""
    app.add_typer(env_app, name="env")
