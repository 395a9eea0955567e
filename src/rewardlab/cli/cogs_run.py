"""What `rewardlab cogs run`, `scrimmage`, `pickup`, `conform` and `bench` do; imported when called: it brings JAX."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardlab.cli.run import cache_folder
from rewardlab.cli.tables import emit, number, table
from rewardlab.cogs.conform import conform as replay_traces
from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.evaluate.episode import Job, Result, play_jobs
from rewardlab.cogs.evaluate.seats import assign
from rewardlab.cogs.evaluate.summary import summarise
from rewardlab.cogs.evaluate.vor import cogs_of, scenario, value_over_replacement
from rewardlab.cogs.missions import MISSIONS, SITES, Mission, find_evals, make_mission
from rewardlab.cogs.policies.spec import PolicyRequest, allocate, parse_policies, parse_policy
from rewardlab.cogs.speed import measure
from rewardlab.experiment import device

SET_COGS = 4  # the original's number for evaluation sets


@dataclass(frozen=True)
class Wanted:
    """Which missions are played, and with which seeds."""

    missions: Sequence[str]
    mission_set: str | None
    cogs: int | None
    variants: Sequence[str]
    difficulty: str | None
    steps: int | None
    seed: int
    map_seed: int | None

    def resolve(self) -> list[Mission]:
        """The missions, with what the command line changes."""
        if self.missions and self.mission_set:
            raise CogsError("Give missions (-m) or an evaluation set (-S), not both.")
        if self.mission_set:
            return [self._change(mission) for mission in find_evals(self.mission_set)]
        names = [name for wanted in self.missions or ["cogsguard_arena.basic"] for name in _matching(wanted)]
        change: Any = {"cogs": self.cogs, "variants": self.variants, "difficulty": self.difficulty, "steps": self.steps}
        return [make_mission(name, **change) for name in dict.fromkeys(names)]

    def _change(self, mission: Mission) -> Mission:
        """A member of a set as the command line wants it."""
        if self.difficulty is not None:
            mission = mission.with_difficulty(self.difficulty)
        mission = mission.with_variants(self.variants)
        if self.cogs is not None:
            mission = mission.with_cogs(self.cogs)
        return mission if self.steps is None else mission.with_steps(self.steps)


@dataclass(frozen=True)
class How:
    """How episodes are played and told."""

    device: str
    episodes: int
    timeout_ms: float
    output: str | None
    replays: Path | None
    processes: int

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise CogsError(f"At least one episode is needed, not {self.episodes}.")
        if not self.timeout_ms > 0:
            raise CogsError(f"--action-timeout-ms is {self.timeout_ms:g}: a time above 0 is needed.")

    def play(self, jobs: Sequence[Job], label: str) -> list[Result]:
        """Play jobs side by side, with a progress line."""
        processes = self.processes or min(device.available_cores(), len(jobs))
        results: list[Result | None] = [None] * len(jobs)
        with _progress(label, len(jobs)) as step:
            for i, result in play_jobs(jobs, processes, prepare):
                results[i] = result
                step()
        return [result for result in results if result is not None]

    def job(self, mission: Mission, names: Sequence[str], counts: Sequence[int], wanted: Wanted, episode: int) -> Job:
        """The job of an episode."""
        seed = wanted.seed + episode
        return Job(
            mission,
            tuple(names),
            tuple(map(tuple, assign(counts, episode, wanted.seed))),
            seed,
            seed if wanted.map_seed is None else wanted.map_seed,
            self.timeout_ms / 1000,
            self.device,
            self.replays,
        )


def prepare() -> None:
    """What every process that plays does first."""
    device.prepare(cache_folder())


def _matching(wanted: str) -> list[str]:
    """The missions that a name or pattern means."""
    if not set(wanted) & set("*?["):
        return [wanted]
    found = fnmatch.filter(MISSIONS, wanted) or [m for m in MISSIONS if fnmatch.fnmatch(MISSIONS[m].site, wanted)]
    if not found:
        raise unknown("mission", wanted, [*MISSIONS, *SITES])
    return found


@contextmanager
def _progress(label: str, total: int) -> Any:
    """A bar on stderr while somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def scrimmage(wanted: Wanted, policies: Sequence[str], how: How) -> None:
    """One policy, all cogs."""
    if len(policies) != 1:
        raise CogsError(f"A scrimmage is played by exactly one policy (-p), not {len(policies)}; `run` takes several.")
    if parse_policy(policies[0]).proportion != 1.0:
        raise CogsError("A scrimmage's policy plays all cogs: leave out its proportion, or use `run`.")
    run(wanted, policies, how)


def run(wanted: Wanted, policies: Sequence[str], how: How) -> None:
    """Every mission, all episodes, summed up."""
    if not policies:
        raise CogsError("No policy was named: give one or more with -p, such as -p role.")
    requests, missions = parse_policies(policies), wanted.resolve()
    prepare()
    summaries, results = [], []
    for mission in missions:
        counts = allocate([request.proportion for request in requests], mission.rules.num_agents)
        jobs = [how.job(mission, policies, counts, wanted, episode) for episode in range(how.episodes)]
        results.append(how.play(jobs, mission.full_name))
        summaries.append(summarise(mission.full_name, [request.name for request in requests], results[-1]))
    _tell_faults(summaries)
    if not emit({"missions": summaries}, how.output):
        _tables(summaries)
    if how.replays is not None:
        print(f"replays: {how.replays}", file=sys.stderr)
    _fail_if_useless(requests, results)


def _tell_faults(summaries: Sequence[Any]) -> None:
    """A line on stderr for each policy that failed somewhere."""
    for summary in summaries:
        for policy in summary["mission_summary"]["policy_summaries"]:
            counts = (policy["action_timeouts"], policy["action_errors"], policy["invalid_actions"])
            if any(counts):
                late, broken, nonsense = counts
                what = f"{late} actions too late, {broken} steps that raised, {nonsense} actions that do not exist"
                told = f"{summary['mission_name']}: policy {policy['policy_name']} failed: {what}; each is a noop"
                print(f"{told} (first: {policy['first_fault']})", file=sys.stderr)


def _fail_if_useless(requests: Sequence[PolicyRequest], missions: Sequence[Sequence[Result]]) -> None:
    """An error if a policy failed at every step it was asked: its figures say nothing about it."""
    for i, request in enumerate(requests):
        played = [(result.faults[i], result.steps, len(result.agents[i])) for results in missions for result in results]
        asked = sum(steps * agents for _, steps, agents in played)
        failed = sum(f.timeouts + f.nonsense + f.errors * agents for f, _, agents in played)
        if asked and failed >= asked:
            first = next(fault.first for fault, _, _ in played if fault.first)
            raise CogsError(f"Policy {request.text!r} never gave an action: {first}.")


def _tables(summaries: Sequence[Any]) -> None:
    """The same for people."""
    for summary in summaries:
        name, body = summary["mission_name"], summary["mission_summary"]
        policies = body["policy_summaries"]
        rows = [
            (
                p["policy_name"],
                p["agent_count"],
                p["avg_reward"],
                p["action_timeouts"],
                p["action_errors"],
                p["invalid_actions"],
            )
            for p in policies
        ]
        heads = ("policy", "cogs", "reward per cog", "timeouts", "errors", "invalid")
        table(f"{name}: {body['episodes']} episodes", heads, rows)
        for title, figures in body["avg_team_stats"].items():
            table(f"Team {title}, mean per episode", ("statistic", "mean"), list(figures.items()))
        names = sorted({metric for policy in policies for metric in policy["avg_agent_metrics"]})
        metrics = [(metric, *(p["avg_agent_metrics"].get(metric, 0.0) for p in policies)) for metric in names]
        table("Cogs, mean per cog and episode", ("statistic", *(p["policy_name"] for p in policies)), metrics)
        table("Game, mean per episode", ("statistic", "mean"), list(body["avg_game_stats"].items()))
        rewards = body["per_episode_per_policy_avg_rewards"]
        heads = ("episode", *(p["policy_name"] for p in policies))
        table("Reward per cog", heads, [(episode, *values) for episode, values in rewards.items()])


def pickup(wanted: Wanted, candidate: str, pool: Sequence[str], how: How) -> None:
    """The candidate among 0 to all cogs."""
    if not candidate or not pool:
        raise CogsError("A pickup needs a candidate (-p) and at least one policy of the pool (--pool).")
    names = (candidate, *pool)
    requests = parse_policies(names)
    (mission,) = wanted.resolve()
    prepare()
    cogs = mission.rules.num_agents
    plans = [(count, cogs_of(count, len(pool), cogs)) for count in range(cogs, -1, -1)]
    jobs = [how.job(mission, names, counts, wanted, e) for _, counts in plans for e in range(how.episodes)]
    results = how.play(jobs, f"{mission.full_name}: pickup")
    n = how.episodes
    parts = [results[i * n : (i + 1) * n] for i in range(len(plans))]
    scenarios = [scenario(count, part) for (count, _), part in zip(plans, parts, strict=True)]
    value, mine, theirs = value_over_replacement(scenarios)
    _tell_faults([summarise(mission.full_name, [r.name for r in requests], results)])
    shown: list[dict[str, Any]] = [
        {
            "candidates": s.candidates,
            "candidate_reward": _mean(s.candidate_rewards),
            "pool_reward": _mean(s.pool_rewards),
        }
        for s in scenarios
    ]
    content: dict[str, Any] = {
        "mission": mission.full_name,
        "candidate": candidate,
        "pool": list(pool),
        "scenarios": shown,
    }
    content |= {"candidate_mean": mine, "replacement_mean": theirs, "value_over_replacement": value}
    if not emit(content, how.output):
        rows = [(f"{s['candidates']} of {cogs}", s["candidate_reward"], s["pool_reward"]) for s in shown]
        heads = ("candidate's cogs", "its reward per cog", "the pool's")
        table(f"{mission.full_name}: {candidate} against {', '.join(pool)}", heads, rows)
        print(f"value over replacement: {number(value)} ({number(mine)} against {number(theirs)})")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def conform(folder: Path) -> None:
    """Replay traces; the exit status is 1 if anything differs."""
    prepare()
    found = replay_traces(folder)
    for difference in found.differences[:50]:
        print(difference)
    covered = (
        f"{found.traces} traces, {found.steps:,} steps, {found.observations:,} observations, {found.tokens:,} tokens"
    )
    print(f"{covered}: {len(found.differences)} differences")
    if found.differences:
        raise SystemExit(1)


def bench(envs: int | None, cogs: int, observation: str, seconds: float, as_json: bool) -> None:
    """The engine's speed."""
    prepare()
    row = measure(make_mission("cogsguard_arena.basic", cogs=cogs), observation, envs, seconds)
    if not emit(row, "json" if as_json else None):
        del row["repeats"]
        table("Speed with random actions", ("", " "), list(row.items()))
