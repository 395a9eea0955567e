"""One episode as a pure function of its job, and many of them side by side in processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.evaluate.seats import Faults, Seat, told
from rewardlab.cogs.missions import Mission
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.make import make_policy
from rewardlab.cogs.policies.spec import parse_policy
from rewardlab.cogs.render.replay import ReplayWriter
from rewardlab.cogs.render.scene import Infos, play
from rewardlab.cogs.render.session import LiveSession
from rewardlab.cogs.simulation import Simulation


@dataclass(frozen=True)
class Job:
    """Everything that an episode follows from: policies as typed, and which agents each plays."""

    mission: Mission
    policies: tuple[str, ...]
    agents: tuple[tuple[int, ...], ...]
    seed: int
    map_seed: int
    timeout: float | None = None  # seconds that an action may take
    device: str = "cpu"
    replays: Path | None = None  # where the replay is written


@dataclass(frozen=True)
class Result:
    """What came of an episode."""

    agents: tuple[tuple[int, ...], ...]
    rewards: tuple[float, ...]  # per agent
    steps: int
    agent_stats: tuple[dict[str, float], ...]
    team_stats: dict[str, dict[str, float]]
    game_stats: dict[str, float]
    faults: tuple[Faults, ...]  # per policy
    replay: Path | None = None


class Cast:
    """The policies of an episode in their seats (None: it plays no cog); decides for all cogs at once."""

    def __init__(self, cogs: int, seats: Sequence[Seat | None]) -> None:
        self.cogs, self.of_policy = cogs, tuple(seats)
        self.seats = [seat for seat in seats if seat is not None]

    @classmethod
    def of(cls, job: Job, strict: bool = False) -> Cast:
        """The policies that a job names."""
        info = PolicyEnvInterface.from_rules(job.mission.rules)
        named = zip(job.policies, job.agents, strict=True)
        seats = [
            Seat(_made(text, info, job.device), agents, parse_policy(text).name, job.timeout, strict)
            if agents
            else None
            for text, agents in named
        ]
        return cls(job.mission.rules.num_agents, seats)

    def begin(self, observations: Any) -> None:
        """Before the first step."""
        for seat in self.seats:
            seat.begin(observations)

    def decide(self, observations: Any) -> tuple[Any, Infos]:
        """Everybody's action, and what the policies say about each cog."""
        actions = np.zeros(self.cogs, np.int32)
        infos: list[dict[str, Any]] = [{} for _ in range(self.cogs)]
        for seat in self.seats:
            actions[list(seat.agents)] = seat.act(observations)
            for agent, said in zip(seat.agents, seat.infos(), strict=True):
                infos[agent] = said
        return actions, tuple(infos)

    def faults(self) -> tuple[Faults, ...]:
        """What went wrong with each policy of the job."""
        return tuple(seat.faults if seat is not None else Faults() for seat in self.of_policy)

    def names(self) -> tuple[str, ...]:
        """The policy of each cog."""
        names = [""] * self.cogs
        for seat in self.seats:
            for agent in seat.agents:
                names[agent] = seat.name
        return tuple(names)

    def close(self) -> None:
        """Let go of the policies."""
        for seat in self.seats:
            seat.close()


def _made(text: str, info: PolicyEnvInterface, device: str) -> Any:
    """A policy, or a sentence why there is none: its constructor is a stranger's code."""
    try:
        return make_policy(text, info, device)
    except CogsError:
        raise
    except Exception as error:
        raise CogsError(f"Policy {text!r} fails while it is made: {told(error)}.") from error


def play_job(job: Job) -> Result:
    """Play an episode to its end."""
    return play_cast(job, Cast.of(job))


def play_cast(job: Job, cast: Cast) -> Result:
    """Play an episode to its end with policies that sit already; they are let go."""
    try:
        simulation = Simulation(job.mission, seed=job.seed, map_seed=job.map_seed)
        cast.begin(simulation.observations)
        replay = None
        if job.replays is not None:
            session = LiveSession(simulation, cast.decide, seed=job.seed, policies=cast.names())
            writer = ReplayWriter(job.replays)
            play(session, writer)
            replay = writer.path
        else:
            while not simulation.done:
                simulation.step(cast.decide(simulation.observations)[0])
        stats = simulation.stats()
        rewards = tuple(float(reward) for reward in simulation.episode_rewards)
        return Result(
            job.agents,
            rewards,
            simulation.step_count,
            tuple(stats["agent"]),
            stats["collective"],
            stats["game"],
            cast.faults(),
            replay,
        )
    finally:
        cast.close()


def play_jobs(
    jobs: Sequence[Job], processes: int = 1, prepare: Callable[[], None] | None = None
) -> Iterator[tuple[int, Result]]:
    """Each job's number and result as they come; `prepare` is called first in every process."""
    if processes <= 1 or len(jobs) <= 1:
        yield from ((i, play_job(job)) for i, job in enumerate(jobs))
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy JAX's locks without the threads that open them
    with ProcessPoolExecutor(min(processes, len(jobs)), context, prepare) as pool:
        try:
            yield from enumerate(pool.map(play_job, jobs))
        except BrokenProcessPool as error:
            raise CogsError("A process that played episodes died: play with --processes 1 to see where.") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
