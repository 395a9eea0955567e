"""An episode watched from outside: what every cog did to which object, told by the engine's own state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewardlab.cogs.evaluate.episode import Cast, Job
from rewardlab.cogs.policies.api import MultiAgentPolicy
from rewardlab.cogs.rules import ACTIONS, ELEMENTS, GEAR, MOVES
from rewardlab.cogs.simulation import AgentView, ObjectView, Simulation

Cell = tuple[int, int]


@dataclass(frozen=True)
class Deed:
    """What one cog did in a step, and the object that it walked into, as it stood before."""

    agent: AgentView  # before the step
    after: AgentView
    action: str
    success: bool
    used: ObjectView | None

    @property
    def role(self) -> str | None:
        """What the cog says it is (its vibe), else what it wears."""
        if self.agent.vibe in GEAR:
            return self.agent.vibe
        return next((gear for gear in GEAR if self.agent.inventory.get(gear)), None)

    @property
    def own(self) -> bool:
        """Whether the object belongs to the cog's team."""
        return self.used is not None and self.used.owner == self.agent.team

    @property
    def cargo(self) -> int:
        """Elements that the cog carried."""
        return sum(self.agent.inventory.get(name, 0) for name in ELEMENTS)

    def gained(self, resource: str) -> int:
        """How much more of a resource the cog has after the step."""
        return self.after.inventory.get(resource, 0) - self.agent.inventory.get(resource, 0)


@dataclass(frozen=True)
class Moment:
    """One step of an episode that is watched."""

    step: int
    deeds: tuple[Deed, ...]
    objects: dict[Cell, ObjectView]  # before the step
    store: dict[str, int]  # of the first team, after it


class Witness:
    """Plays an episode of one policy and tells every step of it."""

    def __init__(self, job: Job) -> None:
        self.simulation = Simulation(job.mission, seed=job.seed, map_seed=job.map_seed)
        self.cast = Cast.of(job, strict=True)
        self.cast.begin(self.simulation.observations)
        self.team = self.simulation.rules.teams[0].name

    @property
    def policy(self) -> MultiAgentPolicy:
        """The policy that plays."""
        return self.cast.seats[0].policy

    def moments(self) -> Iterator[Moment]:
        """Step by step to the end."""
        simulation = self.simulation
        try:
            while not simulation.done:
                before = simulation.agents()
                objects = {(thing.row, thing.col): thing for thing in simulation.objects()}
                actions = self.cast.decide(simulation.observations)[0]
                seen = simulation.step(actions)
                after = simulation.agents()
                deeds = tuple(
                    Deed(
                        agent,
                        after[i],
                        ACTIONS[actions[i]],
                        bool(seen.success[i]),
                        self._used(agent, actions[i], objects),
                    )
                    for i, agent in enumerate(before)
                )
                yield Moment(simulation.step_count, deeds, objects, simulation.stores()[self.team])
        finally:
            self.cast.close()

    @staticmethod
    def _used(agent: AgentView, action: int, objects: dict[Cell, ObjectView]) -> ObjectView | None:
        """The object on the cell that a move leads to."""
        way = MOVES.get(ACTIONS[action])
        return None if way is None else objects.get((agent.row + way[0], agent.col + way[1]))
