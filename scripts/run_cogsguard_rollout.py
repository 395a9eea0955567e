"""The seed's command line of this name: the same as `rewardlab cogs rollout`."""

import sys

from rewardlab.cli.app import main

main(["cogs", "rollout", *sys.argv[1:]])
