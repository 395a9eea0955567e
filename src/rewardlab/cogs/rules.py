"""The rules of CoGsGuard as data (cogames 0.3.68): resources, limits, prices, areas, events, difficulties, names.

The engine holds no number of the game; what a mission, difficulty or variant changes is a field here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from rewardlab.cogs.errors import CogsError, unknown

RESOURCES = (
    *("energy", "heart", "hp", "influence", "solar"),
    *("oxygen", "carbon", "germanium", "silicon"),
    *("aligner", "scrambler", "miner", "scout"),
)
ELEMENTS = RESOURCES[5:9]
GEAR = RESOURCES[9:13]
STORED = (*ELEMENTS, "heart")  # what a team's store holds
INDEX = {name: i for i, name in enumerate(RESOURCES)}

VIBES = ("default", "heart", "gear", "scrambler", "aligner", "miner", "scout")
MOVES = {"move_north": (-1, 0), "move_south": (1, 0), "move_west": (0, -1), "move_east": (0, 1)}
ACTIONS = ("noop", *MOVES, *(f"change_vibe_{vibe}" for vibe in VIBES))

STATIONS = tuple(f"c:{gear}" for gear in GEAR)
EXTRACTORS = tuple(f"{element}_extractor" for element in ELEMENTS)
# The code of a kind is its place here; agent `i` is FIRST_AGENT + i.
KINDS = ("empty", "wall", "junction", "c:hub", "c:chest", *STATIONS, *EXTRACTORS)
CODE = {name: i for i, name in enumerate(KINDS)}
VOID = 31  # beyond the edge of the map
FIRST_AGENT = 32

NEUTRAL, CLIPS, FIRST_TEAM = 0, 1, 2  # owners; team `i` is FIRST_TEAM + i
MAX_COGS = 20

Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Limit:
    """How much of some resources together an agent can hold: min(most, max(least, Σ modifier·held))."""

    resources: tuple[str, ...]
    least: int
    modifiers: Amounts = ()
    most: int | None = None


LIMITS = (
    Limit(("hp",), 100, (("scout", 400), ("scrambler", 200))),
    Limit(GEAR, 0, (("hp", 100),), most=1),
    Limit(("heart",), 0, (("hp", 100),), most=10),
    Limit(("energy",), 20, (("scout", 100),)),
    Limit(ELEMENTS, 4, (("miner", 40),)),
    Limit(("influence",), 0, (("aligner", 20),)),
)


@dataclass(frozen=True)
class Area:
    """What a hub or a held junction does each step to agents within a Chebyshev distance."""

    radius: int = 10
    own: Amounts = (("influence", 10), ("energy", 100), ("hp", 100))
    enemy: Amounts = (("hp", -1), ("influence", -100))


@dataclass(frozen=True)
class Clips:
    """The clips' timed events; `until` is the last step on which they happen (None: to the end).

    On hard the first invasion draws twice, independently (measured: the re-invasion of the same step fires as well); on
    medium once. A draw is over all junctions, so two may coincide.
    """

    enabled: bool = True
    first_draws: int = 2
    start: int = 10
    return_every: int = 200
    neutralise_start: int = 50
    align_start: int = 100
    every: int = 100
    radius: int = 25
    until: int | None = None


@dataclass(frozen=True)
class Weather:
    """Solar income: up when a day starts, down at dusk. The day of step 0 starts in the first step."""

    day_length: int = 200
    change: int = 2


@dataclass(frozen=True)
class Reward:
    """A shaping reward: weight × statistic, bounded in sum by `most` (its sign is the weight's), paid as it changes."""

    stat: str
    weight: float
    most: float | None = None
    of_team: bool = False


def _milestones() -> tuple[Reward, ...]:
    most = 100  # junctions, an upper bound for most maps
    return (
        Reward("aligned.junction", 1.0, 1.0 * most, of_team=True),
        Reward("junction.scrambled_by_agent", 0.5, 0.5 * most),
        Reward("junction.aligned_by_agent", 1.0, 1.0 * most),
    )


def _credit() -> tuple[Reward, ...]:
    gear = (("aligner", 0.2, 0.4), ("scrambler", 0.2, 0.4))
    return (
        Reward("heart.gained", 0.05, 0.5),
        *(Reward(f"{name}.gained", weight, most) for name, weight, most in gear),
        *(Reward(f"{name}.lost", -weight, -most) for name, weight, most in gear),
        *(Reward(f"{name}.gained", 0.001, 0.1) for name in ELEMENTS),
        *(Reward(f"{name}.deposited", 0.002, 0.2, of_team=True) for name in ELEMENTS),
    )


REWARD_VARIANTS: dict[str, tuple[Reward, ...]] = {
    "objective": (),
    "no_objective": (),
    "milestones": _milestones(),
    "credit": _credit(),
    "penalize_vibe_change": (Reward("action.change_vibe.success", -0.01),),
}


@dataclass(frozen=True)
class Team:
    """A collective of agents with one store."""

    name: str = "cogs"
    size: int = 8


DIFFICULTIES: dict[str, Clips] = {
    "easy": Clips(enabled=False),
    "medium": Clips(first_draws=1, until=300),
    "hard": Clips(),
}
DEFAULT_DIFFICULTY = "hard"


@dataclass(frozen=True)
class Rules:
    """Everything that an episode's course depends on besides its map."""

    teams: tuple[Team, ...] = (Team(),)
    max_steps: int = 1000
    clips: Clips = DIFFICULTIES[DEFAULT_DIFFICULTY]
    weather: Weather = Weather()
    limits: tuple[Limit, ...] = LIMITS
    drop_order: tuple[str, ...] = ("silicon", "germanium", "carbon", "oxygen")  # when a cargo cap falls
    initial: Amounts = (("energy", 100), ("hp", 50), ("solar", 1))
    hp_per_tick: int = -1
    influence_per_tick: int = -1
    move_cost: int = 4
    area: Area = Area()
    deposit: int = 100  # of each element, per use
    extractor_amount: int = 100
    extract: int = 1
    extract_with_miner: int = 10
    heart_cost: Amounts = tuple((element, 10) for element in ELEMENTS)
    gear_costs: tuple[tuple[str, Amounts], ...] = (
        ("aligner", (("carbon", 3), ("oxygen", 1), ("germanium", 1), ("silicon", 1))),
        ("scrambler", (("carbon", 1), ("oxygen", 3), ("germanium", 1), ("silicon", 1))),
        ("miner", (("carbon", 1), ("oxygen", 1), ("germanium", 3), ("silicon", 1))),
        ("scout", (("carbon", 1), ("oxygen", 1), ("germanium", 1), ("silicon", 3))),
    )
    align_needs: Amounts = (("aligner", 1), ("influence", 1), ("heart", 1))
    align_cost: Amounts = (("heart", 1),)
    scramble_needs: Amounts = (("scrambler", 1), ("heart", 1))
    scramble_cost: Amounts = (("heart", 1),)
    store: Amounts = (*((element, 10) for element in ELEMENTS), ("heart", 5))
    store_elements: int = 10_000  # all four together
    store_hearts: int = 65_535
    rewards: tuple[str, ...] = ("objective",)
    window: int = 11
    tokens: int = 200
    truncates: bool = False  # whether the time limit truncates (True) or terminates, as in the original

    def __post_init__(self) -> None:
        """Refuse what the engine cannot play."""
        cogs = sum(team.size for team in self.teams)
        if not 1 <= cogs <= MAX_COGS or any(team.size < 1 for team in self.teams):
            raise CogsError(f"An episode takes 1 to {MAX_COGS} cogs in all and at least 1 in a team, not {cogs}.")
        names = [team.name for team in self.teams]
        if len(set(names)) < len(names) or {"clips", "neutral"} & set(names):
            raise CogsError(f"Teams need names of their own, other than 'clips' and 'neutral': {', '.join(names)}.")
        if self.max_steps < 1:
            raise CogsError(f"An episode lasts 1 step at the least, not {self.max_steps}.")
        for name in self.rewards:
            if name not in REWARD_VARIANTS:
                raise unknown("reward variant", name, REWARD_VARIANTS)

    @property
    def num_agents(self) -> int:
        """Agents of all teams."""
        return sum(team.size for team in self.teams)

    @property
    def team_of(self) -> tuple[int, ...]:
        """The team of each agent, as an index into `teams`: agents are numbered team by team."""
        return tuple(chain.from_iterable([i] * team.size for i, team in enumerate(self.teams)))

    @property
    def objective(self) -> bool:
        """Whether held junctions are rewarded."""
        return "no_objective" not in self.rewards

    @property
    def shaping(self) -> tuple[Reward, ...]:
        """The shaping rewards in force."""
        return tuple(chain.from_iterable(REWARD_VARIANTS[name] for name in dict.fromkeys(self.rewards)))

    @property
    def collectives(self) -> tuple[str, ...]:
        """Owners' names, sorted: a `collective` token's value is an index into it. Without clips they are absent."""
        names = {team.name for team in self.teams} | {"neutral"} | ({"clips"} if self.clips.enabled else set())
        return tuple(sorted(names))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags' names, sorted: the value of a `tag` token is an index into it."""
        types = ("agent", *(kind for kind in KINDS if kind != "empty"))
        return tuple(sorted([*(f"collective:{team.name}" for team in self.teams), *(f"type:{name}" for name in types)]))

    def with_difficulty(self, name: str) -> Rules:
        """The same rules under another difficulty."""
        if name not in DIFFICULTIES:
            raise unknown("difficulty", name, DIFFICULTIES)
        return replace(self, clips=DIFFICULTIES[name])

    def with_cogs(self, cogs: int) -> Rules:
        """The same rules for one team of another size."""
        return replace(self, teams=(replace(self.teams[0], size=cogs), *self.teams[1:]))


@dataclass(frozen=True)
class TokenIds:
    """Feature ids of token observations: the original's 76, in its order.

    Ids 2–4, 7, 10, 16–25 and 68–75 are measured in the original; 0, 1, 5, 6, 8 and 9 follow its list of features. No
    recording shows the order of 11–15; here it is that of the rules' text.
    """

    names: tuple[str, ...] = field(
        default=(
            *("agent:group", "agent:frozen", "episode_completion_pct", "last_action", "last_reward"),
            *("goal", "vibe", "tag", "cooldown_remaining", "remaining_uses", "collective"),
            *("agent_id", "lp:east", "lp:west", "lp:north", "lp:south"),
            *chain.from_iterable((f"inv:{name}", f"inv:{name}:p1") for name in RESOURCES),
            *(f"protocol_input:{name}" for name in RESOURCES),
            *(f"protocol_output:{name}" for name in RESOURCES),
            *chain.from_iterable((f"inv:collective:{name}", f"inv:collective:{name}:p1") for name in ELEMENTS),
        )
    )

    def __getitem__(self, name: str) -> int:
        """The id of a feature."""
        return self.names.index(name)


FEATURES = TokenIds()
TOKEN_BASE = 256  # an amount of 256 or more takes a second token, `:p1`
GLOBAL_LOCATION, EMPTY_BYTE = 0xFE, 0xFF


def movement(width: int) -> tuple[int, ...]:
    """How far in a flat grid each action moves."""
    steps = [MOVES.get(action, (0, 0)) for action in ACTIONS]
    return tuple(row * width + column for row, column in steps)


def amounts(given: Amounts, names: Sequence[str] = RESOURCES) -> tuple[int, ...]:
    """Amounts in the order of `names`, zero where nothing is said."""
    known = dict(given)
    return tuple(known.get(name, 0) for name in names)
