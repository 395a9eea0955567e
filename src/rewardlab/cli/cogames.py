"""`cogames`: CoGames' command lines as they stand, run by RewardLab."""

from __future__ import annotations

import sys
from importlib.metadata import version

from rewardlab.cli import app


def translate(arguments: list[str]) -> list[str]:
    """`cogames [tutorial] COMMAND …` means `rewardlab cogs COMMAND …`."""
    words = arguments[1:] if arguments[:1] == ["tutorial"] else arguments
    if words[:1] == ["cogsguard"]:  # the tutorial of that name plays the arena
        words = ["play", "-m", "cogsguard_arena.basic", *words[1:]]
    return ["cogs", *words]


def main() -> None:
    """The console command."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["version"]:
        print(f"rewardlab {version('rewardlab')}")
        return
    app.main(translate(arguments))


if __name__ == "__main__":
    main()
