"""From a name to a policy."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies import make
from rewardlab.cogs.policies.api import PolicyEnvInterface
from rewardlab.cogs.policies.make import find_class, make_policy, policy_names
from rewardlab.cogs.policies.simple import NoopPolicy
from rewardlab.cogs.policies.vector import vector_policy
from rewardlab.cogs.rules import Rules

INFO = PolicyEnvInterface.from_rules(Rules())
NAMES = (
    *("role", "role_py", "miner", "scout", "aligner", "scrambler", "teacher", "baseline", "cogsguard_v2", "wombo"),
    *("cogsguard_control", "cogsguard_targeted", "cogsguard", "random", "noop", "starter"),
)


def test_every_policy_of_the_seed_has_a_name_and_a_line() -> None:
    known = policy_names()
    assert set(NAMES) <= set(known)
    assert all(line and "\n" not in line for line in known.values())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "role"])
def test_every_policy_acts_on_nothing_seen(name: str) -> None:
    """No hub in sight, not even itself: it does something that exists, and says nothing wrong."""
    policy = make_policy(name, INFO)
    actions = np.full(8, -1, np.int32)
    policy.step_batch(np.full((8, 200, 3), 255, np.uint8), actions)
    assert ((actions >= 0) & (actions < 12)).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rolle", "Did you mean 'role'"),
        ("metta://policy/minner", "Did you mean 'miner'"),
        ("no_such_module.Policy", "No module named 'no_such_module'"),
        ("rewardlab.cogs.policies.simple.Nothing", "is not there"),
        ("rewardlab.cogs.rules.Rules", "is no policy"),
        ("role?minr=4", "Did you mean 'miner'"),
        ("role?miner=-1", "whole number"),
        ("role?miner=many", "whole number"),
        ("role?role_order=miner,pilot", "pilot"),
        ("role?miner=2&role_cycle=miner", "not by two"),
        ("miner?miner=4", "takes no argument 'miner'"),
        ("noop,kw.x=1", "takes no argument 'x'"),
        ("random,kw.sed=1", "cannot be made"),
    ],
)
def test_what_cannot_be_made_is_said(text: str, words: str) -> None:
    with pytest.raises(CogsError) as error:
        make_policy(text, INFO)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_policies_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{NoopPolicy.__module__}:NoopPolicy"
    points = [
        EntryPoint("theirs", here, make.GROUP),
        EntryPoint("gone", "no_such_module:X", make.GROUP),
    ]
    monkeypatch.setattr(make, "entry_points", lambda group: points if group == make.GROUP else [])
    assert find_class("theirs") is NoopPolicy
    assert policy_names()["theirs"] == f"from {here}"
    with pytest.raises(CogsError, match="cannot be loaded"):
        find_class("gone")


def test_random_is_random_and_can_be_repeated() -> None:
    def play(text: str) -> list[int]:
        policy, actions, taken = make_policy(text, INFO), np.zeros(8, np.int32), []
        for _ in range(50):
            policy.step_batch(np.full((8, 200, 3), 255, np.uint8), actions)
            taken += actions.tolist()
        return taken

    assert play("random") == play("random")
    assert play("random") != play("random?seed=1")
    assert set(play("random")) == set(range(12))


def test_dice_and_rest_vectorised() -> None:
    observations: Any = np.zeros((3, 8, 200, 3), np.uint8)
    for text, most in (("random", 11), ("noop", 0)):
        vector = vector_policy(text, INFO)
        actions, state = vector.act(vector.init(3), observations, jax.random.key(1))
        assert actions.shape == (3, 8)
        assert int(actions.max()) == most
        assert vector.restart(state, jnp.array([True, False, True])).tolist() == [0, 1, 0]
    with pytest.raises(CogsError, match="no vectorised form"):
        vector_policy("starter", INFO)
