"""`python scripts/speedrun/append_leaderboard.py [JSON] [--recorder …]`: `rewardlab speedrun append`."""

from __future__ import annotations

import sys

from rewardlab.cli.app import main

if __name__ == "__main__":
    main(["speedrun", "append", *sys.argv[1:]])
