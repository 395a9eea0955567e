"""A toy episode for the views, and a browser driven over a pipe (the DevTools protocol needs no library)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
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


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, profile: Path, size: tuple[int, int] = (1400, 900)) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        flags = (
            "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --remote-debugging-pipe"
        )
        command = f'exec chromium {flags} --user-data-dir="$1" --window-size={size[0]},{size[1]} about:blank'
        self.process = subprocess.Popen(
            ["bash", "-c", f"{command} 3<&{to_browser} 4>&{from_browser}", "bash", str(profile)],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._count, self._buffer, self._session = 0, b"", ""
        self.errors: list[str] = []
        self._closed = False
        try:
            self._attach(size)
        except BaseException:
            self.close()
            raise

    def _attach(self, size: tuple[int, int]) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol and its answer; errors of the page are gathered on the way."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer.get("result")
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(answer["params"]["exceptionDetails"]))
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.errors.append(str(answer["params"]["entry"]))
        raise TimeoutError(method)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise EOFError("the browser has ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, script: str, seconds: float = 60) -> Any:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.run(f"(() => {{ try {{ return {script} }} catch (error) {{ return null }} }})()")
            if value:
                return value
            time.sleep(0.1)
        raise TimeoutError(f"{script}; errors: {self.errors}")

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1, buttons=1 if kind == "mousePressed" else 0)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser; a second time does nothing."""
        if self._closed:
            return
        self._closed, self._session = True, ""
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if shutil.which("chromium") is None or shutil.which("bash") is None:
        pytest.skip("needs the browser 'chromium' (and bash, to start it) on the path")
    started = Browser(tmp_path / "profile")
    yield started
    started.close()
