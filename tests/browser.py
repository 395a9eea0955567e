"""A page in a real browser, by Playwright, with the few verbs that the tests of pages need."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Playwright


class Browser:
    """One page of the system's Chromium; what goes wrong on it is gathered in `errors`."""

    def __init__(self, playwright: Playwright, size: tuple[int, int] = (1400, 900), scheme: Any = "light") -> None:
        program = shutil.which("chromium")
        self._browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="no-preference"
        )
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)

    def open(self, url: str) -> None:
        self.page.goto(url)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        return self.page.evaluate(script)

    def until(self, script: str, seconds: float = 60) -> Any:
        """Wait until an expression is true; its value. (Playwright's own waiting needs eval, which pages forbid.)"""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                value = self.run(f"(() => {{ try {{ return {script} }} catch (error) {{ return null }} }})()")
            except Error as error:
                if "context was destroyed" not in str(error):  # the page is being left for another
                    raise
                value = None
            if value:
                return value
            self.page.wait_for_timeout(100)
        raise TimeoutError(f"{script}; errors: {self.errors}")

    def key(self, key: str) -> None:
        self.page.keyboard.press(key)

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(x, y)

    def picture(self, path: Path) -> None:
        self.page.screenshot(path=path)

    def close(self) -> None:
        """End the browser; a second time does nothing."""
        self._browser.close()
