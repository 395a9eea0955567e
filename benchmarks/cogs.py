"""CoGsGuard's speed: random actions, episodes that reset by themselves, every observation written.

    python benchmarks/cogs.py                    (all tables; a CPU counts as one device per core)
    python benchmarks/cogs.py --quick            (the two headline rows only)
    python benchmarks/cogs.py --envs 8192        (environments in all; the defaults suit a CPU or a GPU)

Programs are compiled before the clock starts. The median of the repeats is reported.
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from rewardlab.cogs.missions import Mission, make_mission
from rewardlab.cogs.speed import ENVS, device_kind, measure
from rewardlab.experiment import device

RESULTS = Path(__file__).parent / "results" / "cogs.json"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the headline rows only")
    parser.add_argument("--envs", type=int, help="environments in all, instead of the defaults")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a repeat lasts, roughly")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def cases(arguments: argparse.Namespace) -> list[tuple[Mission, str, int]]:
    """The headline rows, then growth with environments, agents and map."""
    best = {name: envs * len(jax.local_devices()) for name, envs in ENVS[device_kind()].items()}
    if arguments.envs:
        best = dict.fromkeys(best, arguments.envs)
    arena = make_mission("cogsguard_arena", cogs=8)
    found = [(arena, observation, best[observation]) for observation in ("tokens", "grid")]
    if arguments.quick:
        return found
    found.append((arena, "none", best["none"]))
    most = best["tokens"]
    found += [(arena, "tokens", envs) for envs in (most // 16, most // 4, 4 * most) if envs >= len(jax.local_devices())]
    found += [(make_mission("cogsguard_arena", cogs=cogs), "tokens", most) for cogs in (1, 2, 4, 20)]
    return [*found, (make_mission("cogsguard_machina_1", cogs=8), "tokens", most)]


def row(result: dict[str, Any]) -> str:
    return (
        f"{result['mission']:26} {result['observation']:7} {result['agents']:6} {result['envs']:7} "
        f"{result['agent_steps_per_second'] / 1e6:10.3f} {result['state_bytes_per_env'] / 1024:10.1f} "
        f"{result['observation_bytes_per_env'] / 1024:10.1f} {result['ready_seconds']:8.1f}"
    )


def main() -> None:
    arguments = parse_arguments()
    device.prepare()
    head = f"{'mission':26} {'sees':7} {'agents':>6} {'envs':>7} {'M steps/s':>10} {'state KiB':>10} {'seen KiB':>10}"
    print(f"{head} {'ready s':>8}", flush=True)
    results = []
    for mission, observation, envs in cases(arguments):
        results.append(measure(mission, observation, envs, arguments.seconds, arguments.repeats))
        print(row(results[-1]), flush=True)
    about = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": jax.local_devices()[0].device_kind,
        "devices": len(jax.local_devices()),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({**about, "results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
