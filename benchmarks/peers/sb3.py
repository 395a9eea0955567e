"""Stable-Baselines3, as its users run it."""

import gymnasium
import stable_baselines3
import torch
from contract import parse_request, report
from settings import TASKS
from stable_family import measure


def main() -> None:
    request = parse_request("sb3", list(TASKS))
    versions = {
        "stable-baselines3": stable_baselines3.__version__,
        "torch": torch.__version__,
        "gymnasium": gymnasium.__version__,
    }
    report(request, measure(stable_baselines3, request), device="cpu", versions=versions)


if __name__ == "__main__":
    main()
