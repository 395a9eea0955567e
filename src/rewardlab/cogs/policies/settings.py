"""What distinguishes the scripted policies from each other: their crews and habits, one frozen set of numbers each."""

from __future__ import annotations

from dataclasses import dataclass

from rewardlab.cogs.rules import GEAR, VIBES

ROLES = GEAR  # aligner, scrambler, miner, scout: a role is the place of its gear
ALIGNER, SCRAMBLER, MINER, SCOUT = range(4)
VIBE_OF_ROLE = tuple(VIBES.index(role) for role in ROLES)

# What a cog is about.
IDLE, STATION, CHEST, ALIGN, SCRAMBLE, EXTRACT, DEPOSIT, EXPLORE, RETREAT = range(9)
MODES = ("idle", "station", "chest", "align", "scramble", "extract", "deposit", "explore", "retreat")


@dataclass(frozen=True)
class Settings:
    """A crew. Roles are given by rank; cogs beyond the fixed ones are free: the coordinator chooses their roles."""

    fixed: tuple[int, ...] = ()  # the roles of the first ranks
    opening: tuple[int, ...] = (MINER, ALIGNER, MINER, ALIGNER, SCRAMBLER, SCOUT, MINER, MINER)  # of the free ones
    plan_every: int = 1  # steps between two changes of role
    cooldown: int = 40  # steps a free cog keeps its role
    aligners: int = 2
    rich: int = 30  # the least element in store from which more aligners are worth more than miners
    most_aligners: int = 5
    hearts: int = 4  # carried per trip
    show_vibe: bool = True


def role_of_rank(settings: Settings, rank: int) -> int:
    """The first role of a cog."""
    if rank < len(settings.fixed):
        return settings.fixed[rank]
    return settings.opening[(rank - len(settings.fixed)) % len(settings.opening)]
