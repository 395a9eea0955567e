"""`slm-lab`: SLM-Lab's command lines as they stand, run by RewardLab."""

from __future__ import annotations

import sys

from rewardlab.cli import app

COMMANDS = ("run", "spec", "verify", "bench", "list", "pull", "push", "plot", "plot-list", "run-remote", "remote")


def translate(arguments: list[str]) -> list[str]:
    """`slm-lab [--render] SPEC_FILE SPEC_NAME MODE` means `run`; a command line that names a command stays as it is."""
    words = [a for a in arguments if a not in ("--debug", "--help")]
    first = next((a for a in words if not a.startswith("-")), None)
    if first in COMMANDS or not words:
        return arguments
    return ["run", *arguments]


def main() -> None:
    """The console command."""
    app.main(translate(sys.argv[1:]))


if __name__ == "__main__":
    main()
