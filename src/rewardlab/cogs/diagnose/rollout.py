"""A short rollout with checks: does the crew find, take and use what its roles are for?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rewardlab.cogs.diagnose.witness import Cell, Deed, Moment, Witness
from rewardlab.cogs.rules import EXTRACTORS, GEAR, STATIONS, STORED

ROLES = ("miner", "scout", "aligner", "scrambler")
Prices = dict[str, dict[str, int]]
STRUCTURES_SEEN = 5  # that a scout must know in the end


@dataclass
class RoleTally:
    """What the cogs of one role did."""

    agents: set[int] = field(default_factory=set)
    gear_seen: int = 0  # steps in which one wore its gear
    attempts: int = 0  # uses of what the role is for
    mismatches: int = 0  # uses of something that it cannot use
    cogs_targets: int = 0  # uses of its own junction with nothing to deposit
    deposits: int = 0


@dataclass
class Rollout:
    """Everything that is counted; `failures` says what is wrong with it."""

    steps: int = 0
    hubs_seen: set[int] = field(default_factory=set)  # cogs that had their hub in view
    hubs_missing: set[int] = field(default_factory=set)  # of those, cogs whose policy does not know it
    tagged: int = 0  # junctions in view that were compared with what the policy believes
    mismatched: int = 0  # believed to belong to somebody else
    flagged: int = 0  # neutral, but believed to be the clips'
    roles: dict[str, RoleTally] = field(default_factory=lambda: {role: RoleTally() for role in ROLES})
    scouted: dict[int, set[Cell]] = field(default_factory=lambda: defaultdict(set))
    structures: dict[int, int] = field(default_factory=dict)  # most that a scout knew
    station_uses: Counter[str] = field(default_factory=Counter)
    acquired: Counter[str] = field(default_factory=Counter)
    with_resources: int = 0  # uses of a station that the team could pay
    without_resources: int = 0
    role_counts: list[dict[str, int]] = field(default_factory=list)  # per step
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)  # what an attempt lacked: gear, heart, influence
    windows: list[tuple[int, dict[str, int], dict[str, int]]] = field(default_factory=list)  # store and its change
    last_roles: dict[int, str] = field(default_factory=dict)
    last_store: dict[str, int] = field(default_factory=dict)

    def failures(self, allow_missing_roles: bool = False) -> list[str]:
        """What makes the exit status 1, a sentence each."""
        found = []
        if self.hubs_missing:
            found.append(f"cogs {sorted(self.hubs_missing)} saw their hub and did not register it")
        if self.mismatched:
            found.append(f"{self.mismatched} junctions are believed to be somebody else's")
        if self.flagged:
            found.append(f"{self.flagged} neutral junctions are believed to be the clips'")
        return found if allow_missing_roles else found + list(self._role_failures())

    def _role_failures(self) -> Iterator[str]:
        for role, tally in self.roles.items():
            if not tally.agents:
                yield f"no cog was a {role}"
        verbs = {"miner": "mined", "aligner": "aligned", "scrambler": "scrambled"}
        for role, verb in verbs.items():
            tally = self.roles[role]
            if not tally.attempts:
                yield f"no {role} {verb} anything"
            if tally.mismatches:
                yield f"{role}s used {tally.mismatches} objects that their role cannot use"
            if tally.cogs_targets:
                yield f"{role}s used {tally.cogs_targets} junctions of their own team for nothing"
        if not self.roles["miner"].deposits:
            yield "no miner deposited anything"
        if max(self.structures.values(), default=0) < STRUCTURES_SEEN:
            yield f"no scout knew {STRUCTURES_SEEN} structures"


def roll(witness: Witness, window: int = 50) -> Iterator[tuple[Moment, Rollout]]:
    """Play and count; the tally is the same object at every step."""
    tally, prices = Rollout(), {gear: dict(price) for gear, price in witness.simulation.rules.gear_costs}
    tally.last_store = witness.simulation.stores()[witness.team]
    for moment in witness.moments():
        tally.steps = moment.step
        for deed in moment.deeds:
            _count_role(tally, deed)
            _count_use(tally, deed, moment, prices)
            if deed.role == "scout":
                tally.scouted[deed.agent.id].add((deed.after.row, deed.after.col))
        _count_beliefs(tally, witness, moment)
        counts = Counter(deed.role for deed in moment.deeds)
        tally.role_counts.append({role: counts.get(role, 0) for role in ROLES})
        if moment.step % window == 0:
            change = {name: moment.store[name] - tally.last_store[name] for name in STORED}
            tally.windows.append((moment.step, moment.store, change))
            tally.last_store = moment.store
        yield moment, tally


def _count_role(tally: Rollout, deed: Deed) -> None:
    role = deed.role or "none"
    last = tally.last_roles.get(deed.agent.id)
    if last is not None and last != role:
        tally.transitions[last, role] += 1
    tally.last_roles[deed.agent.id] = role
    if role in tally.roles:
        tally.roles[role].agents.add(deed.agent.id)
        tally.roles[role].gear_seen += bool(deed.agent.inventory.get(role))


def _count_use(tally: Rollout, deed: Deed, moment: Moment, prices: Prices) -> None:
    """A cog walked into an object."""
    thing = deed.used
    if thing is None:
        return
    if thing.kind in STATIONS:
        _count_station(tally, deed, thing.kind.removeprefix("c:"), moment, prices)
    role = tally.roles.get(deed.role or "")
    if role is None:
        return
    deposited = deed.own and thing.kind in ("junction", "c:hub") and deed.cargo > 0
    role.deposits += deposited and deed.success
    if deed.role == "miner":
        role.attempts += thing.kind in EXTRACTORS
        role.mismatches += thing.kind == "junction" and not deed.own
    elif deed.role in ("aligner", "scrambler") and thing.kind == "junction" and not deposited:
        role.attempts += 1
        role.cogs_targets += deed.own
        wrong = thing.owner is not None if deed.role == "aligner" else thing.owner is None
        role.mismatches += wrong and not deed.own
        for name in ("influence", "heart", deed.role) if deed.role == "aligner" else ("heart", deed.role):
            tally.missing["gear" if name == deed.role else name] += not deed.agent.inventory.get(name)


def _count_station(tally: Rollout, deed: Deed, gear: str, moment: Moment, prices: Prices) -> None:
    tally.station_uses[gear] += 1
    if deed.agent.inventory.get(gear):
        return
    tally.acquired[gear] += deed.gained(gear) > 0
    paid = deed.gained(gear) > 0 or all(moment.store.get(name, 0) >= n for name, n in prices[gear].items())
    tally.with_resources += paid
    tally.without_resources += not paid


def _count_beliefs(tally: Rollout, witness: Witness, moment: Moment) -> None:
    """What is in view, against what the policy says it knows."""
    reach = witness.simulation.rules.window // 2
    hubs = [cell for cell, thing in moment.objects.items() if thing.kind == "c:hub" and thing.owner == witness.team]
    for deed in moment.deeds:
        here = deed.agent.row, deed.agent.col
        known = witness.policy.structures(deed.agent.id)
        if known is None or not hubs:
            continue
        home = min(hubs, key=lambda cell: max(abs(cell[0] - here[0]), abs(cell[1] - here[1])))
        for cell, thing in moment.objects.items():
            if max(abs(cell[0] - here[0]), abs(cell[1] - here[1])) > reach:
                continue
            believed = known.get((cell[0] - home[0], cell[1] - home[1]))
            if cell == home:
                tally.hubs_seen.add(deed.agent.id)
                if believed is None or believed[0] != "c:hub":
                    tally.hubs_missing.add(deed.agent.id)
            if thing.kind == "junction" and believed is not None:
                tally.tagged += 1
                owner = believed[1]
                tally.flagged += thing.owner is None and owner == "enemy"
                truth = None if thing.owner is None else "own" if thing.owner == witness.team else "enemy"
                tally.mismatched += owner != truth
        if deed.role == "scout":
            tally.structures[deed.agent.id] = max(tally.structures.get(deed.agent.id, 0), len(known))


def report(tally: Rollout) -> Iterator[str]:
    """The counts, line by line."""
    yield f"steps: {tally.steps}"
    yield f"hub: seen by {len(tally.hubs_seen)} cogs, missing for {len(tally.hubs_missing)}"
    yield f"tagged junction checks: {tally.tagged}, mismatches: {tally.mismatched}"
    yield f"neutral flagged clips: {tally.flagged}"
    yield f"observed roles: {', '.join(role for role in ROLES if tally.roles[role].agents) or 'none'}"
    words = {"miner": "mine", "aligner": "align", "scrambler": "scramble"}
    for role in ROLES:
        each = tally.roles[role]
        line = f"{role}: agents={len(each.agents)} gear_seen={each.gear_seen}"
        if role in words:
            verb = words[role]
            line += (
                f" {verb}_attempts={each.attempts} {verb}_mismatches={each.mismatches} cogs_targets={each.cogs_targets}"
            )
        yield f"{line} deposit_attempts={each.deposits}"
    cells = set().union(*tally.scouted.values()) if tally.scouted else set()
    yield f"scout unique positions: {len(cells)}, max_structures_seen: {max(tally.structures.values(), default=0)}"
    uses = " ".join(f"{gear}={tally.station_uses[gear]}" for gear in GEAR)
    yield f"gear: station_uses {uses}"
    yield f"gear_acquired: {sum(tally.acquired.values())} ({' '.join(f'{g}={tally.acquired[g]}' for g in GEAR)})"
    yield f"gear_attempts_with_resources: {tally.with_resources}"
    yield f"gear_attempts_without_resources: {tally.without_resources}"
    for step, store, change in tally.windows:
        yield f"resources at {step}: " + " ".join(f"{name}={store[name]} ({change[name]:+d})" for name in STORED)
    yield from roles_over_time(tally)
    yield "prereq missing: " + " ".join(f"{name}={tally.missing[name]}" for name in ("gear", "heart", "influence"))


def roles_over_time(tally: Rollout) -> Iterator[str]:
    """How many cogs were of each role, and how they changed."""
    for role in ROLES:
        counts = [each[role] for each in tally.role_counts]
        mean = sum(counts) / max(len(counts), 1)
        yield f"role {role}: min={min(counts, default=0)} max={max(counts, default=0)} avg={mean:.2f}"
    core: Any = [role for role in ROLES if role != "scout"]
    yield f"steps_with_all_roles: {sum(all(each.values()) for each in tally.role_counts)}"
    yield f"steps_with_core_roles: {sum(all(each[role] for role in core) for each in tally.role_counts)}"
    top = ", ".join(f"{a}→{b}: {n}" for (a, b), n in tally.transitions.most_common(5))
    yield f"top transitions: {top or 'none'}"
