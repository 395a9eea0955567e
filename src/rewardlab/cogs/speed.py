"""How fast the engine is: random actions, episodes that reset by themselves, every observation written."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from rewardlab.cogs.env import VectorEnv, make_env
from rewardlab.cogs.missions import Mission
from rewardlab.cogs.rules import ACTIONS

STEPS = 100  # in one call of the compiled program
# Environments per device that run fastest: on a CPU the working set stays in the core's cache.
ENVS = {"cpu": {"tokens": 56, "grid": 128, "none": 256}, "gpu": {"tokens": 131072, "grid": 131072, "none": 131072}}


def device_kind() -> str:
    """The row of `ENVS` that fits here."""
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


def measure(
    mission: Mission, observation: str = "tokens", envs: int | None = None, seconds: float = 2.0, repeats: int = 3
) -> dict[str, Any]:
    """Agent-steps per second of `envs` environments in all (the fastest number if left out), the median of the repeats
    after compilation, and what one environment takes in memory."""
    devices = len(jax.local_devices())
    each = max(1, envs // devices) if envs else ENVS[device_kind()][observation]
    env = make_env(mission, each, observation=observation, maps=8)
    started = time.perf_counter()
    start, run = program(env, STEPS)
    carry = start(jax.random.split(jax.random.key(0), devices))
    state_bytes = sum(x.nbytes for x in jax.tree.leaves(carry[0]) if hasattr(x, "nbytes"))
    seen_bytes = sum(x.nbytes for x in jax.tree.leaves(carry[1]))
    carry = jax.block_until_ready(run(jax.random.split(jax.random.key(1), devices), carry))
    compiled = time.perf_counter() - started
    speeds = []
    for repeat in range(repeats):
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(2 + repeat), done), devices)
            carry = jax.block_until_ready(run(keys, carry))
            done += 1
        speeds.append(done * STEPS * env.envs * devices * env.num_agents / (time.perf_counter() - begun))
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
