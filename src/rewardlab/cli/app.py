"""The command line: parse, then one call. JAX is imported only by the commands that compute."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from rewardlab.cli import arena, bench, cogs, env, export, hub, lab, llm, plot, remote, speedrun

app = typer.Typer(
    name="rewardlab",
    help="Agents train, are measured and compete, under one roof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
lab.mount(app)
env.mount(app)
bench.mount(app)
plot.mount(app)
hub.mount(app)
export.mount(app)
remote.mount(app)
cogs.mount(app)
arena.mount(app)
llm.mount(app)
speedrun.mount(app)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; an error is one sentence on stderr, a traceback only with --debug."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    sys.path.append(str(Path.cwd()))  # a person's own environments and policies stand where they work
    try:
        app([a for a in arguments if a != "--debug"], standalone_mode=True)
    except KeyboardInterrupt:
        print("rewardlab: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if debug or not lab.is_told(error):
            raise
        print(f"rewardlab: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
