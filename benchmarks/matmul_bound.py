"""This machine's matrix-product bound at the shapes of a SAC update, and how many FLOPs one update costs.

`python benchmarks/matmul_bound.py` prints a table; `--json` prints JSON alone. Counting needs no JAX.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from peers.settings import TASKS, DqnWork, SacWork

SESSIONS, BATCH, WIDTH, CHAIN, ROUNDS = 4, 256, 256, 32, 15
# Forward pass, gradient of the weights, gradient of the inputs: session s, batch b, input i, output o.
PRODUCTS = {"forward": "sbi,sio->sbo", "weight_gradient": "sbi,sbo->sio", "input_gradient": "sbo,sio->sbi"}


def forward_flops(batch: int, sizes: list[int]) -> int:
    return 2 * batch * sum(inputs * outputs for inputs, outputs in pairwise(sizes))


def training_flops(batch: int, sizes: list[int]) -> int:
    """Forward, the gradient of every weight, and of every layer's input but the first's."""
    return 2 * forward_flops(batch, sizes) + forward_flops(batch, sizes[1:])


def dqn_update_flops(work: DqnWork, observation: int = 4, actions: int = 2) -> int:
    """The target network forward, the online network trained."""
    sizes = [observation, *work.widths, actions]
    return forward_flops(work.batch_size, sizes) + training_flops(work.batch_size, sizes)


def sac_update_flops(work: SacWork, observation: int = 3, action: int = 1) -> int:
    """Critic step: actor and both targets forward, both critics trained. Actor step: the actor trained through both
    critics, whose weights need no gradient there and whose first layer needs only that of the action."""
    actor = [observation, *work.widths, 2 * action]
    critic = [observation + action, *work.widths, 1]
    batch = work.batch_size
    through_critic = forward_flops(batch, critic[1:]) + forward_flops(batch, [action, critic[1]])
    critic_step = forward_flops(batch, actor) + 2 * (forward_flops(batch, critic) + training_flops(batch, critic))
    actor_step = training_flops(batch, actor) + 2 * (forward_flops(batch, critic) + through_critic)
    return critic_step + actor_step


def update_flops(task: str) -> int | None:
    """None for PPO, whose updates are not dominated by matrix products of one shape."""
    work = TASKS[task]
    if isinstance(work, SacWork):
        return sac_update_flops(work)
    return dqn_update_flops(work) if isinstance(work, DqnWork) else None


def share_of_bound(task: str, updates_per_second: float, bound_gflops: float) -> float | None:
    flops = update_flops(task)
    return None if flops is None else flops * updates_per_second / (bound_gflops * 1e9)


def best_gflops(chain: Callable[[], Any]) -> float:
    """The best of several rounds: a bound is what the machine can do when nothing disturbs it."""
    chain()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        chain()
        best = min(best, time.perf_counter() - start)
    return 2 * SESSIONS * BATCH * WIDTH * WIDTH * CHAIN / best / 1e9


def jax_gflops(devices: int) -> dict[str, float]:
    """A chain of dots in one program, over sessions by `vmap`, laid over `devices` CPU devices."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_num_cpu_devices", devices)
    weights = jnp.full((SESSIONS, BATCH, WIDTH), 1.0 / WIDTH)
    if devices > 1:
        mesh = jax.make_mesh((devices,), ("session",))
        by_session = jax.sharding.PartitionSpec("session")
        weights = jax.device_put(weights, jax.sharding.NamedSharding(mesh, by_session))

    def measured(product: str) -> float:
        session_product = product.replace("s", "")

        def chained(left: jax.Array, right: jax.Array) -> jax.Array:
            for _ in range(CHAIN):
                left = jnp.einsum(session_product, left, right)
            return left

        program = jax.vmap(chained)
        if devices > 1:
            program = jax.shard_map(program, mesh=mesh, in_specs=by_session, out_specs=by_session)
        program = jax.jit(program)
        return best_gflops(lambda: program(weights, weights).block_until_ready())

    return {name: measured(product) for name, product in PRODUCTS.items()}


def numpy_gflops() -> dict[str, float]:
    import numpy as np

    weights = np.full((SESSIONS, BATCH, WIDTH), 1.0 / WIDTH, np.float32)
    turned = weights.transpose(0, 2, 1)
    pairs = {"forward": (weights, weights), "weight_gradient": (turned, weights), "input_gradient": (weights, turned)}
    return {
        name: best_gflops(lambda left=left, right=right: [left @ right for _ in range(CHAIN)])
        for name, (left, right) in pairs.items()
    }


def measured_in_fresh_process(way: str, cores: int) -> dict[str, float] | None:
    """A fresh process, because the libraries size their thread pools by the cores they may use when they load."""
    command = [sys.executable, __file__, "--worker", way, "--cores", str(cores)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def work_alone(way: str, cores: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    measured = numpy_gflops() if way == "numpy" else jax_gflops(devices=2 if way == "jax_2_devices" else 1)
    print(json.dumps(measured))


def measure_bounds() -> dict[str, Any]:
    """GFLOP/s by number of cores; `bound` is the best that any of the ways reached."""
    plan = {1: ("numpy", "jax"), 2: ("numpy", "jax", "jax_2_devices")}
    bounds = {}
    for cores in [count for count in plan if count <= len(os.sched_getaffinity(0))]:
        ways = {way: measured_in_fresh_process(way, cores) for way in plan[cores]}
        reached = [max(products.values()) for products in ways.values() if products]
        bounds[str(cores)] = {"bound": max(reached), "ways": ways}
    flops = {task: update_flops(task) for task in ("dqn_cartpole", "sac_pendulum")}
    return {"shape": [SESSIONS, BATCH, WIDTH, WIDTH], "cores": bounds, "flops_per_update": flops}


def print_table(measured: dict[str, Any]) -> None:
    print(f"{'cores':>5}  {'way':<14}" + "".join(f"{name:>17}" for name in PRODUCTS) + "   GFLOP/s")
    for cores, row in measured["cores"].items():
        for way, products in row["ways"].items():
            cells = "".join(f"{products[name]:17.1f}" for name in PRODUCTS) if products else "  could not be measured"
            print(f"{cores:>5}  {way:<14}{cells}")
        for task, flops in measured["flops_per_update"].items():
            updates = row["bound"] * 1e9 / flops
            print(f"{cores:>5}  bound {row['bound']:.1f} → {task}: {flops / 1e6:.1f} MFLOP → {updates:,.0f} updates/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON alone on stdout")
    parser.add_argument("--worker", choices=("numpy", "jax", "jax_2_devices"), help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work_alone(arguments.worker, arguments.cores)
        return
    measured = measure_bounds()
    if arguments.json:
        print(json.dumps(measured))
    else:
        print_table(measured)


if __name__ == "__main__":
    main()
