"""How policies are written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import PolicySpec
from rewardlab.cogs.policies.bundle import write_bundle
from rewardlab.cogs.policies.spec import allocate, parse_policies, parse_policy


@pytest.mark.parametrize(
    ("text", "class_path", "arguments", "proportion"),
    [
        ("role", "role", {}, 1.0),
        ("random,proportion=3", "random", {}, 3.0),
        ("class=random,proportion=5", "random", {}, 5.0),
        ("class=my_module.MyPolicy", "my_module.MyPolicy", {}, 1.0),
        ("my_module.MyPolicy", "my_module.MyPolicy", {}, 1.0),
        ("class=role_py,kw.miner=4,kw.name=abc,proportion=0.5", "role_py", {"miner": 4, "name": "abc"}, 0.5),
        ("role,kw.miner=4", "role", {"miner": 4}, 1.0),
        ("class=x.Y,kw.on=true,kw.off=False,kw.rate=1e-3", "x.Y", {"on": True, "off": False, "rate": 0.001}, 1.0),
        ("role?miner=4&scout=2", "role", {"miner": 4, "scout": 2}, 1.0),
        ("metta://policy/role", "role", {}, 1.0),
        ("metta://policy/cogsguard?gear=10", "cogsguard", {"gear": 10}, 1.0),
        ("metta://policy/role?miner=4&scout=2", "role", {"miner": 4, "scout": 2}, 1.0),
        ("metta://policy/role?evolution=true", "role", {"evolution": True}, 1.0),
        ("metta://policy/role?role_order=miner,scout", "role", {"role_order": "miner,scout"}, 1.0),
        (
            "metta://policy/role?role_order=miner,scout&gear=1,proportion=2",
            "role",
            {"role_order": "miner,scout", "gear": 1},
            2.0,
        ),
        ("metta://policy/role?role_cycle=miner%2Cscout", "role", {"role_cycle": "miner,scout"}, 1.0),
        ("mock://anything", "noop", {}, 1.0),
    ],
)
def test_what_a_text_means(text: str, class_path: str, arguments: dict[str, Any], proportion: float) -> None:
    request = parse_policy(text)
    assert request.spec == PolicySpec(class_path, None, arguments)
    assert request.proportion == proportion


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no policy"),
        ("proportion=2", "names no policy"),
        ("role,class=random", "names two policies"),
        ("role:weights", "class=role,data=FILE"),
        ("role,proportion=0", "above zero"),
        ("role,proportion=-1", "above zero"),
        ("role,proportion=much", "above zero"),
        ("role,proportion=nan", "above zero"),
        ("role,proportion=1,proportion=2", "twice"),
        ("role,weight=2", "'weight'"),
        ("klass=role", "'klass'"),
        ("class=lstm,data=missing.npz", "missing.npz, which does not exist"),
        ("metta://role", "metta://policy/NAME"),
        ("metta://policy/", "no readable name"),
        ("metta://policy/role?miner", "name=value"),
        ("s3://bucket/run.zip", "fetch it first"),
        ("gopher://x", "gopher://"),
        ("./nowhere", "there is no nowhere"),
        ("./nowhere:v5", "there is no nowhere"),
        ("file:///nowhere/at/all", "there is no /nowhere/at/all"),
    ],
)
def test_what_cannot_be_understood_is_said(text: str, words: str) -> None:
    with pytest.raises(CogsError) as error:
        parse_policy(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_of_a_class(tmp_path: Path) -> None:
    weights = tmp_path / "model.npz"
    weights.touch()
    request = parse_policy(f"class=lstm,data={weights},proportion=2")
    assert request.spec.data_path == str(weights)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """train_dir/my_run with versions 2, 5 and 10 in its three possible places."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "train_dir" / "my_run"
    for place in (folder.parent / "my_run:v2", folder / "my_run:v5", folder / "checkpoints" / "my_run:v10"):
        write_bundle(place, PolicySpec("noop", init_kwargs={}))
    return folder


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("./train_dir/my_run", 10),
        ("./train_dir/my_run:latest", 10),
        ("./train_dir/my_run:v5", 5),
        ("train_dir/my_run:v2", 2),
        ("./train_dir/my_run:v5,proportion=3", 5),
    ],
)
def test_versions_of_a_run(run: Path, text: str, version: int) -> None:
    request = parse_policy(text)
    assert request.name == f"my_run:v{version}"
    assert request.spec.class_path == "noop"


def test_a_version_that_is_not_there(run: Path) -> None:
    with pytest.raises(CogsError, match=r"no version v7; there are v2, v5, v10"):
        parse_policy("./train_dir/my_run:v7")
    (run.parent / "bare").mkdir()
    with pytest.raises(CogsError, match=r"no bundle"):
        parse_policy("./train_dir/bare")


def test_a_folder_that_is_a_bundle_is_its_own_latest(tmp_path: Path) -> None:
    write_bundle(tmp_path / "run", PolicySpec("random", init_kwargs={"seed": 3}))
    for text in (f"{tmp_path}/run", f"{tmp_path}/run:latest", f"file://{tmp_path}/run"):
        assert parse_policy(text).spec == PolicySpec("random", None, {"seed": 3})
    assert parse_policy(f"{tmp_path}/run,kw.seed=4").spec.init_kwargs == {"seed": 4}
    with pytest.raises(CogsError, match="brings its own"):
        parse_policy(f"{tmp_path}/run,data={tmp_path}")


@pytest.mark.parametrize(
    ("proportions", "agents", "counts"),
    [
        ([3, 5], 8, [3, 5]),
        ([1, 1], 3, [2, 1]),
        ([1], 20, [20]),
        ([1, 1, 1], 4, [2, 1, 1]),
        ([0.7, 0.2, 0.1], 4, [3, 1, 0]),
    ],
)
def test_counts_by_largest_remainder(proportions: list[float], agents: int, counts: list[int]) -> None:
    assert allocate(proportions, agents) == counts


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(1, 20))
def test_every_cog_is_given_and_nobody_is_more_than_one_off(proportions: list[float], agents: int) -> None:
    counts = allocate(proportions, agents)
    assert sum(counts) == agents
    for count, share in zip(counts, proportions, strict=True):
        exact = agents * share / sum(proportions)
        assert math.floor(exact) <= count <= math.floor(exact) + 1


def test_several_policies() -> None:
    assert [request.spec.class_path for request in parse_policies(["role", "class=random"])] == ["role", "random"]
