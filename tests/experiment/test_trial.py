"""What a trial makes of a loss that is not a number."""

from typing import Any

import jax.numpy as jnp
import pytest

from rewardlab.experiment.session import Seen
from rewardlab.experiment.trial import Chunk, not_finite

NAN = float("nan")


def chunk(loss: list[list[float]], opt_step: list[list[int]], before: Any) -> Chunk:
    metrics = {"loss": jnp.array(loss), "opt_step": jnp.array(opt_step)}
    return Chunk(0, len(loss[0]), Seen(jnp.zeros(0), jnp.zeros(0), metrics), 1.0, before)


@pytest.mark.parametrize(
    ("loss", "opt_step", "before", "found"),
    [
        ([[NAN, NAN]], [[0, 0]], 0, {}),  # a start: the memory fills
        ([[NAN, NAN]], [[70, 70]], jnp.array([70]), {}),  # it fills once more, some way into a run
        ([[NAN, 0.5]], [[70, 71]], None, {}),  # as a resume sees it
        ([[0.5, NAN]], [[70, 71]], None, {0: 1}),
        ([[NAN, NAN]], [[71, 72]], None, {0: 1}),
        ([[NAN]], [[71]], jnp.array([70]), {0: 0}),
        ([[1.0, 2.0], [1.0, NAN]], [[1, 2], [1, 2]], 0, {1: 1}),
    ],
)
def test_a_loss_is_wrong_only_where_something_was_learned(
    loss: list[list[float]], opt_step: list[list[int]], before: Any, found: dict[int, int]
) -> None:
    wrong = not_finite(chunk(loss, opt_step, before))
    assert {session: segment for session, (_, _, segment) in wrong.items()} == found
