"""`rewardlab speedrun`: the board of the fastest runs to a target reward."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The speedrun board.", no_args_is_help=True)

Board = Annotated[Path, typer.Option("--leaderboard", help="The board's page.")]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")]
DEFAULT_BOARD = Path("docs/SPEEDRUN.md")
DEFAULT_FILE = Path("logs/speedrun/speedrun_metrics.json")


@app.command("append")
def append(
    file: Annotated[Path, typer.Argument(metavar="[JSON]", help="A run's metrics file.")] = DEFAULT_FILE,
    recorder: Annotated[str, typer.Option("--recorder", help="Your handle or name.")] = "",
    notes: Annotated[str, typer.Option("--notes", help="Such as 1x A100.")] = "",
    include_wandb: Annotated[bool, typer.Option("--include-wandb", help="Link the W&B run.")] = False,
    leaderboard: Board = DEFAULT_BOARD,
) -> None:
    """Put a run on the board."""
    from rewardlab.boards import speedrun

    print(speedrun.append(file, leaderboard, recorder, notes, include_wandb))
    print(f"written: {leaderboard}", file=sys.stderr)


@app.command("list")
def listing(leaderboard: Board = DEFAULT_BOARD, json: Json = False) -> None:
    """All rows of the board."""
    from rewardlab.boards import speedrun
    from rewardlab.cli.tables import emit, table

    found = speedrun.rows(leaderboard)
    if emit([{"track": row.track, **row.cells} for row in found], "json" if json else None):
        return
    columns = ("track", "Date", "Runner", "goal@step", "time_to_target", "final_reward", "algorithm", "Notes")
    table(str(leaderboard), columns, [(row.track, *(row.cells[c] for c in columns[1:])) for row in found])


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(metavar="JSON", help="A run's metrics file.")],
    rerun: Annotated[bool, typer.Option("--rerun", help="Run it again and compare every reward.")] = False,
    cache: Annotated[Path | None, typer.Option("--cache", help="Where builtin:tiny is kept once it is made.")] = None,
) -> None:
    """Compute a run's goal and times again from its history."""
    from rewardlab.boards import speedrun

    run = speedrun.read_run(file)
    if wrong := speedrun.problems(run):
        print(f"{file}: " + "; ".join(wrong))
        raise SystemExit(1)
    print(f"{file}: goal and times follow from its {len(run['reward_history'])} rewards")
    if rerun:
        from rewardlab.cli import llm_run

        llm_run.rerun(run, cache)


@app.command("compare")
def compare(
    files: Annotated[list[Path], typer.Argument(metavar="A… vs B…", help="Metrics files of both sides.")],
    steps: Annotated[bool, typer.Option("--steps", help="Compare steps to the goal, not seconds.")] = False,
    json: Json = False,
) -> None:
    """Whether the first runs reach the goal sooner than the second: one-sided test over several seeds."""
    from rewardlab.boards import speedrun
    from rewardlab.cli.tables import emit

    words = [str(f) for f in files]
    if words.count("vs") != 1:
        raise typer.BadParameter("write the files of one side, the word vs, and those of the other")
    at = words.index("vs")
    by = "goal_reached_at_step" if steps else "goal_walltime_sec"
    made = speedrun.compare(files[:at], files[at + 1 :], by)
    if emit({"first": made.first, "second": made.second, "p_value": made.p_value}, "json" if json else None):
        return
    unit = "steps" if steps else "s"
    for name, side, mean in zip("AB", (made.first, made.second), made.means, strict=True):
        print(f"{name}: {mean:.1f} {unit} ({', '.join(f'{x:g}' for x in side)})")
    verdict = "A is faster" if made.p_value < 0.01 else "not shown that A is faster"
    print(f"p = {made.p_value:.4g} (Welch, one-sided): {verdict}")


def mount(front: typer.Typer) -> None:
    """The board's commands at the front door."""
    front.add_typer(app, name="speedrun")
