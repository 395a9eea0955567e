from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.maps.grid import Thing
from rewardlab.cogs.render.history import KEYFRAME_EVERY, History
from rewardlab.cogs.render.replay import FORMAT, ReplayWriter, decode, encode, read_replay
from rewardlab.cogs.render.scene import Event, Scene, Setting, Shape, Summary, play

SETTING = Setting(
    mission='odd "<name>" ✓',
    seed=1,
    map_seed=2,
    max_steps=500,
    teams=("cogs", "others"),
    team_of=(0, 1),
    policies=("a", "b"),
    walls=("#####", "#...#", "#####"),
    things=(Thing("junction", 1, 1), Thing("carbon_extractor", 1, 3)),
)
SHAPE = Shape.of(SETTING)
BOUNDS = {"cell": 15, "action": 12, "failed": 2, "vibe": 7, "owner": 4}


def numbers(draw: st.DrawFn) -> Any:
    parts = {}
    for name, shape in SHAPE.parts.items():
        most = BOUNDS.get(name, 1 << 33) - 1
        size = int(np.prod(shape))
        parts[name] = draw(st.lists(st.integers(0, most), min_size=size, max_size=size))
    return SHAPE.join(parts)


@st.composite
def episodes(draw: st.DrawFn) -> list[Scene]:
    few = [numbers(draw) for _ in range(draw(st.integers(1, 4)))]
    order = draw(st.lists(st.integers(0, len(few) - 1), min_size=1, max_size=2 * KEYFRAME_EVERY + 5))
    words = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(0, 9) | st.booleans(), max_size=2)
    said = draw(st.lists(st.tuples(words, words), min_size=1, max_size=3))
    event = st.builds(Event, st.just("align"), st.integers(-1, 1), st.integers(-1, 1), st.text(max_size=4))
    happened = draw(st.lists(st.lists(event, max_size=2), min_size=1, max_size=3))
    return [
        Scene(SHAPE, step, few[which], tuple(happened[step % len(happened)]), said[step % len(said)])
        for step, which in enumerate(order)
    ]


def same(one: Scene, other: Scene) -> bool:
    if one.step != other.step or one.events != other.events or (one.numbers != other.numbers).any():
        return False
    return [dict(info) for info in one.infos] == [dict(info) for info in other.infos]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(episodes(), st.data())
def test_every_scene_comes_back_exactly_in_any_order(scenes: list[Scene], data: st.DataObject) -> None:
    history = History(SETTING)
    for scene in scenes:
        history.add(scene)
    summary = Summary(len(scenes) - 1, True, (1.5, 0.1), {"game": {"x": 1.0}})
    replay = decode(encode(history, summary))
    assert (replay.setting, replay.summary) == (SETTING, summary)
    assert len(replay.history) == len(scenes)
    for step in data.draw(st.permutations(range(len(scenes))))[:20]:
        assert same(replay.history.scene(step), scenes[step])


def recorded(toy: Callable[..., Any], folder: Path, steps: int = 60) -> Path:
    writer = ReplayWriter(folder)
    play(toy(steps), writer)
    assert writer.path is not None
    return writer.path


def test_the_writer_leaves_one_file_that_reads(toy: Callable[..., Any], tmp_path: Path) -> None:
    path = recorded(toy, tmp_path / "new" / "folder")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.name.endswith(".json.z")
    replay = read_replay(path)
    assert replay.summary.complete
    assert replay.summary.steps == 60
    again = toy(60)
    assert same(replay.history.scene(0), again.scene)
    for step in range(1, 61):
        assert same(replay.history.scene(step), again.advance({}))


def test_an_interrupted_episode_is_kept_as_far_as_it_went(toy: Callable[..., Any], tmp_path: Path) -> None:
    session = toy(60)
    whole = session.advance

    def broken(steer: Any) -> Scene:
        if session.scene.step == 7:
            raise KeyboardInterrupt
        scene: Scene = whole(steer)
        return scene

    session.advance = broken
    writer = ReplayWriter(tmp_path)
    assert play(session, writer).steps == 7
    assert writer.path is not None
    replay = read_replay(writer.path)
    assert (replay.summary.steps, replay.summary.complete, len(replay.history)) == (7, False, 8)


def packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document).encode())


def opened(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(path.read_bytes()))
    return found


def test_files_that_are_no_replays_are_refused_in_one_sentence(toy: Callable[..., Any], tmp_path: Path) -> None:
    good = recorded(toy, tmp_path)
    data, document = good.read_bytes(), opened(good)
    cases = {
        b"": "cut short",
        b"{}": "not a replay",
        data[: len(data) // 2]: "cut short",
        data[:-1]: "cut short",
        data + b"x": "after its end",
        data[:100] + b"\0\0\0" + data[103:]: "damaged",
        zlib.compress(b"words"): "no JSON",
        packed([1, 2]): "not a RewardLab replay",
        packed({"version": 3, "grid_objects": []}): "not a RewardLab replay",
        packed({**document, "version": 2}): "newer",
        packed({**document, "version": "x"}): "version 'x'",
        packed({"format": FORMAT, "version": 1}): "missing",
    }
    for content, expected in cases.items():
        with pytest.raises(CogsError, match=expected) as caught:
            decode(content, "that.json.z")
        assert str(caught.value).startswith("that.json.z ")
        assert "\n" not in str(caught.value)
    with pytest.raises(CogsError, match="No such file"):
        read_replay(tmp_path / "absent.json.z")


@pytest.mark.parametrize(
    "change",
    [
        {"walls": ["##", "#"]},
        {"walls": []},
        {"walls": ["#<b>"]},
        {"things": [["junction", 99, 0]]},
        {"things": [["dragon", 1, 1]]},
        {"team_of": [5]},
        {"team_of": []},
        {"policies": ["one"]},
        {"max_steps": "many"},
        {"max_steps": 3},
        {"resources": ["gold"]},
        {"limits": [{"resources": ["hp"], "least": "x", "modifiers": [], "most": None}]},
        {"frames": []},
        {"frames": [{"d": [1]}]},
        {"frames": [{"d": [10**6, 1]}]},
        {"frames": [{"d": [0, 10**6]}]},
        {"frames": [{"d": [0, 1.5]}]},
        {"frames": [{"d": [0, -5]}]},
        {"frames": [{"e": [["align", 99, 0, "", 0]]}]},
        {"frames": [{"e": [["dance", 0, 0, "", 0]]}]},
        {"frames": [{"i": {"99": {}}}]},
        {"frames": [7]},
        {"summary": {"steps": 1}},
        {"summary": None},
    ],
)
def test_what_cannot_be_an_episode_is_refused(toy: Callable[..., Any], tmp_path: Path, change: dict[str, Any]) -> None:
    document = opened(recorded(toy, tmp_path, 10))
    with pytest.raises(CogsError, match="damaged"):
        decode(packed({**document, **change}))


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewardlab.cogs.render.replay.MOST_BYTES", 1 << 16)
    with pytest.raises(CogsError, match="unpacks to more than"):
        decode(zlib.compress(b" " * (1 << 20)))


def test_a_folder_that_cannot_be_made_is_told_before_the_episode(toy: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CogsError, match="Cannot make the folder"):
        ReplayWriter(tmp_path / "file" / "deep").begin(toy().setting)
