"""What every scripted policy of CoGsGuard scores, beside the original's: mean junctions held per episode.

python benchmarks/cogs_policies.py                                      every policy, maps 100-109, hard and easy
python benchmarks/cogs_policies.py --policies role --maps 3000-3099     one policy, with the 95 % interval of its mean

Episodes run side by side in one compiled program; policies without a vectorised form are left out. `sd` is between
maps. The original's scores are on the original's maps: ours have the same statistics, not the same walls.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.maps.pool import choose_spawns, make_pool
from rewardlab.cogs.missions import MISSIONS, Mission
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.make import policy_names
from rewardlab.cogs.policies.vector import vector_policy
from rewardlab.cogs.rules import ELEMENTS, FIRST_TEAM, GEAR, INDEX, VIBES

RESULTS = Path(__file__).with_name("results") / "cogs_policies.json"
# The original's own scripts (cogames 0.3.68, mended so that they run): arena, 8 cogs, 1000 steps, seeds 100-109.
PEERS = {
    "hard": {"planky": 3.12, "cogas": 1.96, "aligner": 0.41, "wombo": 0.41, "cogsguard_targeted": 0.17, "role_py": 0.0},
    "easy": {
        "planky": 15.23,
        "cogas": 12.87,
        "aligner": 3.38,
        "wombo": 2.78,
        "cogsguard_targeted": 2.62,
        "role_py": 0.14,
    },
}
WITHOUT_VECTOR = ("starter",)
COGS, VIBE_ROLES = FIRST_TEAM - 1, [VIBES.index(role) for role in GEAR]


def window_cells(cells: Any, width: int, reach: int) -> Any:
    """The cells in agents' windows."""
    offsets = jnp.arange(-reach, reach + 1)
    around = (offsets[:, None] * width + offsets).reshape(-1)
    return cells[..., None] + around


def play(mission: Mission, policy: str, maps: list[int]) -> dict[str, Any]:
    """One episode on each map, all at once."""
    rules = mission.rules
    grounds = [mission.map(seed) for seed in maps]
    spawns = [choose_spawns(g, rules, np.random.default_rng(seed)) for g, seed in zip(grounds, maps, strict=True)]
    pool, layout = make_pool(grounds, rules, spawns=spawns)
    engine, envs = Engine(rules, pool, layout), len(maps)
    vector = vector_policy(policy, PolicyEnvInterface.from_rules(rules))
    lanes = jnp.arange(envs)[None, :, None]

    def step(carry: Any, key: Any) -> Any:
        game, state, seen, shown = carry
        policy_key, step_key = jax.random.split(key)
        game, observations = engine.observe(game)
        actions, state = vector.act(state, observations, policy_key)
        game, _ = engine.step(game, actions.T, step_key)
        seen = seen.at[lanes, window_cells(game.cell, layout.width, rules.window // 2)].set(True)
        shown = shown | (game.vibe[:, :, None] == jnp.asarray(VIBE_ROLES)).any(0)
        return (game, state, seen, shown), (game.vibe[:, :, None] == jnp.asarray(VIBE_ROLES)).any(0).all(-1)

    @jax.jit
    def episode(key: Any) -> Any:
        game = engine.start(jnp.arange(envs))
        seen = jnp.zeros((envs, layout.height * layout.width), bool)
        carry = (game, vector.init(envs), seen, jnp.zeros((envs, len(GEAR)), bool))
        return jax.lax.scan(step, carry, jax.random.split(key, rules.max_steps))

    begun = time.perf_counter()
    (game, _, seen, shown), together = jax.tree.map(np.asarray, episode(jax.random.key(maps[0])))
    stats, team = game.stats, 0
    scores = stats.junctions_held[COGS + team] / rules.max_steps
    moved, failed = stats.moved.sum(0), stats.move_failed.sum(0)
    measures = {
        "failed_moves": failed / np.maximum(moved + failed, 1),
        "deposits": stats.deposited[team, : len(ELEMENTS)].sum(0),
        "cells_seen": seen.sum(-1),
        "aligned": stats.aligned.sum(0),
        "scrambled": stats.scrambled.sum(0),
        "hearts": stats.gained[INDEX["heart"]].sum(0),
        "gear": sum(stats.gained[INDEX[name]].sum(0) for name in GEAR),
        "roles_shown": shown.sum(-1),
        "steps_with_all_roles": together.mean(0),
    }
    return {
        "policy": policy,
        "difficulty": mission.difficulty,
        "maps": maps,
        "scores": [round(float(score), 4) for score in scores],
        "mean": float(scores.mean()),
        "sd": float(scores.std(ddof=1)) if envs > 1 else 0.0,
        "interval_95": 1.96 * float(scores.std(ddof=1)) / math.sqrt(envs) if envs > 1 else None,
        "min": float(scores.min()),
        **{name: float(np.mean(column)) for name, column in measures.items()},
        "most_failed_moves": float(measures["failed_moves"].max()),
        "seconds": time.perf_counter() - begun,
    }


def numbers(text: str) -> list[int]:
    """`100-109` or `3,5`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(part) for part in text.split(",")]


def show(rows: list[dict[str, Any]]) -> None:
    """The table."""
    print(f"{'policy':<20}{'difficulty':<11}{'mean':>7}{'± 95 %':>8}{'min':>7}{'original':>10}{'failed':>8}"
          f"{'deposits':>10}{'cells':>7}{'aligned':>9}{'scrambled':>10}{'roles':>7}")  # fmt: skip
    for row in rows:
        theirs = PEERS.get(row["difficulty"], {}).get(row["policy"])
        cells = [
            f"{row['policy']:<20}{row['difficulty']:<11}{row['mean']:>7.2f}{row['interval_95'] or 0:>8.2f}",
            f"{row['min']:>7.2f}{'-' if theirs is None else format(theirs, '.2f'):>10}{row['failed_moves']:>8.2%}",
            f"{row['deposits']:>10.0f}{row['cells_seen']:>7.0f}{row['aligned']:>9.1f}{row['scrambled']:>10.1f}",
            f"{row['roles_shown']:>7.1f}",
        ]
        print("".join(cells), flush=True)


def main() -> None:
    """Play, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in policy_names() if name not in WITHOUT_VECTOR]
    parser.add_argument("--policies", default=",".join(names))
    parser.add_argument("--maps", default="100-109")
    parser.add_argument("--difficulties", default="hard,easy")
    parser.add_argument("--mission", default="cogsguard_arena.basic")
    parser.add_argument("--cogs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--key", default="maps_100_109", help="under which the rows stand in the output")
    options = parser.parse_args()
    rows = []
    for policy in options.policies.split(","):
        for difficulty in options.difficulties.split(","):
            mission = MISSIONS[options.mission].with_cogs(options.cogs).with_difficulty(difficulty)
            rows.append(play(mission.with_steps(options.steps), policy, numbers(options.maps)))
            show(rows[-1:])
    print()
    show(rows)
    record = json.loads(options.output.read_text()) if options.output.exists() else {}
    record[options.key] = {
        "mission": options.mission,
        "cogs": options.cogs,
        "steps": options.steps,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
