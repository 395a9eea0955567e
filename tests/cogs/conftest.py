"""The world that most tests of rules start from."""

from __future__ import annotations

import pytest
from tests.cogs.worlds import QUIET, World


@pytest.fixture
def world() -> World:
    """One cog in the room, far from the hub."""
    return World(QUIET)


@pytest.fixture
def make_world() -> type[World]:
    """For other rules and rooms."""
    return World
