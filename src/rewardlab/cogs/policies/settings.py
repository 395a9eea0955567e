"""What distinguishes the scripted policies from each other: their crews and habits, one frozen set of numbers each."""

from __future__ import annotations

from dataclasses import dataclass

from rewardlab.cogs.rules import ELEMENTS, GEAR, VIBES, Rules, amounts

ROLES = GEAR  # aligner, scrambler, miner, scout: a role is the place of its gear
ALIGNER, SCRAMBLER, MINER, SCOUT = range(4)
VIBE_OF_ROLE = tuple(VIBES.index(role) for role in ROLES)

# What a cog is about.
IDLE, STATION, CHEST, ALIGN, SCRAMBLE, EXTRACT, DEPOSIT, EXPLORE, RETREAT = range(9)
MODES = ("idle", "station", "chest", "align", "scramble", "extract", "deposit", "explore", "retreat")

# What scripted cogs know of the rules.
RULES = Rules()
COSTS = tuple(amounts(cost, ELEMENTS) for _, cost in RULES.gear_costs)  # in the order of ROLES
HEART_COST = RULES.heart_cost[0][1]
HEARTS_AT_START = dict(RULES.store)["heart"]
RADIUS = RULES.area.radius
FIRST_INFLUENCE = dict(RULES.area.own)["influence"]  # what a single step on own ground gives
MOVE_COST = RULES.move_cost
LOAD, BARE_LOAD = 40, 4
HP = (100, 200, 100, 400)  # caps by role, with its gear
ENERGY = (20, 20, 20, 100)
DAY, DUSK = 200, 100  # a day's length, and when its night begins

# Habits, chosen on other maps than those that scores are reported on.
BY_DAY, BY_NIGHT = 15, 8  # steps outside that 20 energy, the sun and 20 influence allow, and one for the use
SLACK = 30  # how much more of an element than of the scarcest may be stored and still be mined
ROOM = 5  # explorers keep this far from each other's goals
NEAR = 4  # miners stay this close to own ground where they can
HURT, HEALED = 60, 90  # hp: where a cog outside turns back, and until when
FORGET = 50  # steps after which a cell that refused a cog is tried again
DRAINED, RECOVER = 3, 200  # how far around a drained aligner no influence is expected, and for how many steps at most
PATIENCE, DETOUR, GIVE_WAY = 2, 6, 4  # steps: waiting, keeping around other cogs, waiting before stepping aside


@dataclass(frozen=True)
class Settings:
    """A crew. Roles are given by rank; cogs beyond the fixed ones are free: the coordinator chooses their roles."""

    fixed: tuple[int, ...] = ()  # the roles of the first ranks
    opening: tuple[int, ...] = (MINER, ALIGNER, SCOUT, MINER, SCRAMBLER, SCOUT, MINER, MINER)  # of the free ones
    plan_every: int = 40  # steps between two changes of role
    cooldown: int = 40  # steps a free cog keeps its role
    aligners: int = 2
    most_aligners: int = 5
    rich: int = 60  # of the scarcest element in store: for each such amount one more aligner
    scouts: int = 1
    scrambler_until_seen: int = 1  # scramblers kept while no enemy junction is known: they explore
    hearts: int = 4  # carried per trip
    scout_gear: bool = True  # whether scouts buy theirs
    show_vibe: bool = True
    assemble: bool = False  # miners buy no gear and take the hearts that the store can pay


def role_of_rank(settings: Settings, rank: int) -> int:
    """The first role of a cog."""
    if rank < len(settings.fixed):
        return settings.fixed[rank]
    return settings.opening[(rank - len(settings.fixed)) % len(settings.opening)]
