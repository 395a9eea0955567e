"""The clips' clock: when events happen, whom they can hit, and how evenly."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.cogs.engine import Engine
from rewardlab.cogs.events import clips_changes, clips_due, near_clips
from rewardlab.cogs.maps.grid import from_ascii
from rewardlab.cogs.maps.pool import make_pool
from rewardlab.cogs.rules import CLIPS, FIRST_TEAM, NEUTRAL, Rules, Team
from rewardlab.cogs.state import State

# Junctions at columns 0, 19 and 59 of the line: the first two within 25 of each other, the third out of reach.
LINE = "\n".join(["J" + "." * 18 + "J" + "." * 39 + "J" + "....H", "@" + "." * 64])
ENVS = 3000


def lanes(rules: Rules, owners: tuple[int, int, int]) -> State:
    """Many equal environments whose three junctions have given owners."""
    pool, layout = make_pool([from_ascii(LINE)], rules)
    state = Engine(rules, pool, layout, "none").start(jnp.zeros(ENVS, jnp.int32))
    assert state.source_col[:, 0].tolist() == [5, 24, 64, 69]  # a wall and a margin of four are added
    return state._replace(owner=state.owner.at[jnp.arange(3)].set(jnp.asarray(owners)[:, None]))


def drawn(rules: Rules, owners: tuple[int, int, int], step: int, seed: int = 0) -> Any:
    """Per environment the set of (junction, new owner) that events of a step turn."""
    state = lanes(rules, owners)
    changes = clips_changes(rules, state, jnp.full(ENVS, step), jax.random.key(seed))
    things, new = np.asarray(changes.object), np.asarray(changes.owner)
    return [
        [(int(thing), int(owner)) for thing, owner in zip(things[:, e], new[:, e], strict=True) if thing >= 0]
        for e in range(ENVS)
    ]


ONE = Rules(teams=(Team(size=1),))


def steps_with(rules: Rules, which: int) -> list[int]:
    due = clips_due(rules, jnp.arange(1, 501))[which]
    return [int(step) for step in np.nonzero(np.asarray(due))[0] + 1]


def test_the_clock_is_the_originals() -> None:
    assert steps_with(ONE, 0) == [10, 210, 410]
    assert steps_with(ONE, 1) == [50, 150, 250, 350, 450]
    assert steps_with(ONE, 2) == [100, 200, 300, 400, 500]
    medium = ONE.with_difficulty("medium")
    assert [steps_with(medium, which) for which in range(3)] == [[10, 210], [50, 150, 250], [100, 200, 300]]


def test_the_first_invasion_draws_twice_on_hard_and_once_on_medium() -> None:
    hard = drawn(ONE, (NEUTRAL, NEUTRAL, NEUTRAL), 10)
    assert {len(changes) for changes in hard} == {2}
    assert {owner for changes in hard for _, owner in changes} == {CLIPS}
    # Two independent draws of three coincide in a third of cases: 1000 ± 26 of 3000.
    assert abs(sum(a == b for (a, _), (b, _) in hard) - 1000) < 130
    assert {len(changes) for changes in drawn(ONE.with_difficulty("medium"), (NEUTRAL,) * 3, 10)} == {1}
    first = np.bincount([changes[0][0] for changes in hard], minlength=3)
    assert (np.abs(first - 1000) < 130).all()


def test_clips_return_only_where_none_is_left() -> None:
    assert {len(changes) for changes in drawn(ONE, (NEUTRAL, NEUTRAL, CLIPS), 210)} == {0}
    assert {len(changes) for changes in drawn(ONE, (FIRST_TEAM, NEUTRAL, NEUTRAL), 210)} == {1}


def test_scrambling_hits_a_teams_junction_near_the_clips() -> None:
    assert set(map(tuple, drawn(ONE, (CLIPS, FIRST_TEAM, FIRST_TEAM), 50))) == {((1, NEUTRAL),)}
    assert set(map(tuple, drawn(ONE, (CLIPS, NEUTRAL, FIRST_TEAM), 50))) == {()}


def test_spreading_takes_a_neutral_junction_near_the_clips() -> None:
    assert set(map(tuple, drawn(ONE, (NEUTRAL, CLIPS, NEUTRAL), 100))) == {((0, CLIPS),)}
    assert set(map(tuple, drawn(ONE, (FIRST_TEAM, CLIPS, NEUTRAL), 100))) == {()}


def test_nothing_happens_between() -> None:
    assert {len(changes) for changes in drawn(ONE, (NEUTRAL, CLIPS, FIRST_TEAM), 51)} == {0}


def test_near_is_a_chebyshev_distance_of_25() -> None:
    near = near_clips(ONE, lanes(ONE, (CLIPS, NEUTRAL, NEUTRAL)))[:, 0]
    assert near.tolist() == [True, True, False, False]


@pytest.mark.parametrize("difficulty", ["hard", "easy"])
def test_whole_episodes_hold_what_the_clock_says(difficulty: str) -> None:
    """On hard two or one junctions are the clips' after step 10, and one more after step 100; on easy never any."""
    rules = Rules(teams=(Team(size=1),)).with_difficulty(difficulty)
    pool, layout = make_pool([from_ascii(LINE)], rules)
    engine = Engine(rules, pool, layout, "none")

    @jax.jit
    def play(key: Any) -> Any:
        def one(state: State, key: Any) -> tuple[State, Any]:
            state, _ = engine.step(state, jnp.zeros((1, 64), jnp.int32), key)
            return state, state.stats.junctions[0]

        return jax.lax.scan(one, engine.start(jnp.zeros(64, jnp.int32)), jax.random.split(key, 100))[1]

    held = np.asarray(play(jax.random.key(1)))
    assert (held[:9] == 0).all()
    if difficulty == "easy":
        assert (held == 0).all()
        return
    assert set(np.unique(held[9])) == {1, 2}
    assert (held[9:99] == held[9]).all()
    assert (held[99] >= held[98]).all()
    assert (held[99] <= 3).all()
