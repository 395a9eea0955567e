"""Counters: how a step moves them, and their names, which are the original's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from rewardlab.cogs.act import FIRST_VIBE, Turns
from rewardlab.cogs.rules import CLIPS, CODE, KINDS, MOVES, RESOURCES, STORED, Rules
from rewardlab.cogs.state import State, Stats

Row = NDArray[np.generic]


def no_stats(rules: Rules, envs: int) -> Stats:
    """All zero."""
    agents, owners, teams = rules.num_agents, 1 + len(rules.teams), len(rules.teams)
    shapes = {
        **dict.fromkeys(("gained", "lost"), (len(RESOURCES), agents, envs)),
        **dict.fromkeys(("junctions", "junctions_gained", "junctions_lost", "junctions_held"), (owners, envs)),
        **dict.fromkeys(("deposited", "withdrawn"), (teams, len(STORED), envs)),
        **dict.fromkeys(("tokens_written", "tokens_dropped", "tokens_free"), (envs,)),
    }
    return Stats(**{name: jnp.zeros(shapes.get(name, (agents, envs)), jnp.int32) for name in Stats._fields})


def junctions_of(rules: Rules, state: State, owner: Int[Array, "O E"]) -> Int[Array, "K E"]:
    """How many junctions the clips and each team hold."""
    sources = state.source_row.shape[0]
    junction = state.kind[:sources] == CODE["junction"]
    held = [jnp.sum(junction & (owner[:sources] == CLIPS + i), 0) for i in range(1 + len(rules.teams))]
    return jnp.stack(held).astype(jnp.int32)


def turned(rules: Rules, state: State, before: Array, after: Array) -> tuple[Array, Array]:
    """Junctions that each owner won and lost between two moments, [K, E] each."""
    sources = state.source_row.shape[0]
    was, now = before[:sources], after[:sources]
    change = (was != now) & (state.kind[:sources] == CODE["junction"])
    owners = range(CLIPS, CLIPS + 1 + len(rules.teams))
    gained = jnp.stack([jnp.sum(change & (now == owner), 0) for owner in owners])
    return gained.astype(jnp.int32), jnp.stack([jnp.sum(change & (was == owner), 0) for owner in owners]).astype(
        jnp.int32
    )


def count_turns(stats: Stats, turns: Turns, actions: Int[Array, "A E"], rest: Int[Array, "A E"]) -> Stats:
    """The counters of actions."""
    moves = (actions >= 1) & (actions <= len(MOVES))
    return stats._replace(
        moved=stats.moved + (moves & turns.success),
        move_failed=stats.move_failed + (moves & ~turns.success),
        nooped=stats.nooped + (actions == 0),
        vibe_changed=stats.vibe_changed + (actions >= FIRST_VIBE),
        aligned=stats.aligned + turns.aligned,
        scrambled=stats.scrambled + turns.scrambled,
        longest_rest=jnp.maximum(stats.longest_rest, rest),
        deposited=stats.deposited + turns.deposited,
        withdrawn=stats.withdrawn + turns.withdrawn,
    )


def agent_stats(inventory: Row, stats: Stats, agent: int, env: int = 0) -> dict[str, float]:
    """One agent's statistics; those that are zero throughout are left out, as in the original."""
    found: dict[str, float] = {}
    for i, name in enumerate(RESOURCES):
        gained, lost = int(stats.gained[i, agent, env]), int(stats.lost[i, agent, env])
        amount = int(inventory[i, agent, env])
        if gained or lost or amount:
            found |= {f"{name}.amount": amount} | ({f"{name}.gained": gained} if gained else {})
            found |= {f"{name}.lost": lost} if lost else {}
    named = {
        "action.move.success": stats.moved,
        "action.move.failed": stats.move_failed,
        "action.noop.success": stats.nooped,
        "action.change_vibe.success": stats.vibe_changed,
        "junction.aligned_by_agent": stats.aligned,
        "junction.scrambled_by_agent": stats.scrambled,
        "status.max_steps_without_motion": stats.longest_rest,
    }
    counts = {name: int(value[agent, env]) for name, value in named.items()}
    return {name: float(value) for name, value in (found | {n: c for n, c in counts.items() if c}).items()}


def team_stats(rules: Rules, store: Row, stats: Stats, env: int = 0) -> dict[str, dict[str, float]]:
    """The statistics of each collective: the clips (where there are any) and the teams."""
    owners = [*(["clips"] if rules.clips.enabled else []), *(team.name for team in rules.teams)]
    first = 0 if rules.clips.enabled else 1
    found: dict[str, dict[str, float]] = {}
    for i, name in enumerate(owners, first):
        found[name] = {
            "aligned.junction": float(stats.junctions[i, env]),
            "aligned.junction.gained": float(stats.junctions_gained[i, env]),
            "aligned.junction.lost": float(stats.junctions_lost[i, env]),
            "aligned.junction.held": float(stats.junctions_held[i, env]),
        }
        if i == 0:
            continue
        for j, resource in enumerate(STORED):
            found[name] |= {
                f"{resource}.amount": float(store[i - 1, j, env]),
                f"{resource}.deposited": float(stats.deposited[i - 1, j, env]),
                f"{resource}.withdrawn": float(stats.withdrawn[i - 1, j, env]),
            }
    return found


def game_stats(kinds: Row, walls: int, agents: int, stats: Stats, env: int = 0) -> dict[str, float]:
    """What is on the map at the start, and the tokens written."""
    found = {f"objects.{name}": float(np.sum(kinds == CODE[name])) for name in KINDS if name not in ("empty", "wall")}
    found = {name: count for name, count in found.items() if count}
    found |= {"objects.wall": float(walls), "objects.agent.agent": float(agents)}
    tokens = {"written": stats.tokens_written, "dropped": stats.tokens_dropped, "free_space": stats.tokens_free}
    return found | {f"tokens_{name}": float(value[env]) for name, value in tokens.items()}
