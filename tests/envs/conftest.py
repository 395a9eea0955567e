"""What the environment tests share: the hand-made environment, importable by name as a person's own would be."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def counting() -> Iterator[ModuleType]:
    """The module `counting`, on the path of this process and of those it starts."""
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    yield importlib.import_module("counting")
    sys.path.remove(here)
