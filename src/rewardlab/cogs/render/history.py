"""The steps of an episode as differences, with whole scenes in between: small, and any step is reached at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rewardlab.cogs.render.scene import Event, Infos, Numbers, Scene, Setting, Shape

KEYFRAME_EVERY = 64
EVENT_FIELDS = ("kind", "cog", "thing", "what", "amount")
Frame = dict[str, Any]  # JSON: "d" changes, "e" events, "i" infos; what is empty is left out


class History:
    """All scenes of an episode so far. Scene 0 is the start."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.shape = setting, Shape.of(setting)
        self.frames: list[Frame] = []
        self._keyframes: list[tuple[Numbers, Infos]] = []
        self._last: tuple[Numbers, Infos] = self._nothing()

    def __len__(self) -> int:
        return len(self.frames)

    def add(self, scene: Scene) -> None:
        """The next scene; its step is the number of scenes so far."""
        if scene.step != len(self):
            raise ValueError(f"Scene {len(self)} was due, not {scene.step}.")
        self._append(frame_of(self._last, scene), (scene.numbers, scene.infos))

    def add_frame(self, frame: Frame) -> None:
        """The next scene by its frame; a ValueError if it does not fit."""
        self._append(frame, apply(self._last, frame))

    def _append(self, frame: Frame, moment: tuple[Numbers, Infos]) -> None:
        if len(self) % KEYFRAME_EVERY == 0:
            self._keyframes.append(moment)
        self.frames.append(frame)
        self._last = moment

    def scene(self, step: int) -> Scene:
        """The scene of a step, exactly as it was added."""
        if not 0 <= step < len(self):
            raise IndexError(step)
        key = step // KEYFRAME_EVERY
        moment = self._keyframes[key]
        for frame in self.frames[key * KEYFRAME_EVERY + 1 : step + 1]:
            moment = apply(moment, frame)
        return Scene(self.shape, step, moment[0], self.events(step), moment[1])

    def events(self, step: int) -> tuple[Event, ...]:
        """What happened in a step."""
        return tuple(Event(*row) for row in self.frames[step].get("e", ()))

    @property
    def latest(self) -> Scene:
        """The newest scene, without its events."""
        return Scene(self.shape, len(self) - 1, self._last[0], infos=self._last[1])

    def _nothing(self) -> tuple[Numbers, Infos]:
        return np.zeros(self.shape.size, np.int64), tuple({} for _ in range(self.setting.cogs))


def frame_of(before: tuple[Numbers, Infos], scene: Scene) -> Frame:
    """What changed: numbers as [place, difference, …], infos whole where they differ, and the events."""
    numbers, infos = before
    change = scene.numbers - numbers
    places = np.nonzero(change)[0]
    frame: Frame = {}
    if len(places):
        frame["d"] = np.stack((places, change[places]), 1).reshape(-1).tolist()
    if scene.events:
        frame["e"] = [[getattr(event, name) for name in EVENT_FIELDS] for event in scene.events]
    said = {str(cog): dict(now) for cog, (now, was) in enumerate(zip(scene.infos, infos, strict=True)) if now != was}
    if said:
        frame["i"] = said
    return frame


def apply(before: tuple[Numbers, Infos], frame: Frame) -> tuple[Numbers, Infos]:
    """The moment after a frame."""
    numbers, infos = before
    if "d" in frame:
        pairs = np.asarray(frame["d"], np.int64).reshape(-1, 2)
        if len(pairs) and not (pairs[:, 0].min() >= 0 and pairs[:, 0].max() < len(numbers)):
            raise ValueError("a change lies outside the numbers")
        numbers = numbers.copy()
        numbers[pairs[:, 0]] += pairs[:, 1]
    if "i" in frame:
        said: Mapping[str, Any] = frame["i"]
        if not set(said) <= {str(cog) for cog in range(len(infos))}:
            raise ValueError("infos of a cog that is not there")
        infos = tuple(said.get(str(cog), info) for cog, info in enumerate(infos))
    return numbers, infos
