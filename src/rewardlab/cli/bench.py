"""`rewardlab bench`: the benchmark board and the rules that guard it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rewardlab.cli.hub import Hub
from rewardlab.cli.lab import say

RUNS = Path("benchmarks/runs")
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where the board keeps the small part of its runs.")]
Link = Annotated[
    str | None, typer.Option("--link", help="Where the whole run lies: a URL or folder; {folder} stands for its name.")
]
bench_app = typer.Typer(help="The benchmark board.", no_args_is_help=True)


def _link(link: str | None, folder: Path) -> str | None:
    return None if link is None else link.replace("{folder}", folder.name)


@bench_app.command("audit")
def bench_audit(
    folders: Annotated[list[Path] | None, typer.Argument(help="Run folders; without one, the board.")] = None,
    link: Link = None,
    runs: Runs = RUNS,
    plots: Annotated[Path, typer.Option("--plots", help="Where the board's plots are.")] = Path("docs/plots"),
    json: Json = False,
) -> None:
    """Check runs against the rules of the board; exit status 1 where one is broken."""
    from json import dumps

    from rewardlab.boards import benchmark, page
    from rewardlab.boards.audit import audit, audit_plot

    chosen = folders or sorted(p.parent for p in runs.glob("*/*_t0_spec.yaml"))
    found = {path.name: audit(path, _link(link, path)) for path in chosen}
    if not folders:
        results = benchmark.collect(runs)
        for env in dict.fromkeys(r.target.env for r in results):
            shown = {r.folder: r.max_frame for r in results if r.target.env == env}
            found[f"plot of {env}"] = list(audit_plot(plots / f"{page.plot_name(env)}.json", list(shown), shown))
    if json:
        rows = [{"name": name, "problems": [vars(p) for p in problems]} for name, problems in found.items()]
        print(dumps(rows, indent=2))
    else:
        for name, problems in found.items():
            print(f"{name}: {'passes' if not problems else 'refused'}")
            for problem in problems:
                print(f"  {problem}")
    if any(found.values()):
        raise typer.Exit(1)


@bench_app.command("add")
def bench_add(
    folders: Annotated[list[Path], typer.Argument(help="Finished run folders.")], link: Link = None, runs: Runs = RUNS
) -> None:
    """Put finished runs on the board: their small part is copied, without the weights. What the audit refuses is
    refused."""
    from rewardlab.boards import benchmark
    from rewardlab.boards.audit import audit

    refused = 0
    for folder in folders:
        problems = audit(folder, _link(link, folder))
        if problems:
            refused += 1
            say(f"refused: {folder}")
            for problem in problems:
                say(f"  {problem}")
        else:
            say(f"added: {benchmark.keep(folder, runs, _link(link, folder))}")
    if refused:
        raise typer.Exit(1)


@bench_app.command("table")
def bench_table(
    runs: Annotated[Path, typer.Argument(help="The folder that holds the board's runs.")] = RUNS,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the table is written.")] = Path(
        "docs/BENCHMARKS.md"
    ),
    json_output: Annotated[
        Path | None, typer.Option("--json-output", help="Where the JSON goes; beside the table if left out.")
    ] = None,
) -> None:
    """Write the benchmark table, its JSON and its plots; every number is computed from the tables of run folders."""
    from rewardlab.boards import work

    rows = work.publish(runs, output, json_output or output.with_name("benchmarks.json"))
    say(f"{rows} rows: {output}")


@bench_app.command("coverage")
def bench_coverage(
    runs: Annotated[Path, typer.Argument(help="The folder that holds the board's runs.")] = RUNS, json: Json = False
) -> None:
    """Which algorithms have runs in each category: ✓ all of the board's rows, n/m some of them."""
    from json import dumps

    from rewardlab.boards import benchmark, page

    table, names = page.coverage(benchmark.collect(runs)), page.categories()
    if json:
        print(dumps(table, indent=2, ensure_ascii=False))
        return
    from rewardlab.cli.tables import table as show

    show("Algorithm coverage", ["Algorithm", *names], [[a, *(r.get(n, "") for n in names)] for a, r in table.items()])


@bench_app.command("run")
def bench_run(
    only: Annotated[
        list[str] | None, typer.Argument(help="Parts of spec names or environments; all rows if left out.")
    ] = None,
    runner: Annotated[str, typer.Option("--runner", help="What runs them: local, ssh, ray, dstack.")] = "local",
    host: Annotated[str | None, typer.Option("--host", help="ssh: USER@HOST.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="ssh: the port.")] = None,
    identity: Annotated[str | None, typer.Option("--identity", help="ssh: the key file.")] = None,
    ssh_option: Annotated[list[str] | None, typer.Option("--ssh-option", help="ssh: a further option, often.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="ray: the dashboard's address.")] = None,
    program: Annotated[str | None, typer.Option("--program", help="How RewardLab is called there.")] = None,
    hub: Hub = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="As many at a time; 0: as the machine takes.")] = 0,
    data: Annotated[Path, typer.Option("--data", help="Where run folders are made.")] = Path("data"),
    runs: Runs = RUNS,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the table is written.")] = Path(
        "docs/BENCHMARKS.md"
    ),
    commit: Annotated[bool, typer.Option(help="Commit the board after each run, locally.")] = True,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be run.")] = False,
    json: Json = False,
) -> None:
    """The work loop: run what the board lacks, add what passes, publish, commit; on failure the next variant of the
    spec, then a search. Started again, it goes on."""
    from rewardlab.cli.bench_run import WorkLoop, show_plan

    if plan:
        show_plan(runs, only or [], json)
        return
    where = {"host": host, "port": port, "identity": identity, "ssh_options": ssh_option or [], "address": address}
    WorkLoop(only or [], runner, where, program, hub, jobs, data, runs, output, commit).run()


def mount(app: typer.Typer) -> None:
    """The board's commands at the front door."""
    app.add_typer(bench_app, name="bench")
