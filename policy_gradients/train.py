"""`python -m policy_gradients.train --config policy_gradients/configs/grpo.yaml …` means `rewardlab llm train …`."""

from __future__ import annotations

import sys

from rewardlab.cli.app import main

if __name__ == "__main__":
    main(["llm", "train", *sys.argv[1:]])
