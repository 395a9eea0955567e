"""`rewardlab run`, `spec`, `verify`: training, replaying and checking from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Fill ${KEY}, or override any dotted key of the spec."),
]
Data = Annotated[Path, typer.Option("--data", help="Where run folders are made.")]


def is_told(error: Exception) -> bool:
    """Whether an error is one of ours, which says what happened in a sentence."""
    return type(error).__module__.startswith("rewardlab.")


def say(text: str) -> None:
    """Status, for people: on stderr."""
    print(text, file=sys.stderr, flush=True)


def run(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[SPEC_FILE] SPEC_NAME [MODE]",
            help="MODE: train (default), dev, search, enjoy@DIR; train@ and search@ with latest or DIR, train@hub.",
        ),
    ],
    settings: Settings = None,
    data: Data = Path("data"),
    render: Annotated[bool, typer.Option("--render", help="Show or film what the agent does (enjoy, dev).")] = False,
    episodes: Annotated[int, typer.Option("--episodes", help="How many episodes to enjoy.")] = 4,
    engine: Annotated[
        str | None, typer.Option("--engine", help="What runs a search: population (JAX environments) or ray.")
    ] = None,
    address: Annotated[str | None, typer.Option("--address", help="A Ray cluster for a search.")] = None,
    push: Annotated[bool, typer.Option("--push", help="Send the run to the hub as it goes.")] = False,
    hub: Annotated[str | None, typer.Option("--hub", help="The hub for --push and train@hub.")] = None,
    log: Annotated[list[str] | None, typer.Option("--log", help="Also log to wandb or tensorboard.")] = None,
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", help="Train in several processes: HOST:PORT of process 0, or auto (Slurm, MPI)."),
    ] = None,
    processes: Annotated[int | None, typer.Option("--processes", help="How many they are.")] = None,
    process: Annotated[int | None, typer.Option("--process", help="Which one this is, from 0.")] = None,
) -> None:
    """Train, resume or replay a spec: `rewardlab run ppo_cartpole`."""
    from rewardlab.cli import run as command
    from rewardlab.cli.hosts import Place, joined

    with joined(Place.of(coordinator, processes, process), what) as leading:
        if leading:
            command.run(what, settings or [], data, render, episodes, engine, address, push, hub, log or [])


def verify(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    tolerance: Annotated[
        float, typer.Option(help="How far numbers may lie apart, relatively, on another machine.")
    ] = 1e-3,
) -> None:
    """Run a recorded trial again and compare every table and weight."""
    from rewardlab.cli import run as command

    command.verify(folder, tolerance)


spec_app = typer.Typer(help="Look at specs: show, check, import, list.", no_args_is_help=True)


@spec_app.command("show")
def spec_show(
    what: Annotated[list[str], typer.Argument(metavar="[SPEC_FILE] SPEC_NAME")], settings: Settings = None
) -> None:
    """Print a spec as it would run, defaults and overrides included."""
    from rewardlab.spec import load, to_yaml

    spec = load(what[0], what[1] if len(what) > 1 else None, settings=settings or [])
    for note in spec.notes:
        say(f"note: {note}")
    print(to_yaml(spec), end="")


@spec_app.command("check")
def spec_check(
    what: Annotated[list[str], typer.Argument(metavar="[SPEC_FILE] SPEC_NAME")], settings: Settings = None
) -> None:
    """Say whether a spec would run, and if not, why."""
    from rewardlab.experiment.trial import check
    from rewardlab.spec import load

    spec = load(what[0], what[1] if len(what) > 1 else None, settings=settings or [])
    for note in spec.notes:
        say(f"note: {note}")
    check(spec)
    print(f"{spec.name}: fine")


@spec_app.command("import")
def spec_import(
    file: Annotated[Path, typer.Argument(help="An SLM-Lab v5 spec file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; stdout if left out.")] = None,
) -> None:
    """Turn an SLM-Lab spec file into ours, naming every key that is dropped."""
    from rewardlab.slm import convert_file

    text, notes = convert_file(file)
    for note in notes:
        say(f"note: {note}")
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        say(f"written: {output}")


@spec_app.command("list")
def spec_list(json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False) -> None:
    """All packaged specs."""
    from json import dumps

    from rewardlab.spec import names

    found = [(path.name, name) for path, name in names()]
    print(dumps([{"file": f, "name": n} for f, n in found]) if json else "\n".join(f"{n:24} {f}" for f, n in found))


def mount(app: typer.Typer) -> None:
    """The lab's commands at the front door."""
    app.command("run")(run)
    app.command("verify")(verify)
    app.add_typer(spec_app, name="spec")
