"""What `rewardlab cogs play` and `replay` do; imported when called, for it brings JAX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardlab.cli.cogs_run import prepare
from rewardlab.cli.tables import table
from rewardlab.cogs.evaluate.episode import Cast, Job
from rewardlab.cogs.evaluate.seats import PATIENCE
from rewardlab.cogs.missions import make_mission
from rewardlab.cogs.render.log import Views
from rewardlab.cogs.render.replay import ReplayWriter, read_replay
from rewardlab.cogs.render.scene import Summary
from rewardlab.cogs.render.scene import play as follow
from rewardlab.cogs.render.session import LiveSession
from rewardlab.cogs.render.views import viewer_of, watch_replay
from rewardlab.cogs.simulation import Simulation

Wanted = tuple[str, int | None, Sequence[str], str | None, int | None]  # mission, cogs, variants, difficulty, steps


def play(
    wanted: Wanted,
    policy: str,
    device: str,
    render: str,
    seed: int,
    map_seed: int | None,
    autostart: bool,
    replays: Path | None,
) -> None:
    """Watch a policy play an episode."""
    name, cogs, variants, difficulty, steps = wanted
    mission = make_mission(name, cogs=cogs, variants=variants, difficulty=difficulty, steps=steps)
    prepare()
    everybody = tuple(range(mission.rules.num_agents))
    on_map = seed if map_seed is None else map_seed
    cast = Cast.of(Job(mission, (policy,), (everybody,), seed, on_map, PATIENCE, device), strict=True)
    try:
        simulation = Simulation(mission, seed=seed, map_seed=on_map)
        cast.begin(simulation.observations)
        session = LiveSession(simulation, cast.decide, seed=seed, policies=cast.names())
        writer = ReplayWriter(replays) if replays is not None else None
        viewer = viewer_of(render, autostart=autostart)
        summary = follow(session, viewer if writer is None else Views([viewer, writer]))
    finally:
        cast.close()
    tell(summary)
    if writer is not None and writer.path is not None:
        print(f"replay: {writer.path}")


def replay(file: Path, render: str) -> None:
    """Watch a recorded episode."""
    watch_replay(read_replay(file), render)


def tell(summary: Summary) -> None:
    """How an episode ended: what was won, lost and is held."""
    print("Episode Complete!" if summary.complete else "Episode stopped.")
    print(f"Steps: {summary.steps}")
    stats: Any = summary.statistics
    rows: list[tuple[str, str, float, float, float]] = []
    for team, figures in stats["collective"].items():
        gained, lost = (figures.get(f"aligned.junction.{what}", 0.0) for what in ("gained", "lost"))
        rows.append((team, "junctions", gained, lost, figures.get("aligned.junction", 0.0)))
        for resource in ("heart", "oxygen", "carbon", "germanium", "silicon"):
            if f"{resource}.amount" in figures:
                into, out = figures.get(f"{resource}.deposited", 0.0), figures.get(f"{resource}.withdrawn", 0.0)
                rows.append((team, f"{resource} in store", into, out, figures[f"{resource}.amount"]))
    for resource in ("aligner", "scrambler", "miner", "scout", "heart"):
        totals = [
            sum(a.get(f"{resource}.{what}", 0.0) for a in stats["agent"]) for what in ("gained", "lost", "amount")
        ]
        rows.append(("cogs carry", resource, totals[0], totals[1], totals[2]))
    table("", ("Category", "Stat", "Gained", "Lost", "Final"), rows)
    print(f"Total reward: {sum(summary.rewards):.2f} ({sum(summary.rewards) / len(summary.rewards):.2f} per cog)")
