"""Rewards: held junctions, and shaping by statistics."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from rewardlab.cogs.rules import INDEX, STORED, Reward, Rules
from rewardlab.cogs.state import Stats

AGENT_STATS = {
    "action.change_vibe.success": "vibe_changed",
    "junction.aligned_by_agent": "aligned",
    "junction.scrambled_by_agent": "scrambled",
}


def statistic(rules: Rules, stats: Stats, name: str, of_team: bool) -> Float[Array, "A E"]:
    """A statistic of each agent, or of its team."""
    resource, _, what = name.rpartition(".")
    if not of_team:
        counter = getattr(stats, AGENT_STATS[name]) if name in AGENT_STATS else getattr(stats, what)[INDEX[resource]]
        return jnp.asarray(counter, jnp.float32)
    if name == "aligned.junction":
        per_team = [stats.junctions[1 + team] for team in rules.team_of]
    else:
        per_team = [getattr(stats, what)[team, STORED.index(resource)] for team in rules.team_of]
    return jnp.stack(per_team).astype(jnp.float32)


def shaped(rules: Rules, stats: Stats, shaping: Reward) -> Float[Array, "A E"]:
    """What a shaping reward has paid so far."""
    paid = shaping.weight * statistic(rules, stats, shaping.stat, shaping.of_team)
    if shaping.most is None:
        return paid
    return jnp.minimum(paid, shaping.most) if shaping.weight > 0 else jnp.maximum(paid, shaping.most)


def reward(rules: Rules, before: Stats, after: Stats) -> Float[Array, "A E"]:
    """Junctions held / max_steps (so an episode's sum is the mean number held), and what shaping adds."""
    held = [after.junctions[1 + team] for team in rules.team_of]
    total = jnp.stack(held).astype(jnp.float32) / rules.max_steps * float(rules.objective)
    for shaping in rules.shaping:
        total = total + shaped(rules, after, shaping) - shaped(rules, before, shaping)
    return total
