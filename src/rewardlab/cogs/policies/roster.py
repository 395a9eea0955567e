"""The policies that can be called by name. Crews differ by their settings only."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.policies import mlp as mlp
from rewardlab.cogs.policies import simple as simple
from rewardlab.cogs.policies.api import PolicyEnvInterface, Structures
from rewardlab.cogs.policies.beliefs import of_words
from rewardlab.cogs.policies.crew import Crew
from rewardlab.cogs.policies.role_py import Scripted, told
from rewardlab.cogs.policies.settings import ALIGNER, MINER, ROLES, SCOUT, SCRAMBLER, Settings
from rewardlab.cogs.policies.vector import VectorMultiAgentPolicy, VectorPolicy
from rewardlab.cogs.policies.vision import Memory
from rewardlab.cogs.rules import MAX_COGS

COUNTS = ("miner", "scout", "aligner", "scrambler", "gear")  # the order in which ranks are given roles
EVOLVED = 10  # steps between two changes of role with evolution=1


def role_settings(**arguments: Any) -> Settings:
    """`miner=4&scout=2&…`: so many cogs of fixed roles; `gear` and all further cogs are free.

    `role_cycle=miner,scout` gives all cogs roles in turn, `role_order=miner,scout` one each and leaves the rest free;
    `evolution=1` lets free cogs change roles sooner.
    """
    counts = {name: _whole(name, arguments.pop(name), MAX_COGS) for name in COUNTS if name in arguments}
    cycle, order = (_roles(name, arguments.pop(name, "")) for name in ("role_cycle", "role_order"))
    evolution = _whole("evolution", arguments.pop("evolution", 0))
    if arguments:
        name = next(iter(arguments))
        raise unknown("argument", name, (*COUNTS, "role_cycle", "role_order", "evolution"))
    if sum(map(bool, (sum(counts.values()) - counts.get("gear", 0), cycle, order))) > 1:
        raise CogsError("Give roles by counts (miner=4), by role_cycle or by role_order, not by two of them.")
    fixed = tuple(ROLES.index(name) for name in COUNTS[:-1] for _ in range(counts.get(name, 0)))
    fixed = fixed or order or tuple(cycle[i % len(cycle)] for i in range(MAX_COGS) if cycle)
    return Settings(fixed=fixed, cooldown=EVOLVED, plan_every=EVOLVED) if evolution else Settings(fixed=fixed)


def _whole(name: str, value: Any, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CogsError(f"The argument {name} is {value!r}: a whole number from 0 is needed.")
    if most is not None and value > most:
        raise CogsError(f"The argument {name} is {value}: there are never more than {most} cogs.")
    return value


def _roles(name: str, value: Any) -> tuple[int, ...]:
    names = [part.strip() for part in str(value).split(",") if part.strip()]
    for part in names:
        if part not in ROLES:
            raise unknown(f"role in {name}", part, ROLES)
    return tuple(ROLES.index(part) for part in names)


class RolePy(Scripted):
    """Four roles around one shared map, in plain Python: role?miner=4&scout=2&aligner=2&scrambler=2&gear=N."""

    short_names: ClassVar[list[str] | None] = ["role_py"]

    @classmethod
    def settings(cls, **kwargs: Any) -> Settings:
        """By the counts given, else all free."""
        return role_settings(**kwargs)

    @classmethod
    def vector(cls, info: PolicyEnvInterface, agents: int | None = None, **kwargs: Any) -> VectorPolicy:
        """The same decisions in JAX."""
        return Crew(info, cls.settings(**kwargs), agents)


class Role(VectorMultiAgentPolicy):
    """Four roles around one shared map, compiled: the twin of role_py, with the same arguments."""

    short_names: ClassVar[list[str] | None] = ["role"]
    _told: Structures
    _told_at = -1
    twin = RolePy

    @classmethod
    def vector(cls, info: PolicyEnvInterface, agents: int | None = None, **kwargs: Any) -> VectorPolicy:
        """The crew that the arguments ask for."""
        return RolePy.vector(info, agents, **kwargs)

    def structures(self, agent_id: int) -> Structures | None:
        """The map that all share."""
        if self._state is None:
            return {}
        if self._told_at != self._step:
            self._told, self._told_at = of_words(np.asarray(self._state.planes[0])), self._step
        return self._told

    def tell(self, agents: int, state: Memory) -> None:
        """Roles, purposes and targets."""
        columns = (np.asarray(column[0]).tolist() for column in (state.role, state.mode, state.target))
        for agent_id, (role, mode, target) in enumerate(zip(*columns, strict=True)):
            self.agent_policy(agent_id).infos = told(role, mode, target)


class CogsGuard(RolePy):
    """All cogs free to take the role that is wanted most: cogsguard?gear=10."""

    short_names: ClassVar[list[str] | None] = ["cogsguard"]


class Teacher(RolePy):
    """The same crew; each cog's first action shows its role as its vibe."""

    short_names: ClassVar[list[str] | None] = ["teacher"]


class _FixedCrew(RolePy):
    """A crew that takes no arguments."""

    crew: ClassVar[Settings]

    @classmethod
    def settings(cls, **kwargs: Any) -> Settings:
        """Always the same."""
        if kwargs:
            raise CogsError(f"Policy {cls.__name__} takes no argument {', '.join(map(repr, kwargs))}.")
        return cls.crew


class Miner(_FixedCrew):
    """All cogs mine and deposit."""

    short_names: ClassVar[list[str] | None] = ["miner"]
    crew = Settings(fixed=(MINER,) * MAX_COGS)


class Scout(_FixedCrew):
    """All cogs explore; what is seen they share, so that nobody looks where another has."""

    short_names: ClassVar[list[str] | None] = ["scout"]
    crew = Settings(fixed=(SCOUT,) * MAX_COGS, scout_gear=True)


class Aligner(_FixedCrew):
    """All cogs align junctions; without hearts they mine for them by hand."""

    short_names: ClassVar[list[str] | None] = ["aligner"]
    crew = Settings(fixed=(ALIGNER,) * MAX_COGS)


class Scrambler(_FixedCrew):
    """All cogs look for the clips' junctions and scramble them."""

    short_names: ClassVar[list[str] | None] = ["scrambler"]
    crew = Settings(fixed=(SCRAMBLER,) * MAX_COGS)


class Baseline(_FixedCrew):
    """Gathers by hand, delivers and makes hearts, as before there were junctions: aligns nothing."""

    short_names: ClassVar[list[str] | None] = ["baseline"]
    crew = Settings(fixed=(MINER,) * MAX_COGS, assemble=True, show_vibe=False)


class CogsGuardV2(_FixedCrew):
    """A fixed mix: 2 scramblers, 2 aligners, 1 scout, the rest miners."""

    short_names: ClassVar[list[str] | None] = ["cogsguard_v2"]
    crew = Settings(
        fixed=(MINER, ALIGNER, MINER, ALIGNER, SCRAMBLER, SCOUT, MINER, SCRAMBLER, *(MINER,) * (MAX_COGS - 8))
    )


class Wombo(_FixedCrew):
    """Generalists that never show a vibe; half of them start as miners."""

    short_names: ClassVar[list[str] | None] = ["wombo"]
    crew = Settings(opening=(MINER, ALIGNER, MINER, ALIGNER, MINER, SCOUT, SCRAMBLER, MINER), show_vibe=False)


class CogsGuardControl(_FixedCrew):
    """A leader that plans anew every 40 steps, with two scouts until all is explored and three aligners."""

    short_names: ClassVar[list[str] | None] = ["cogsguard_control"]
    crew = Settings(scouts=2, aligners=3)


class CogsGuardTargeted(_FixedCrew):
    """Plans anew every 25 steps; every cog has a target of its own, and miners take elements in turn."""

    short_names: ClassVar[list[str] | None] = ["cogsguard_targeted"]
    crew = Settings(plan_every=25)
