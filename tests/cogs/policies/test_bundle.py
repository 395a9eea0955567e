"""Bundles: what they hold, and what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.bundle import SPEC_FILE, is_safe, read_bundle
from rewardlab.cogs.policies.make import make_policy
from rewardlab.cogs.rules import Rules

POLICY = """
from pathlib import Path

from rewardlab.cogs.policies.api import Action, AgentPolicy, MultiAgentPolicy
from advice import NAME

class Agent(AgentPolicy):
    def step(self, obs):
        return Action(NAME)

class Policy(MultiAgentPolicy):
    def __init__(self, policy_env_info, device="cpu", speed=1):
        super().__init__(policy_env_info, device)
        self.speed, self.weights = speed, None

    def agent_policy(self, agent_id):
        return Agent(self.policy_env_info)

    def load_policy_data(self, path):
        self.weights = Path(path).read_text()
"""


def fill(folder: Path, action: str = "move_east", **changes: Any) -> Path:
    """A bundle with code, a helper and weights."""
    folder.mkdir(parents=True)
    spec = {"class_path": "policy.Policy", "data_path": "model/weights.txt", "init_kwargs": {"speed": 7}} | changes
    (folder / SPEC_FILE).write_text(json.dumps(spec))
    (folder / "policy.py").write_text(POLICY)
    (folder / "advice.py").write_text(f"NAME = {action!r}\n")
    (folder / "model").mkdir()
    (folder / "model" / "weights.txt").write_text("w")
    return folder


def pack(folder: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as packed:
        for file in folder.rglob("*"):
            packed.write(file, file.relative_to(folder).as_posix())
    return archive


@pytest.mark.parametrize("packed", [False, True])
def test_a_bundle_plays_with_its_code_weights_and_arguments(tmp_path: Path, packed: bool) -> None:
    place = fill(tmp_path / "mine")
    place = pack(place, tmp_path / "mine.zip") if packed else place
    info = PolicyEnvInterface.from_rules(Rules())
    policy: Any = make_policy(str(place), info)
    assert policy.speed == 7
    assert policy.weights == "w"
    actions = np.zeros(8, np.int32)
    policy.step_batch(np.full((8, 200, 3), 255, np.uint8), actions)
    assert set(actions.tolist()) == {info.action_names.index("move_east")}


def test_two_bundles_may_have_modules_of_one_name(tmp_path: Path) -> None:
    info, actions = PolicyEnvInterface.from_rules(Rules()), np.zeros(1, np.int32)
    taken = []
    for name, action in (("one", "move_west"), ("two", "move_north")):
        policy = make_policy(str(fill(tmp_path / name, action)), info)
        policy.step_batch(np.full((1, 200, 3), 255, np.uint8), actions)
        taken.append(info.action_names[actions[0]])
    assert taken == ["move_west", "move_north"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data_path": "../secret"}, "points outside the bundle"),
        ({"data_path": "/etc/passwd"}, "points outside the bundle"),
        ({"data_path": "C:\\windows"}, "points outside the bundle"),
        ({"data_path": "model\\..\\..\\x"}, "points outside the bundle"),
        ({"data_path": "model/none.txt"}, "lacks the file 'model/none.txt'"),
        ({"setup_script": "../setup.sh"}, "points outside the bundle"),
        ({"setup_script": "setup.sh"}, "lacks the file 'setup.sh'"),
        ({"class_path": ""}, "does not say the class_path"),
        ({"init_kwargs": [1]}, "must be an object"),
        ({"clas_path": "x"}, "unknown key 'clas_path'"),
    ],
)
def test_a_bundle_that_cannot_be_trusted_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CogsError) as error:
        read_bundle(fill(tmp_path / "mine", **changes))
    assert words in str(error.value)


def test_a_link_out_of_the_bundle_is_refused(tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", data_path="link")
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(CogsError, match="by a link"):
        read_bundle(folder)


@pytest.mark.parametrize("member", ["../evil.py", "/evil.py", "a/../../evil.py", "..\\evil.py"])
def test_a_zip_with_paths_that_lead_out_is_refused(tmp_path: Path, member: str) -> None:
    archive = pack(fill(tmp_path / "mine"), tmp_path / "mine.zip")
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr(member, "x")
    with pytest.raises(CogsError, match="points outside it"):
        read_bundle(archive)
    assert not (tmp_path / "evil.py").exists()


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    archive = pack(fill(tmp_path / "mine"), tmp_path / "mine.zip")
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr(link, "/etc")
    with pytest.raises(CogsError, match="links are refused"):
        read_bundle(archive)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(CogsError, match="not a readable zip"):
        read_bundle(broken)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(CogsError, match=f"holds no {SPEC_FILE}"):
        read_bundle(tmp_path / "empty.zip")
    folder = fill(tmp_path / "mine")
    (folder / SPEC_FILE).write_text("{")
    with pytest.raises(CogsError, match="not valid JSON"):
        read_bundle(folder)


@pytest.mark.parametrize(
    ("name", "safe"), [("a/b.txt", True), ("a/..b", True), ("", False), ("..", False), ("\\a", False)]
)
def test_safe_names(name: str, safe: bool) -> None:
    assert is_safe(name) is safe
