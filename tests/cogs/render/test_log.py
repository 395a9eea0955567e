from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.render.log import LogViewer, NullViewer, Views
from rewardlab.cogs.render.scene import Control, Scene, play
from rewardlab.cogs.render.views import VIEWS, viewer_of


def test_a_line_per_interval_and_one_for_the_rest(toy: Callable[..., Any]) -> None:
    stream = io.StringIO()
    summary = play(toy(25), LogViewer(every=10, stream=stream))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "toy.basic · 3 cogs · 25 steps · policy0, policy1, policy2"
    assert [line.split(" |")[0] for line in lines[1:]] == ["step  0/25", "step 10/25", "step 20/25", "step 25/25"]
    assert "junctions: cogs 0 clips 1 neutral 1" in lines[2]  # the toy's second junction is the clips' from step 10
    assert "store: oxygen 10 carbon 10 germanium 10 silicon 10 heart 5 | reward 0.100" in lines[2]
    assert "clips took junction (2, 15)" in lines[2]
    assert summary.complete


def test_names_cannot_command_the_terminal(toy: Callable[..., Any]) -> None:
    stream = io.StringIO()
    play(toy(1, mission="\x1b[2Jevil"), LogViewer(stream=stream))
    assert "\x1b" not in stream.getvalue()


def test_several_views_see_the_same_and_any_may_quit(toy: Callable[..., Any]) -> None:
    class Impatient(NullViewer):
        closed = False

        def show(self, scene: Scene) -> Control:
            return Control(quit=scene.step == 3, steer={1: 2})

        def close(self) -> None:
            self.closed = True

    stream, impatient, session = io.StringIO(), Impatient(), toy(25)
    summary = play(session, Views([LogViewer(every=1, stream=stream), impatient]))
    assert (summary.steps, summary.complete, impatient.closed) == (3, False, True)
    assert len(stream.getvalue().splitlines()) == 5
    assert session.orders == [{1: 2}] * 3


def test_views_by_name() -> None:
    for name in VIEWS:
        viewer_of(name).close()
    with pytest.raises(CogsError, match=r"Unknown view 'unicorn'. Did you mean 'unicode'"):
        viewer_of("unicorn")
