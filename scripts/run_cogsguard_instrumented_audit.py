"""The seed's command line of this name: the same as `rewardlab cogs audit`."""

import sys

from rewardlab.cli.app import main

main(["cogs", "audit", *sys.argv[1:]])
