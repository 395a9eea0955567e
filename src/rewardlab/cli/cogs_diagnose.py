"""What `rewardlab cogs rollout`, `parity`, `audit` and `diagnose` do; imported when called: it brings JAX."""

from __future__ import annotations

from collections.abc import Sequence

from rewardlab.cli.cogs_run import How, Wanted, prepare
from rewardlab.cli.tables import emit, table
from rewardlab.cogs.diagnose import audit as auditing
from rewardlab.cogs.diagnose import parity as comparing
from rewardlab.cogs.diagnose.rollout import ROLES, Rollout, report, roll
from rewardlab.cogs.diagnose.witness import Moment, Witness
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.evaluate.episode import Job, Result
from rewardlab.cogs.evaluate.seats import PATIENCE
from rewardlab.cogs.missions import find_evals, make_mission
from rewardlab.cogs.policies.spec import parse_policy
from rewardlab.cogs.rules import GEAR, STORED

ALIASES = {"thinky_evals": "diagnostic_evals", "tournament": "cogsguard_evals"}


def witness(policy: str, mission: str, agents: int, steps: int, seed: int) -> Witness:
    """An episode of one policy, ready to be watched; it stops after `steps`."""
    prepare()
    made = make_mission(mission, cogs=agents, steps=steps)
    return Witness(Job(made, (policy,), (tuple(range(agents)),), seed, seed, PATIENCE))


def rollout(
    policy: str,
    mission: str,
    agents: int,
    steps: int,
    seed: int,
    allow_missing: bool,
    traces: dict[str, tuple[int, int]],
) -> None:
    """Roll out, report, check: the exit status is 1 if a check fails."""
    tally = Rollout()
    told = dict.fromkeys(traces, 0)
    for moment, tally in roll(witness(policy, mission, agents, steps, seed)):  # noqa: B007 - the last one counts
        for kind, (every, limit) in traces.items():
            if moment.step % every == 0 and told[kind] < limit:
                told[kind] += 1
                print(_trace(kind, moment))
    for line in report(tally):
        print(line)
    failures = tally.failures(allow_missing)
    for failure in failures:
        print(f"FAILED: {failure}")
    if failures:
        raise SystemExit(1)
    print("passed")


def _trace(kind: str, moment: Moment) -> str:
    """A line of a trace that was asked for."""
    if kind == "roles":
        said = " ".join(f"{deed.agent.id}:{deed.role or 'none'}" for deed in moment.deeds)
    elif kind == "resources":
        said = " ".join(f"{name}={moment.store[name]}" for name in STORED)
    else:
        names = ("heart", "influence", "energy", "hp")
        said = " ".join(
            f"{deed.agent.id}:{next((g for g in GEAR if deed.after.inventory.get(g)), '-')}"
            + "".join(f",{name}={deed.after.inventory.get(name, 0)}" for name in names)
            for deed in moment.deeds
        )
    return f"trace {kind} {moment.step}: {said}"


def parity(
    names: tuple[str, str], mission: str, agents: int, steps: int, seed: int, top_actions: int, top_deltas: int
) -> None:
    """Two policies on the same episode."""
    first, second = (comparing.count(witness(name, mission, agents, steps, seed)) for name in names)
    for line in comparing.report(names, (first, second), top_actions, top_deltas):
        print(line)


def audit(policy: str, mission: str, agents: int, steps: int, seed: int, trace_every: int) -> None:
    """A running trace and its summary."""
    if trace_every < 1:
        raise CogsError(f"--trace-every is {trace_every}: 1 or more is needed.")
    for line in auditing.audit(witness(policy, mission, agents, steps, seed), trace_every):
        print(line, flush=True)


def diagnose(
    policy: str, mission_set: str, experiments: Sequence[str], cogs: Sequence[int], steps: int, how: How, seed: int
) -> None:
    """A policy on every mission of a set, with several team sizes: where it is good and where not."""
    name = parse_policy(policy).name
    members = find_evals(ALIASES.get(mission_set, mission_set))
    unknown = [
        each
        for each in experiments
        if each not in {m for mission in members for m in (mission.name, mission.full_name)}
    ]
    if unknown:
        there = ", ".join(mission.name for mission in members)
        raise CogsError(f"{mission_set} has no mission {unknown[0]!r}; there are {there}.")
    chosen = [m for m in members if not experiments or {m.name, m.full_name} & set(experiments)]
    prepare()
    rows = []
    for mission in chosen:
        for count in dict.fromkeys(cogs or (mission.rules.num_agents,)):
            sized = mission.with_cogs(count).with_steps(steps)
            wanted = Wanted([], None, None, [], None, None, seed, None)
            jobs = [how.job(sized, [policy], [count], wanted, episode) for episode in range(how.episodes)]
            rows.append(_figures(sized.full_name, count, how.play(jobs, f"{sized.full_name} ×{count}")))
    if not emit({"policy": name, "set": mission_set, "rows": rows}, how.output):
        table(f"{name} on {mission_set}", list(rows[0]), [list(row.values()) for row in rows])


def _figures(mission: str, cogs: int, results: Sequence[Result]) -> dict[str, str | float]:
    """The figures of a mission, means over episodes and cogs."""
    stats = [each for result in results for each in result.agent_stats]

    def mean(name: str) -> float:
        return sum(each.get(name, 0.0) for each in stats) / len(stats)

    moves = mean("action.move.success") + mean("action.move.failed")
    faults = sum(fault.timeouts + fault.errors + fault.nonsense for result in results for fault in result.faults)
    return {
        "mission": mission,
        "cogs": cogs,
        "reward per cog": sum(sum(result.rewards) / len(result.rewards) for result in results) / len(results),
        "hearts": mean("heart.gained"),
        "aligned": mean("junction.aligned_by_agent"),
        "scrambled": mean("junction.scrambled_by_agent"),
        "failed moves %": 100 * mean("action.move.failed") / moves if moves else 0.0,
        "longest rest": mean("status.max_steps_without_motion"),
        "gear": sum(mean(f"{gear}.gained") for gear in ROLES),
        "faults": faults,
    }
