"""How much an agent can hold, and what falls when it can hold less."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Int

from rewardlab.cogs.rules import ELEMENTS, GEAR, INDEX, Limit, Rules

Inventory = list[Array]  # one array per resource, in the order of `rules.RESOURCES`


def limit_of(rules: Rules, resource: str) -> Limit:
    """The limit that a resource falls under."""
    return next(limit for limit in rules.limits if resource in limit.resources)


def cap(rules: Rules, resource: str, held: Inventory) -> Int[Array, ...]:
    """min(most, max(least, Σ modifier·held)): gear replaces the base, it does not add to it."""
    limit = limit_of(rules, resource)
    bound = sum((amount * held[INDEX[name]] for name, amount in limit.modifiers), jnp.zeros_like(held[0]))
    bound = jnp.maximum(bound, limit.least)
    return bound if limit.most is None else jnp.minimum(bound, limit.most)


def cargo(held: Inventory) -> Int[Array, ...]:
    """Elements carried, all together."""
    return sum((held[INDEX[name]] for name in ELEMENTS), jnp.zeros_like(held[0]))


def enforce(rules: Rules, held: Inventory) -> Inventory:
    """What an agent keeps under its caps: gear goes with hp, then what gear allowed to carry."""
    held = list(held)
    room = cap(rules, GEAR[0], held)
    for name in GEAR:
        held[INDEX[name]] = jnp.minimum(held[INDEX[name]], room)
    for name in ("hp", "heart", "energy", "influence"):
        held[INDEX[name]] = jnp.minimum(held[INDEX[name]], cap(rules, name, held))
    excess = jnp.maximum(cargo(held) - cap(rules, ELEMENTS[0], held), 0)
    for name in rules.drop_order:
        dropped = jnp.minimum(held[INDEX[name]], excess)
        held[INDEX[name]] = held[INDEX[name]] - dropped
        excess = excess - dropped
    return held
