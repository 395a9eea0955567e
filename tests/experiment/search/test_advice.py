"""The seeds' advice: each sentence where it is due, and silence where a search is sound."""

from typing import Any

import pytest

from rewardlab.experiment.search.advice import advice
from rewardlab.spec import load

SOUND: dict[str, Any] = {
    "search": {"agent.algorithm.gamma__uniform": [0.9, 0.999], "agent.net.optim_spec.lr__loguniform": [1e-4, 1e-2]},
    "meta.max_trial": 8,
    "meta.max_session": 1,
    "meta.search_scheduler": {"grace_period": 10000, "reduction_factor": 3},
}


def warnings(**changes: Any) -> list[str]:
    return list(advice(load("ppo_cartpole", overrides={**SOUND, **changes})))


def test_a_sound_search_is_not_talked_about() -> None:
    assert warnings() == []
    assert warnings(**{"meta.search_scheduler": None, "meta.max_session": 4}) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"meta.max_trial": 5}, "5 trials for 2 ranges: take 6 to 8"),
        ({"search": {"agent.algorithm.gamma__choice": [0.9, 0.95, 0.99]}}, "__uniform: [0.9, 0.99]"),
        ({"search": {"agent.net.optim_spec.lr__choice": [1e-4, 1e-3, 1e-2]}}, "__loguniform: [0.0001, 0.01]"),
        ({"meta.max_session": 4}, "wants one session a trial, this one has 4"),
        ({"meta.search_scheduler": None}, "neither stage"),
        ({"meta.search_scheduler": {"grace_period": 200000}}, "no trial is stopped early"),
        ({"meta.search_scheduler": {"grace_period": 1000}}, "holds 2 log checkpoints"),
    ],
)
def test_each_piece_of_advice(changes: dict[str, Any], told: str) -> None:
    (warning,) = warnings(**changes)
    assert told in warning


def test_whole_numbers_and_names_may_be_chosen_from() -> None:
    search = {
        "agent.algorithm.training_epoch__choice": [4, 8, 16],
        "agent.net.hid_layers_activation__choice": ["tanh", "relu"],
    }
    assert warnings(search=search) == []


@pytest.mark.parametrize(("key", "told"), [("grace_perod", "grace_period"), ("reduction", "reduction_factor")])
def test_a_mistyped_key_of_the_scheduler_is_named(key: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        load("ppo_cartpole", overrides={"meta.search_scheduler": {key: 3}})
