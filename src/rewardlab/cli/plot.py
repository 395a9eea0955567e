"""`rewardlab plot`, `rewardlab plot-list`: runs compared in one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rewardlab.cli.lab import say

Data = Annotated[Path, typer.Option("--data", help="Where run folders are.")]


def plot(
    title: Annotated[str, typer.Option("--title", "-t", help="What stands above the graph; it names the files too.")],
    folders: Annotated[str, typer.Option("--folders", "-f", help="Run folders, with commas between them.")],
    data: Data = Path("data"),
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the graphs.")] = Path("data/plots"),
    robust: Annotated[
        bool, typer.Option("--robust", help="Also IQM with intervals and performance profiles over environments.")
    ] = False,
) -> None:
    """Compare runs: mean and spread over sessions, a fixed colour per algorithm; as PNG and HTML."""
    from rewardlab.plots import compare
    from rewardlab.plots import robust as aggregates

    paths = [find(name.strip(), data) for name in folders.split(",") if name.strip()]
    target = output / title.replace("/", "_").replace(" ", "_")
    drawn = compare.draw(title, paths, target)
    if robust:
        drawn += aggregates.draw(title, paths, target)
    for path in drawn:
        print(path)


def find(name: str, data: Path) -> Path:
    """A run folder by its path, or by its name below the data folder."""
    from rewardlab.files import RecordError
    from rewardlab.spec import near

    for path in (Path(name), data / name):
        if path.is_dir():
            return path
    known = [p.name for p in data.glob("*") if p.is_dir()]
    nearest = near(name, known)
    raise RecordError(f"There is no run {name} in {data}{f'; did you mean {nearest}?' if nearest else '.'}")


def plot_list(
    data: Data = Path("data"), json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False
) -> None:
    """The runs that can be compared, by environment."""
    from json import dumps

    from rewardlab.files import RecordError
    from rewardlab.plots.compare import in_order, read_entry

    entries = []
    for path in sorted(p for p in data.glob("*") if p.is_dir() and not p.name.startswith(".")):
        try:
            entries.append(read_entry(path))
        except RecordError:
            continue  # plots, unfinished runs, other people's folders
    rows: list[dict[str, Any]] = [
        {"env": e.env, "algorithm": e.algorithm, "score": e.score, "max_frame": e.max_frame, "folder": e.folder}
        for e in sorted(in_order(entries), key=lambda e: e.env)
    ]
    if json:
        print(dumps(rows, indent=2))
        return
    if not rows:
        say(f"no finished runs in {data}")
        return
    from rewardlab.cli.tables import table

    table(f"Runs in {data}", ["env", "algorithm", "score", "max_frame", "folder"], [list(r.values()) for r in rows])


def mount(app: typer.Typer) -> None:
    """At the front door."""
    app.command("plot")(plot)
    app.command("plot-list")(plot_list)
