"""CoGsGuard's speed: random actions, episodes that reset by themselves, every observation written.

    python benchmarks/cogs.py                    (all tables; a CPU counts as one device per core)
    python benchmarks/cogs.py --quick            (the two headline rows only)
    python benchmarks/cogs.py --envs 8192        (environments in all; the defaults suit a CPU or a GPU)

Programs are compiled before the clock starts. The median of the repeats is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from rewardlab.cogs.env import VectorEnv, make_env
from rewardlab.cogs.missions import Mission, make_mission
from rewardlab.cogs.rules import ACTIONS

RESULTS = Path(__file__).parent / "results" / "cogs.json"
CACHE = Path("~/.cache/rewardlab/xla").expanduser()
# Environments per device that run fastest: on a CPU the working set stays in the core's cache.
ENVS = {"cpu": {"tokens": 72, "grid": 128, "none": 256}, "gpu": {"tokens": 8192, "grid": 32768, "none": 65536}}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the headline rows only")
    parser.add_argument("--envs", type=int, help="environments in all, instead of the defaults")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a repeat lasts, roughly")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def prepare() -> None:
    """Compiled programs are kept, and a CPU counts as one device per core; before anything touches JAX."""
    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jax.config.update("jax_num_cpu_devices", cores)


def device_kind() -> str:
    return "cpu" if jax.default_backend() == "cpu" else "gpu"


def program(env: VectorEnv, steps: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A start and a run of `steps` on every device, each with environments of its own. The last observation is carried
    from step to step, so that each is written to memory, as a policy would need it."""
    devices = jax.local_devices()
    mesh = jax.make_mesh((len(devices),), ("devices",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))

    def start(keys: Any) -> Any:
        return jax.tree.map(lambda x: x[None], env.reset(keys[0], staggered=True))

    def run(keys: Any, carry: Any) -> Any:
        def one(carry: Any, key: Any) -> tuple[Any, None]:
            state, _ = carry
            action_key, step_key = jax.random.split(key)
            actions = jax.random.randint(action_key, (env.envs, env.num_agents), 0, len(ACTIONS))
            state, step = env.step(state, actions, step_key)
            return (state, step.obs), None

        carry, _ = jax.lax.scan(one, jax.tree.map(lambda x: x[0], carry), jax.random.split(keys[0], steps))
        return jax.tree.map(lambda x: x[None], carry)

    spread = P("devices")
    started = jax.shard_map(start, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
    ran = jax.shard_map(run, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
    return jax.jit(started), jax.jit(ran, donate_argnums=1)


def measure(mission: Mission, observation: str, envs: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agent-steps per second of `envs` environments in all, and what one takes in memory."""
    devices = len(jax.local_devices())
    env = make_env(mission, max(1, envs // devices), observation=observation, maps=8)
    steps = 100
    started = time.perf_counter()
    start, run = program(env, steps)
    carry = start(jax.random.split(jax.random.key(0), devices))
    state_bytes = sum(x.nbytes for x in jax.tree.leaves(carry[0]) if hasattr(x, "nbytes"))
    seen_bytes = sum(x.nbytes for x in jax.tree.leaves(carry[1]))
    carry = jax.block_until_ready(run(jax.random.split(jax.random.key(1), devices), carry))
    compiled = time.perf_counter() - started
    speeds = []
    for repeat in range(arguments.repeats):
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < arguments.seconds:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(2 + repeat), done), devices)
            carry = jax.block_until_ready(run(keys, carry))
            done += 1
        speeds.append(done * steps * env.envs * devices * env.num_agents / (time.perf_counter() - begun))
    total = env.envs * devices
    return {
        "mission": mission.full_name,
        "observation": observation,
        "agents": env.num_agents,
        "envs": total,
        "agent_steps_per_second": statistics.median(speeds),
        "repeats": speeds,
        "state_bytes_per_env": state_bytes // total,
        "observation_bytes_per_env": seen_bytes // total,
        "ready_seconds": compiled,
    }


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
    prepare()
    head = f"{'mission':26} {'sees':7} {'agents':>6} {'envs':>7} {'M steps/s':>10} {'state KiB':>10} {'seen KiB':>10}"
    print(f"{head} {'ready s':>8}", flush=True)
    results = []
    for mission, observation, envs in cases(arguments):
        results.append(measure(mission, observation, envs, arguments))
        print(row(results[-1]), flush=True)
    device = jax.local_devices()[0]
    about = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device.device_kind,
        "devices": len(jax.local_devices()),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps({**about, "results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
