"""The recorded episodes of the original engine, every step and token of them, without a difference."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from rewardlab.cogs.conform import conform
from rewardlab.cogs.errors import CogsError

GOLDEN = Path(__file__).parents[1] / "golden" / "cogs"
SMALL = "trace_team4_easy_mixed_m30.json.gz"


@pytest.mark.slow
def test_every_recorded_episode_is_reproduced() -> None:
    result = conform(GOLDEN)
    assert [str(difference) for difference in result.differences[:5]] == []
    assert (result.traces, result.steps, result.observations, result.tokens) == (38, 30_900, 5_111, 211_808)


def test_differences_are_found_and_named(tmp_path: Path) -> None:
    with gzip.open(GOLDEN / SMALL, "rt", encoding="utf-8") as stream:
        trace = json.load(stream)
    trace["steps"][2]["ag"][1][3]["energy"] += 1
    trace["steps"][4]["rew"] += 0.001
    trace["obs"][0]["tokens"][0][2] += 1
    with gzip.open(tmp_path / SMALL, "wt", encoding="utf-8") as stream:
        json.dump(trace, stream)
    found = conform(tmp_path).differences
    assert {difference.step for difference in found} == {0, 3, 5}
    assert "step 3: agent 1" in str(next(d for d in found if d.step == 3))
    assert {d.what for d in found if d.step == 5} == {"reward"}


def test_bad_recordings_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(CogsError, match="No recorded traces"):
        conform(tmp_path)
    shutil.copy(GOLDEN / SMALL, tmp_path)
    (tmp_path / "trace_cut.json.gz").write_bytes((GOLDEN / SMALL).read_bytes()[:2000])
    with pytest.raises(CogsError, match="not a recorded trace"):
        conform(tmp_path)
