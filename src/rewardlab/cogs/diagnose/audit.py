"""A longer rollout with a running trace: roles, the team's resources, what the cogs know of the map."""

from __future__ import annotations

from collections.abc import Iterator

from rewardlab.cogs.diagnose.rollout import ROLES, roles_over_time, roll
from rewardlab.cogs.diagnose.witness import Witness
from rewardlab.cogs.rules import GEAR, STORED


def audit(witness: Witness, trace_every: int) -> Iterator[str]:
    """Lines as the episode goes on, then the summary."""
    tally = None
    first = last = witness.simulation.stores()[witness.team]
    for moment, tally in roll(witness):
        if moment.step % trace_every:
            continue
        roles = " ".join(f"{role}={tally.role_counts[-1][role]}" for role in ROLES)
        yield f"step {moment.step}: roles {roles} | transitions {sum(tally.transitions.values())}"
        store = " ".join(f"{name}={moment.store[name]} ({moment.store[name] - last[name]:+d})" for name in STORED)
        uses = " ".join(f"{gear}={tally.station_uses[gear]}" for gear in GEAR)
        yield f"step {moment.step}: team {store} | station uses {uses}"
        last = moment.store
    if tally is None:
        return
    end = witness.simulation.stores()[witness.team]
    yield "team over the episode: " + " ".join(f"{name}={end[name]} ({end[name] - first[name]:+d})" for name in STORED)
    yield from roles_over_time(tally)
    for (before, after), times in tally.transitions.most_common():
        yield f"transition {before} → {after}: {times}"
    yield from _known(witness)


def _known(witness: Witness) -> Iterator[str]:
    """How many structures each cog knows, by kind."""
    rows: dict[str, list[int]] = {"junctions": [], "extractors": []}
    for agent in range(witness.simulation.num_agents):
        known = witness.policy.structures(agent)
        if known is None:
            yield "structures: this policy does not say what it knows"
            return
        kinds = [kind for kind, _ in known.values()]
        rows["junctions"].append(kinds.count("junction"))
        rows["extractors"].append(sum(kind.endswith("_extractor") for kind in kinds))
        yield f"agent {agent}: junctions={rows['junctions'][-1]} extractors={rows['extractors'][-1]}"
    for name, counts in rows.items():
        yield f"{name}: min={min(counts)} max={max(counts)} avg={sum(counts) / len(counts):.2f}"
