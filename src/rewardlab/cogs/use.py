"""What using an object does: hub, junction, chest, gear stations, extractors. All are scalar rules, one lane per
environment; of each object's handlers the first whose conditions hold acts."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from rewardlab.cogs.limits import Inventory, cap, cargo, enforce
from rewardlab.cogs.rules import CODE, ELEMENTS, EXTRACTORS, GEAR, INDEX, NEUTRAL, STATIONS, STORED, Amounts, Rules

HEART = INDEX["heart"]


class Use(NamedTuple):
    """An agent at an object: what both hold, before or after."""

    held: Inventory
    store: list[Int[Array, " E"]]  # of the agent's team, in the order of `rules.STORED`
    owner: Int[Array, " E"]
    amount: Int[Array, " E"]
    success: Bool[Array, " E"]


def has(needs: Amounts, amount_of: dict[str, Array]) -> Array:
    """Whether every amount is there."""
    conditions: list[Array] = [amount_of[name] >= amount for name, amount in needs]
    return reduce(and_, conditions)


def use(rules: Rules, code: Int[Array, " E"], team: Int[Array, ""], before: Use) -> Use:
    """An agent of `team` (an owner's number) uses an object of kind `code`; where it cannot, nothing changes."""
    mine = before.owner == team
    after = _deposit(rules, ((code == CODE["c:hub"]) | (code == CODE["junction"])) & mine, before)
    after = _contest(rules, (code == CODE["junction"]) & ~mine, team, after)
    after = _get_heart(rules, (code == CODE["c:chest"]) & mine, after)
    after = _change_gear(rules, code, mine, jax.lax.optimization_barrier(after))
    return _extract(rules, code, jax.lax.optimization_barrier(after))


def _deposit(rules: Rules, here: Array, use: Use) -> Use:
    """Every element goes to the team's store, as far as it has room; it succeeds with empty hands too."""
    held, store = list(use.held), list(use.store)
    room = rules.store_elements - sum(store[: len(ELEMENTS)], jnp.zeros_like(store[0]))
    for i, name in enumerate(ELEMENTS):
        given = jnp.minimum(jnp.minimum(held[INDEX[name]], rules.deposit), jnp.maximum(room, 0))
        given = jnp.where(here, given, 0)
        held[INDEX[name]] = held[INDEX[name]] - given
        store[i] = store[i] + given
        room = room - given
    return use._replace(held=held, store=store, success=use.success | here)


def _contest(rules: Rules, here: Array, team: Array, use: Use) -> Use:
    """Align a neutral junction, or scramble another owner's."""
    held = list(use.held)
    amount_of = {name: held[INDEX[name]] for name in INDEX}
    aligns = here & (use.owner == NEUTRAL) & has(rules.align_needs, amount_of)
    scrambles = here & (use.owner != NEUTRAL) & has(rules.scramble_needs, amount_of)
    for does, cost in ((aligns, rules.align_cost), (scrambles, rules.scramble_cost)):
        for name, amount in cost:
            held[INDEX[name]] = held[INDEX[name]] - jnp.where(does, amount, 0)
    owner = jnp.where(aligns, team, jnp.where(scrambles, NEUTRAL, use.owner))
    return use._replace(held=held, owner=owner, success=use.success | aligns | scrambles)


def _get_heart(rules: Rules, here: Array, use: Use) -> Use:
    """Take a heart of the team's; else make one of its elements, at full price even if the hands are full."""
    held, store = list(use.held), list(use.store)
    stored = STORED.index("heart")
    room = jnp.maximum(cap(rules, "heart", held) - held[HEART], 0)
    takes = here & (store[stored] >= 1)
    makes = here & ~takes & has(rules.heart_cost, dict(zip(STORED, store, strict=True)))
    store[stored] = store[stored] - jnp.where(takes, jnp.minimum(room, 1), 0)
    for name, amount in rules.heart_cost:
        store[STORED.index(name)] = store[STORED.index(name)] - jnp.where(makes, amount, 0)
    held[HEART] = held[HEART] + jnp.where(takes | makes, jnp.minimum(room, 1), 0)
    return use._replace(held=held, store=store, success=use.success | takes | makes)


def _change_gear(rules: Rules, code: Array, mine: Array, use: Use) -> Use:
    """Gear that is held is kept; else the old is cleared (what only it allowed to carry falls) and the new paid."""
    store = list(use.store)
    amount_of = dict(zip(STORED, store, strict=True))
    prices = dict(rules.gear_costs)
    keeps, changes = jnp.zeros_like(mine), jnp.zeros_like(mine)
    bought = []
    for gear, station in zip(GEAR, STATIONS, strict=True):
        here = mine & (code == CODE[station])
        kept = here & (use.held[INDEX[gear]] >= 1)
        buys = here & ~kept & has(prices[gear], amount_of)
        keeps, changes = keeps | kept, changes | buys
        bought.append(buys)
    for gear, buys in zip(GEAR, bought, strict=True):
        for name, amount in prices[gear]:
            store[STORED.index(name)] = store[STORED.index(name)] - jnp.where(buys, amount, 0)
    cleared = list(use.held)
    for gear in GEAR:
        cleared[INDEX[gear]] = jnp.zeros_like(cleared[INDEX[gear]])
    cleared = enforce(rules, cleared)
    room = cap(rules, GEAR[0], cleared)
    for gear, buys in zip(GEAR, bought, strict=True):
        cleared[INDEX[gear]] = jnp.where(buys, jnp.minimum(room, 1), 0)
    held = [jnp.where(changes, new, old) for new, old in zip(cleared, use.held, strict=True)]
    return use._replace(held=held, store=store, success=use.success | keeps | changes)


def _extract(rules: Rules, code: Array, use: Use) -> Use:
    """Take what one use gives, what is left and what there is room for; full hands succeed and take nothing."""
    held = list(use.held)
    room = jnp.maximum(cap(rules, ELEMENTS[0], held) - cargo(held), 0)
    per_use = jnp.where(held[INDEX["miner"]] >= 1, rules.extract_with_miner, rules.extract)
    most = jnp.minimum(jnp.minimum(per_use, use.amount), room)
    amount, success = use.amount, use.success
    for name, extractor in zip(ELEMENTS, EXTRACTORS, strict=True):
        here = code == CODE[extractor]
        taken = jnp.where(here, most, 0)
        held[INDEX[name]] = held[INDEX[name]] + taken
        amount = amount - taken
        success = success | here
    return use._replace(held=held, amount=amount, success=success)
