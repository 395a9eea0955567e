"""What every test runs on: the CPU as two devices, and one cache of compiled programs for this test session.

Set before anything imports JAX, so that processes which the tests start run on the same. Another platform is chosen
from outside: `JAX_PLATFORMS=cuda uv run pytest`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_CACHE = tempfile.TemporaryDirectory(prefix="rewardlab-tests-", ignore_cleanup_errors=True)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _CACHE.name
os.environ["MPLBACKEND"] = "agg"  # no test opens a window
os.environ["SDL_VIDEODRIVER"] = "dummy"

import jax  # noqa: E402

from rewardlab.experiment import device  # noqa: E402

device.DEFAULT_CACHE = Path(_CACHE.name)  # so that `rl.train` in a test leaves a person's own cache alone
device.prepare()
jax.config.update("jax_num_cpu_devices", 2)


@pytest.fixture(scope="session", autouse=True)
def _compiled_programs() -> Iterator[None]:
    """The cache goes when the tests are over."""
    yield
    _CACHE.cleanup()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    """What drives browsers."""
    if shutil.which("chromium") is None:
        pytest.skip("needs the browser 'chromium' on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        yield driver


@pytest.fixture
def browser(playwright: Any) -> Iterator[Any]:
    """A page in a real browser."""
    from tests.browser import Browser

    started = Browser(playwright)
    yield started
    started.close()
