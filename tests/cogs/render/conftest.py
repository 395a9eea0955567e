"""A toy episode for the views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rewardlab.cogs.maps.grid import Thing
from rewardlab.cogs.render.camera import events_between
from rewardlab.cogs.render.scene import MILLION, Scene, Setting, Shape, Summary
from rewardlab.cogs.rules import ACTIONS, INDEX, MOVES, RESOURCES, STORED

ROWS = (
    "####################",
    *("#..................#",) * 4,
    "#.....######.......#",
    *("#..................#",) * 6,
    "####################",
)
THINGS = (
    Thing("junction", 2, 4),
    Thing("junction", 2, 15),
    Thing("c:hub", 8, 10),
    Thing("c:chest", 10, 10),
    Thing("c:aligner", 10, 4),
    Thing("carbon_extractor", 7, 16),
)


class ToySession:
    """Cogs that walk at random, a junction that changes hands: an episode without the engine."""

    def __init__(self, steps: int = 60, cogs: int = 3, mission: str = "toy.basic") -> None:
        self.setting = Setting(
            mission=mission,
            seed=7,
            map_seed=8,
            max_steps=steps,
            teams=("cogs",),
            team_of=(0,) * cogs,
            policies=tuple(f"policy{i}" for i in range(cogs)),
            walls=ROWS,
            things=THINGS,
            day_length=20,
        )
        self.shape = Shape.of(self.setting)
        self.random = np.random.default_rng(3)
        inventory = np.zeros((cogs, len(RESOURCES)), np.int64)
        inventory[:, INDEX["hp"]], inventory[:, INDEX["energy"]] = 50, 20
        self.parts: dict[str, Any] = {
            "cell": np.array([(7 + i) * self.setting.width + 3 for i in range(cogs)]),
            **{name: np.zeros(cogs, np.int64) for name in ("action", "failed", "vibe", "reward")},
            "inventory": inventory,
            "owner": np.array([0, 0, 2, 2, 2, 0]),
            "amount": np.array([0, 0, 0, 0, 0, 100]),
            "store": np.array([[10] * (len(STORED) - 1) + [5]]),
        }
        self.orders: list[Mapping[int, int]] = []
        self.scene = self._scene(0)

    @property
    def over(self) -> bool:
        return self.scene.step >= self.setting.max_steps

    def advance(self, steer: Mapping[int, int]) -> Scene:
        self.orders.append(dict(steer))
        before, step, width = self.scene, self.scene.step + 1, self.setting.width
        for cog in range(self.setting.cogs):
            action = steer.get(cog, int(self.random.integers(len(ACTIONS))))
            row, col = MOVES.get(ACTIONS[action], (0, 0))
            there = int(self.parts["cell"][cog]) + row * width + col
            taken = {thing.row * width + thing.col for thing in THINGS} | set(self.parts["cell"].tolist())
            free = ROWS[there // width][there % width] == "." and there not in taken
            self.parts["action"][cog], self.parts["failed"][cog] = action, int(bool(row or col) and not free)
            self.parts["cell"][cog] = there if (row or col) and free else self.parts["cell"][cog]
        self.parts["inventory"][:, INDEX["hp"]] += 1
        if step % 10 == 0:
            self.parts["owner"][step // 10 % 2] = step // 10 % 3
        self.parts["reward"] += MILLION // 100
        after = self._scene(step)
        self.scene = Scene(self.shape, step, after.numbers, events_between(self.setting, before, after), after.infos)
        return self.scene

    def summary(self) -> Summary:
        rewards = tuple(self.scene.reward(cog) for cog in range(self.setting.cogs))
        return Summary(self.scene.step, self.over, rewards, {"game": {"toy": 1.0}})

    def _scene(self, step: int) -> Scene:
        infos = tuple({"role": "miner", "about": f"task {(step + cog) // 7}"} for cog in range(self.setting.cogs))
        return Scene(self.shape, step, self.shape.join(self.parts), (), infos)


@pytest.fixture
def toy() -> Callable[..., ToySession]:
    return ToySession
