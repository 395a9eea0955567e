"""The page in a real browser."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewardlab.cogs.render.gui import GuiViewer
from rewardlab.cogs.render.replay import ReplayWriter, read_replay
from rewardlab.cogs.render.scene import play

SHOWN = "Math.floor(app.position)"


class Quiet:
    def write(self, text: str) -> None:
        """Nobody reads it."""

    def flush(self) -> None:
        """Nobody reads it."""


@pytest.fixture
def live(toy: Callable[..., Any]) -> Iterator[Any]:
    """An episode that waits for its page."""
    session, ready = toy(40, mission='<img src=x onerror="window.hurt=1">'), threading.Event()
    viewer = GuiViewer(open_browser=False, linger=False, stream=Quiet())
    begin = viewer.begin

    def told(setting: Any) -> None:
        begin(setting)
        ready.set()

    viewer.begin = told  # type: ignore[method-assign]
    thread = threading.Thread(target=play, args=(session, viewer))
    thread.start()
    assert ready.wait(30)
    yield session, viewer.url
    assert viewer.broadcast is not None
    viewer.broadcast.command({"quit": True})
    thread.join(30)


def middle(browser: Any, element: str) -> tuple[float, float]:
    centre = "({x, y, width, height}) => [x + width / 2, y + height / 2]"
    box = browser.run(f"({centre})({element}.getBoundingClientRect())")
    return box[0], box[1]


def on_map(browser: Any, cog: int) -> tuple[float, float]:
    where = f"""(() => {{
    const m = app.map, box = m.canvas.getBoundingClientRect(), [x, y] = m.placeOf({cog}, app.position);
    return [box.x + ((x - m.x) * m.scale + m.canvas.width / 2) / m.ratio,
            box.y + ((y - m.y) * m.scale + m.canvas.height / 2) / m.ratio]; }})()"""
    found = browser.run(where)
    return found[0], found[1]


def test_a_person_watches_steps_and_steers(browser: Any, live: Any, tmp_path: Path) -> None:
    session, url = live
    browser.open(url)
    browser.until("app.newest >= 0")
    assert browser.run("document.getElementById('mission').textContent").startswith("<img")
    assert browser.run("window.hurt === undefined && document.querySelectorAll('#mission img').length") == 0
    browser.key("ArrowRight")
    browser.until(f"{SHOWN} === 1")
    browser.click(*middle(browser, "document.getElementById('next')"))
    browser.until(f"{SHOWN} === 2")
    assert session.scene.step == 2  # paused: nothing is played that was not asked for
    browser.key("ArrowLeft")
    browser.until("app.position === 1")
    browser.key("End")
    browser.until("app.position === 2")
    browser.click(*on_map(browser, 1))
    browser.until("app.follow === 1 && document.querySelector('#card h2').textContent === 'Cog 1'")
    browser.key("s")
    browser.until("app.steering")
    browser.key("ArrowUp")
    browser.until(f"{SHOWN} === 3")
    browser.key("4")
    browser.until(f"{SHOWN} === 4")
    assert session.orders[2:] == [{1: 1}, {1: 8}]  # north, and the vibe of scramblers
    assert browser.run("document.querySelector('#card').innerText").count("scrambler") >= 1
    browser.key("s")
    browser.key("+")
    browser.key(" ")
    browser.until("app.over && !app.playing && app.position === 40")
    assert browser.run("document.getElementById('hint').textContent") == "Episode complete: 40 steps"
    browser.picture(tmp_path / "end.png")
    assert (tmp_path / "end.png").stat().st_size > 20_000
    assert browser.errors == []


def test_the_page_pans_zooms_and_draws(browser: Any, live: Any) -> None:
    browser.open(live[1])
    browser.until("app.newest >= 0 && app.map.scale > 1")
    x, y = middle(browser, "app.map.canvas")
    before = browser.run("[app.map.x, app.map.y, app.map.scale]")
    browser.page.mouse.move(x + 100, y)
    browser.page.mouse.wheel(0, -400)
    browser.until(f"app.map.scale > {before[2]} * 1.5")
    zoomed = browser.run("[app.map.x, app.map.scale]")
    browser.page.mouse.move(x, y)
    browser.page.mouse.down()
    browser.page.mouse.move(x - 100, y, steps=5)
    browser.page.mouse.up()
    browser.until(f"Math.abs(app.map.x - {zoomed[0]} - 100 / {zoomed[1]}) < 1e-6")
    browser.key("0")
    assert browser.run("[app.map.x, app.map.y, app.map.scale]") == before
    pixels = "app.map.ctx.getImageData(0, 0, app.map.canvas.width, app.map.canvas.height).data.buffer"
    colours = browser.run(f"new Set(new Uint32Array({pixels})).size")
    assert colours > 50
    for key, sheet in (("l", "legend"), ("?", "help")):
        browser.key(key)
        assert browser.run(f"!document.getElementById('{sheet}').hidden")
    assert browser.errors == []


def test_a_replay_is_shown_exactly_and_files_can_be_dropped(browser: Any, toy: Any, tmp_path: Path) -> None:
    writer = ReplayWriter(tmp_path / "replays")
    play(toy(150), writer)
    assert writer.path is not None
    replay = read_replay(writer.path)
    viewer = GuiViewer(open_browser=False, stream=Quiet())
    thread = threading.Thread(target=viewer.replay, args=(replay,))
    thread.start()
    while viewer.server is None:
        pass
    browser.open(viewer.url)
    browser.until("app.newest === 150")
    for step in (150, 0, 64, 63, 65, 130, 129, 1):
        shown = browser.run(f"((scene) => [Array.from(scene.numbers), scene.infos])(app.episode.scene({step}))")
        scene = replay.history.scene(step)
        assert shown == [scene.numbers.tolist(), [dict(info) for info in scene.infos]]
    assert browser.run("document.getElementById('quit').hidden")
    browser.run("app.seek(149)")
    browser.key(" ")
    browser.until("app.position === 150 && !app.playing")
    drop = """(bytes => {{
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], "some.json.z"));
      dispatchEvent(new DragEvent("drop", {{ dataTransfer: data, cancelable: true, bubbles: true }}));
    }})("{}")"""
    data = writer.path.read_bytes()
    browser.run(drop.format(base64.b64encode(data[: len(data) // 2]).decode()))
    assert "cut short" in browser.until("document.getElementById('toast').textContent")
    assert browser.run("app.newest") == 150
    browser.run(drop.format(base64.b64encode(data).decode()))
    browser.until("app.link === null && app.newest === 150 && app.playing")
    assert browser.errors == []
    browser.close()  # nobody looks any more: the viewer ends by itself
    thread.join(60)
    assert not thread.is_alive()
