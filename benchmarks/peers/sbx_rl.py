"""sbx (Stable-Baselines3 in JAX), as its users run it."""

import gymnasium
import jax
import sbx
from contract import parse_request, report
from settings import TASKS
from stable_family import measure


def main() -> None:
    request = parse_request("sbx", list(TASKS))
    versions = {"sbx-rl": sbx.__version__, "jax": jax.__version__, "gymnasium": gymnasium.__version__}
    report(request, measure(sbx, request), device=jax.devices()[0].platform, versions=versions)


if __name__ == "__main__":
    main()
