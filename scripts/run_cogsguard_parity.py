"""The seed's command line of this name: the same as `rewardlab cogs parity`."""

import sys

from rewardlab.cli.app import main

main(["cogs", "parity", *sys.argv[1:]])
