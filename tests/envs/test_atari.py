"""Atari games: whole games in the record, lives for the learner, pixels that a film can show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewardlab.envs.base import Box, Discrete
from rewardlab.envs.host import HostEnv
from rewardlab.envs.wrappers import Tracker
from rewardlab.spec import SpecError

pytest.importorskip("ale_py")


def play(env: HostEnv, steps: int, seed: int = 0) -> list[Any]:
    """Random actions."""
    rng, space = np.random.default_rng(seed), env.action
    assert isinstance(space, Discrete)
    env.reset()
    return [env.step(rng.integers(0, space.n, env.num_envs)) for _ in range(steps)]


def test_the_spaces_are_deepminds() -> None:
    env = HostEnv("ALE/Pong-v5", 2, 0, backend="ale")
    assert env.observation == Box((4, 84, 84), 0.0, 255.0, "uint8")
    assert env.action == Discrete(6)
    assert env.max_episode_steps == 27_000  # 108 000 frames, four to a step
    assert env.reset().dtype == np.uint8
    env.close()


def test_a_life_lost_terminates_for_the_learner_and_the_game_goes_on() -> None:
    env = HostEnv("ALE/Breakout-v5", 8, 0, backend="ale")
    steps = play(env, 500)
    lives = sum((s.terminated & ~s.ended).sum() for s in steps)
    games = sum(s.ended.sum() for s in steps)
    assert games > 10
    assert 3 * games < lives < 5 * (games + 8)  # five lives: the last ends the game
    for step in steps:
        kept = ~step.ended
        np.testing.assert_array_equal(step.obs[kept], step.next_obs[kept])
        assert (step.obs[step.ended] != step.next_obs[step.ended]).any(axis=(1, 2, 3)).all()
    tracker = Tracker.create(8)
    for step in steps:
        tracker = tracker.update(step.reward, step.ended)
    assert int(tracker.episodes.sum()) == games  # the record counts games
    env.close()


def test_without_the_signal_a_game_is_one_episode() -> None:
    env = HostEnv("ALE/Breakout-v5", 4, 0, backend="ale", life_loss_info=False)
    for step in play(env, 300):
        np.testing.assert_array_equal(step.terminated | step.truncated, step.ended)
    env.close()


def test_a_game_without_lives_ends_once() -> None:
    """Pong has none: 21 points to one side, in unclipped rewards."""
    env = HostEnv("ALE/Pong-v5", 4, 0, backend="ale")
    total, games = np.zeros(4), []
    for step in play(env, 1100):
        total += step.reward
        np.testing.assert_array_equal(step.terminated, step.ended)
        games += list(total[step.ended])
        total[step.ended] = 0
    assert games
    assert min(games) >= -21
    assert max(games) < -15
    env.close()


def test_rewards_are_the_games_own() -> None:
    env = HostEnv("ALE/Qbert-v5", 4, 0, backend="ale")
    assert max(float(step.reward.max()) for step in play(env, 200)) >= 25
    env.close()


def test_the_limit_is_in_steps() -> None:
    env = HostEnv("ALE/Freeway-v5", 2, 0, 30, backend="ale")
    ends = [t for t, step in enumerate(play(env, 70), 1) if step.truncated.all()]
    assert [30 - 8 <= b - a <= 30 for a, b in zip([0, *ends], ends, strict=False)] == [True] * len(ends)
    assert len(ends) >= 2  # the no-ops at a start count as frames, so that it may end some steps early
    env.close()


def test_a_seed_names_the_games() -> None:
    env, twin = (HostEnv("ALE/Breakout-v5", 2, 5, backend="ale") for _ in range(2))
    one, two = play(env, 60), play(twin, 60)
    assert all(
        np.array_equal(a.obs, b.obs) and np.array_equal(a.reward, b.reward) for a, b in zip(one, two, strict=True)
    )
    other = play(HostEnv("ALE/Breakout-v5", 2, 6, backend="ale"), 60)
    assert not all(np.array_equal(a.obs, b.obs) for a, b in zip(one, other, strict=True))


def test_a_film_shows_the_screen_that_the_agent_plays_on() -> None:
    env = HostEnv("ALE/Pong-v5", 1, 0, backend="ale", render_mode="rgb_array")
    steps = play(env, 40)
    frame = env.render_frame()
    assert frame.shape == (210, 160, 3)
    # the screen in grey, squeezed to 84 × 84, is the agent's newest frame to within the squeezing
    grey = frame @ [0.299, 0.587, 0.114]
    rows = (
        np.add.reduceat(grey, (np.arange(84) * 2.5).astype(int), axis=0)
        / np.diff([*(np.arange(84) * 2.5).astype(int), 210])[:, None]
    )
    squeezed = rows[:, (np.arange(84) * 160 / 84).astype(int)]
    seen = steps[-1].obs[0, -1].astype(float)
    assert np.corrcoef(squeezed.ravel(), seen.ravel())[0, 1] > 0.9
    env.close()


def test_what_cannot_be_made_is_one_sentence() -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("ALE/Pongg-v5", {}, "did you mean 'ALE/Pong-v5'"),
        ("ALE/Pong-v5", {"frame_skip": 4}, "the nearest key is 'frameskip'"),
    )
    for name, keys, sentence in cases:
        with pytest.raises(SpecError, match=sentence):
            HostEnv(name, 1, 0, backend="ale", **keys)
