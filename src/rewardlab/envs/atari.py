"""Atari games by ale-py's own vector environment: preprocessing and all copies in C++ threads, ROMs in its wheel."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from rewardlab.envs.gym_vector import find_gym_spec, missing
from rewardlab.envs.vector import refuse_unknown, threads
from rewardlab.spec import SpecError

Array = np.ndarray[Any, np.dtype[Any]]

ATARI = "ALE/"
# Sticky actions as https://arxiv.org/abs/1709.06009 recommends; all else is DeepMind's preprocessing, which is the
# vector environment's own default: 84 × 84 grey pixels, the larger of two frames, four of them, each held four times.
DEFAULTS: Mapping[str, Any] = {"repeat_action_probability": 0.25}
# what the lab decides itself: rewards stay as they are (`env.clip_reward` clips the learner's), a game is a whole game
_OURS = {"game", "num_envs", "batch_size", "num_threads", "thread_affinity_offset", "max_num_frames_per_episode"}
_OURS |= {"autoreset_mode", "reward_clipping", "episodic_life", "continuous", "continuous_action_threshold"}


def make_vector(name: str, num_envs: int, max_t: int | None, **kwargs: Any) -> tuple[Atari, int]:
    """`num_envs` copies of `ALE/Name-v5` and their time limit in steps. With `life_loss_info` (the default) a life
    that is lost terminates for the learner, and the game goes on."""
    if importlib.util.find_spec("ale_py") is None:
        raise SpecError(missing(name, "ale_py", ImportError("ale_py")))
    if not name.startswith(ATARI):
        raise SpecError(f"env.backend ale steps Atari games, {ATARI}Pong-v5 and others, not {name}")
    game = find_gym_spec(name).kwargs["game"]  # says which games there are
    options = {**DEFAULTS, **kwargs}
    refuse_unknown(f"Environment {name}", options, (*_keys(), "render_mode"))
    held = options.get("frameskip", 4)
    limit = max_t if max_t is not None else 108_000 // held
    return Atari(game, num_envs, {**options, "max_num_frames_per_episode": limit * held}), limit


@cache
def _keys() -> tuple[str, ...]:
    """The keys of a game."""
    from ale_py.vector_env import AtariVectorEnv

    taken = inspect.signature(AtariVectorEnv.__init__).parameters
    return tuple(key for key in taken if key not in {"self", *_OURS})


class Atari:
    """Gymnasium's vector interface, as far as a `HostEnv` uses it, with the lives that each step lost."""

    def __init__(self, game: str, num_envs: int, options: Mapping[str, Any]) -> None:
        from ale_py.vector_env import AtariVectorEnv

        given = dict(options)
        self.render_mode = given.pop("render_mode", None)
        self._cut_at_lives = given.pop("life_loss_info", True)
        given |= {"num_envs": num_envs, "num_threads": threads(num_envs), "reward_clipping": False}
        self._vector = AtariVectorEnv(game, **given)
        # a film shows the screen: a twin with the same seed and the same actions sees it in colour
        screen = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1}
        self._twin = AtariVectorEnv(game, **{**given, **screen}) if self.render_mode == "rgb_array" else None
        self._screen: Array | None = None
        self.single_observation_space = self._vector.single_observation_space
        self.single_action_space = self._vector.single_action_space
        self._lives: Array = np.zeros(num_envs, int)

    def reset(self, seed: list[int] | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Any]:
        """Begin a game in every copy, or in those of a mask."""
        seeds = None if seed is None else np.array([word % 2**31 for word in seed], np.int32)
        obs, info = self._vector.reset(seed=seeds, options=options)
        self._lives = np.array(info["lives"])
        if self._twin is not None:
            self._screen = self._twin.reset(seed=seeds, options=options)[0]
        return obs, info

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step of every copy; games that end wait for `reset`."""
        obs, reward, terminated, truncated, info = self._vector.step(actions)
        lives = np.array(info["lives"])
        lost = (lives < self._lives) & self._cut_at_lives
        self._lives = lives
        if self._twin is not None:
            self._screen = self._twin.step(actions)[0]
        return obs, np.asarray(reward), terminated, truncated, {"life_lost": lost}

    def render(self) -> list[Array]:
        """The screens."""
        assert self._screen is not None
        return [screen[-1] for screen in self._screen]

    def close(self) -> None:
        """End the threads."""
        self._vector.close()
        if self._twin is not None:
            self._twin.close()
