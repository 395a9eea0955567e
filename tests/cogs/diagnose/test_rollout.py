"""The rollout's checks: a sound crew passes all of them, and for each there is a crew that fails it."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from rewardlab.cogs.diagnose import audit as auditing
from rewardlab.cogs.diagnose import parity
from rewardlab.cogs.diagnose.rollout import Rollout, report, roll
from rewardlab.cogs.diagnose.witness import Witness
from rewardlab.cogs.evaluate.episode import Job
from rewardlab.cogs.missions import make_mission
from rewardlab.cogs.policies import settings
from rewardlab.cogs.policies.api import PolicyRegistryMeta, Structures
from rewardlab.cogs.policies.roster import RolePy
from rewardlab.cogs.rules import ACTIONS

CREW = "miner=4&scout=2&aligner=2&scrambler=2"
COGS, STEPS, SEED = 10, 200, 42


class Broken(RolePy):
    """The crew with one thing spoilt: what it says it knows, or what it does."""

    short_names: ClassVar[list[str] | None] = ["broken_for_tests"]
    knows: ClassVar[Callable[[Structures], Structures]] = staticmethod(lambda known: known)
    idle_in: ClassVar[int | None] = None  # a mode in which it does nothing
    shows: ClassVar[tuple[str, str] | None] = None  # a role that wears another's vibe
    stutters: ClassVar[bool] = False  # whether aligners use again what they have just aligned
    last: Any = ()  # the actions before these

    @classmethod
    def settings(cls, **kwargs: Any) -> settings.Settings:
        return dataclasses.replace(super().settings(**kwargs), show_vibe=cls.shows is None)

    def structures(self, agent_id: int) -> Structures | None:
        return type(self).knows(super().structures(agent_id) or {})

    def step_batch(self, raw_observations: Any, raw_actions: Any) -> None:
        hearts = {i: cog.hearts for i, cog in self.team.cogs.items()}
        super().step_batch(raw_observations, raw_actions)
        for i, cog in self.team.cogs.items():
            if self.idle_in is not None and cog.mode == self.idle_in and 1 <= raw_actions[i] <= 4:
                raw_actions[i] = 0
            role = settings.ROLES[cog.role]
            if self.shows and self.team.step == 0:  # its own vibes are off: it would put them right again
                raw_actions[i] = ACTIONS.index(f"change_vibe_{self.shows[1] if role == self.shows[0] else role}")
            if self.stutters and cog.sight.held["heart"] < hearts.get(i, 0) and cog.role == settings.ALIGNER:
                raw_actions[i] = self.last[i]
        self.last = np.array(raw_actions)


@pytest.fixture
def spoilt() -> Iterator[type[Broken]]:
    """The class, sound again afterwards."""
    assert PolicyRegistryMeta.registry["broken_for_tests"] is Broken
    before = (Broken.knows, Broken.idle_in, Broken.shows, Broken.stutters)
    yield Broken
    Broken.knows, Broken.idle_in, Broken.shows, Broken.stutters = (staticmethod(before[0]), *before[1:])


def rolled(policy: str) -> Rollout:
    mission = make_mission("cogsguard_arena", cogs=COGS, steps=STEPS)
    tally = Rollout()
    for _, tally in roll(Witness(Job(mission, (policy,), (tuple(range(COGS)),), SEED, SEED))):  # noqa: B007
        pass
    return tally


def test_a_sound_crew_passes_every_check() -> None:
    tally = rolled(f"role_py?{CREW}")
    assert tally.failures() == []
    lines = "\n".join(report(tally))
    assert tally.steps == STEPS
    assert len(tally.hubs_seen) == COGS
    assert tally.tagged > 100
    assert "observed roles: miner, scout, aligner, scrambler" in lines
    assert sum(tally.acquired.values()) == COGS  # one piece of gear each
    assert "gear_acquired: 10" in lines
    assert len(tally.role_counts) == STEPS


def without_hub(known: Structures) -> Structures:
    return {cell: thing for cell, thing in known.items() if thing[0] != "c:hub"}


def lost_owner(known: Structures) -> Structures:
    return {cell: (kind, None) for cell, (kind, _) in known.items()}


def all_hostile(known: Structures) -> Structures:
    return {cell: (kind, owner or "enemy") for cell, (kind, owner) in known.items()}


def hardly_any(known: Structures) -> Structures:
    return dict([item for item in known.items() if item[1][0] == "c:hub"][:1])


@pytest.mark.parametrize(
    ("knows", "told"),
    [
        (without_hub, "saw their hub and did not register it"),
        (lost_owner, "believed to be somebody else's"),
        (all_hostile, "neutral junctions are believed to be the clips'"),
        (hardly_any, "no scout knew 5 structures"),
    ],
)
def test_a_crew_that_believes_wrong_things_fails(spoilt: type[Broken], knows: Any, told: str) -> None:
    spoilt.knows = staticmethod(knows)
    failures = rolled(f"broken_for_tests?{CREW}").failures()
    assert any(told in failure for failure in failures), failures
    assert len(failures) <= 2  # what belongs to somebody else may be flagged as the clips' as well


@pytest.mark.parametrize(
    ("crew", "told"),
    [("miner=5&aligner=3&scrambler=2", "no cog was a scout"), ("scout=4&aligner=3&scrambler=3", "no cog was a miner")],
)
def test_a_missing_role_fails_unless_it_is_allowed(crew: str, told: str) -> None:
    tally = rolled(f"role_py?{crew}")
    assert told in tally.failures()
    assert tally.failures(allow_missing_roles=True) == []


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (settings.EXTRACT, "no miner mined anything"),
        (settings.DEPOSIT, "no miner deposited anything"),
        (settings.ALIGN, "no aligner aligned anything"),
        (settings.SCRAMBLE, "no scrambler scrambled anything"),
    ],
)
def test_a_crew_that_never_does_its_work_fails(spoilt: type[Broken], mode: int, told: str) -> None:
    spoilt.idle_in = mode
    assert told in rolled(f"broken_for_tests?{CREW}").failures()


@pytest.mark.parametrize(
    ("shows", "told"),
    [
        (("aligner", "miner"), "miners used"),
        (("scrambler", "aligner"), "aligners used"),
        (("aligner", "scrambler"), "scramblers used"),
    ],
)
def test_a_cog_that_uses_what_its_role_cannot_fails(spoilt: type[Broken], shows: tuple[str, str], told: str) -> None:
    spoilt.shows = shows
    failures = rolled(f"broken_for_tests?{CREW}").failures()
    assert any(failure.startswith(told) and "cannot use" in failure for failure in failures), failures


def test_an_aligner_that_uses_its_own_junctions_fails(spoilt: type[Broken]) -> None:
    spoilt.stutters = True
    failures = rolled(f"broken_for_tests?{CREW}").failures()
    assert any("junctions of their own team for nothing" in failure for failure in failures), failures


def test_parity_of_a_policy_with_itself_is_exact() -> None:
    mission = make_mission("cogsguard_arena", cogs=COGS, steps=STEPS)
    job = Job(mission, (f"role_py?{CREW}",), (tuple(range(COGS)),), SEED, SEED)
    first, second = (parity.count(Witness(job)) for _ in range(2))
    assert first.counts == second.counts
    assert first.total == STEPS * COGS
    assert first.moves == sum(first.counts[name] for name in ("move_north", "move_south", "move_west", "move_east"))
    lines = list(parity.report(("a", "b"), (first, second), 3, 2))
    assert lines[-1].endswith("+0 (+0.00 points)")


def test_an_audit_traces_and_sums_up() -> None:
    mission = make_mission("cogsguard_arena", cogs=2, steps=60)
    job = Job(mission, ("role_py?miner=1&scout=1",), ((0, 1),), SEED, SEED)
    lines = list(auditing.audit(Witness(job), 20))
    assert [line.split(":")[0] for line in lines[:6:2]] == ["step 20", "step 40", "step 60"]
    assert "roles miner=1 scout=1 aligner=0 scrambler=0" in lines[0]
    assert lines[-1].startswith("extractors: min=")
