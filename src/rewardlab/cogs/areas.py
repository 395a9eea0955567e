"""What happens to every agent each step: the tick, then the areas of hubs and held junctions, one after another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from rewardlab.cogs.limits import cap, enforce
from rewardlab.cogs.rules import FIRST_TEAM, INDEX, NEUTRAL, RESOURCES, Rules
from rewardlab.cogs.state import State

HP, INFLUENCE, ENERGY, SOLAR = (INDEX[name] for name in ("hp", "influence", "energy", "solar"))
FELT = ("hp", "influence", "energy")  # what areas change
UNROLL = 8  # sources that are compiled as one: a loop's turn costs more than its rules


def tick(rules: Rules, inventory: Int[Array, "R A E"]) -> Int[Array, "R A E"]:
    """hp and influence fade, energy grows by solar, each bounded at once; at 0 hp gear and hearts are lost."""
    held = list(inventory)
    held[HP] = jnp.maximum(held[HP] + rules.hp_per_tick, 0)
    fallen = enforce(rules, held)
    held = [jnp.where(held[HP] == 0, after, before) for after, before in zip(fallen, held, strict=True)]
    influence = jnp.maximum(held[INFLUENCE] + rules.influence_per_tick, 0)
    held[INFLUENCE] = jnp.minimum(influence, cap(rules, "influence", held))
    held[ENERGY] = jnp.minimum(held[ENERGY] + held[SOLAR], cap(rules, "energy", held))
    return jnp.stack(held)


def areas(rules: Rules, state: State, width: int) -> tuple[Array, Array, Array]:
    """The inventory after all areas, and per resource what was gained and lost on the way.

    Sources act in row order, each bounded at once, so the order tells: influence ends positive only if an own source
    comes after the last enemy one. Who falls to 0 hp loses gear in that very moment, and with it the higher caps.
    """
    held = list(state.inventory)
    bare = [jnp.zeros_like(x) if RESOURCES[i] in dict(_gear_caps(rules)) else x for i, x in enumerate(held)]
    caps = {name: cap(rules, name, held) for name in FELT}
    bare_caps = {name: cap(rules, name, bare) for name in FELT}
    row, col = state.cell // width, state.cell % width
    team = (jnp.asarray(rules.team_of, jnp.int32) + FIRST_TEAM)[:, None]
    own_effect, enemy_effect = dict(rules.area.own), dict(rules.area.enemy)

    def one(
        i: Array, carry: tuple[dict[str, Array], dict[str, Array], Bool[Array, "A E"]]
    ) -> tuple[dict[str, Array], dict[str, Array], Bool[Array, "A E"]]:
        now, lost, fell = carry
        distance = jnp.maximum(jnp.abs(row - state.source_row[i]), jnp.abs(col - state.source_col[i]))
        owner = state.owner[i]
        inside = (distance <= rules.area.radius) & (owner != NEUTRAL)
        own = inside & (owner == team)
        after, gone = {}, {}
        for name in FELT:
            change = jnp.where(own, own_effect.get(name, 0), jnp.where(inside, enemy_effect.get(name, 0), 0))
            moved = jnp.maximum(now[name] + change, 0)
            bound = jnp.where(fell, bare_caps[name], caps[name])
            after[name] = jnp.where(change > 0, jnp.minimum(moved, bound), moved)
        fell = fell | (inside & (after["hp"] == 0))
        for name in ("influence", "energy"):
            after[name] = jnp.where(fell, jnp.minimum(after[name], bare_caps[name]), after[name])
        for name in FELT:
            gone[name] = lost[name] + jnp.maximum(now[name] - after[name], 0)
        return after, gone, fell

    start = {name: held[INDEX[name]] for name in FELT}
    nothing = {name: jnp.zeros_like(held[0]) for name in FELT}
    never = jnp.zeros(held[0].shape, bool)
    now, lost, fell = jax.lax.fori_loop(0, state.source_row.shape[0], one, (start, nothing, never), unroll=UNROLL)
    return _settle(rules, state.inventory, now, lost, fell)


def _gear_caps(rules: Rules) -> set[tuple[str, int]]:
    """The resources whose possession raises a cap of hp, influence or energy: those that go at 0 hp."""
    return {pair for limit in rules.limits if set(limit.resources) & set(FELT) for pair in limit.modifiers}


def _settle(
    rules: Rules, before: Int[Array, "R A E"], now: dict[str, Array], lost: dict[str, Array], fell: Bool[Array, "A E"]
) -> tuple[Array, Array, Array]:
    """Put the changed resources back; who fell drops gear, hearts and the cargo that only gear could carry."""
    held = list(before)
    for name in FELT:
        held[INDEX[name]] = now[name]
    struck = list(held)
    struck[HP] = jnp.zeros_like(struck[HP])
    struck = enforce(rules, struck)
    after = [held[i] if name in FELT else jnp.where(fell, struck[i], held[i]) for i, name in enumerate(RESOURCES)]
    gone = [lost[name] if name in FELT else before[i] - after[i] for i, name in enumerate(RESOURCES)]
    inventory, dropped = jnp.stack(after), jnp.stack(gone)
    return inventory, inventory - before + dropped, dropped
