"""These tests compile many small programs and run each once: optimising them is most of the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    config: Any = jax.config
    config.update("jax_disable_most_optimizations", True)
    yield
    config.update("jax_disable_most_optimizations", False)
