"""The population: it computes what `train` computes, crashes alone, goes on where it stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.experiment.record import RunFolder, read_columns
from rewardlab.experiment.search.points import draw
from rewardlab.experiment.search.population import Population, SearchError
from rewardlab.experiment.search.study import Study, best_path, ranking_path
from rewardlab.experiment.table import read_cells
from rewardlab.experiment.trial import Trial, run_trial
from rewardlab.spec import Spec, dump, load, loads, parse_search

SPEC = """
tiny:
  agent:
    algorithm: {name: PPO, time_horizon: 16, minibatch_size: 32, training_epoch: 1}
    net: {hid_layers: [8], optim_spec: {lr: 0.003}}
  env: {name: CartPole-v1, num_envs: 4, max_frame: 3600}
  meta: {max_session: 1, max_trial: 8, log_frequency: 64, eval_frequency: 640,
         search_scheduler: {grace_period: 400, reduction_factor: 3}}
  search:
    agent.algorithm.gamma__uniform: [0.9, 0.999]
    agent.net.optim_spec.lr__loguniform: [1.0e-4, 1.0e-2]
"""


def make_study(root: Path, **changes: Any) -> Study:
    spec = loads(SPEC, overrides=changes)
    folder = RunFolder.create(spec.name, root)
    folder.write_specs(dump(spec), {"mode": "search"})
    study = Study(spec, folder, "population")
    for trial, point in enumerate(draw(parse_search(spec.search), spec.meta.max_trial, spec.meta.seed)):
        study.add(trial, point)
    return study


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = make_study(tmp_path_factory.mktemp("population"))
    list(Population(study).run(never))
    return study


def test_trials_are_halved_at_the_rungs(finished: Study) -> None:
    # 8 trials at 400 frames, 8 // 3 = 2 at 1200, then one to the end; a rollout is 64 frames, 448 the first past 400
    told = sorted((outcome.status, outcome.frame) for outcome in finished.outcomes.values())
    assert told == [("finished", 3584), *[("stopped", 448)] * 6, ("stopped", 1216)]


def test_those_that_go_on_were_the_best_at_the_rung(finished: Study) -> None:
    at_rung = {t: float(tables[0].columns["total_reward_ma"][6]) for t, tables in finished.tables.items()}
    further = [trial for trial, outcome in finished.outcomes.items() if outcome.frame > 448]
    assert sorted(at_rung[t] for t in further) == sorted(at_rung.values())[-2:]


def test_a_trial_is_what_train_makes_of_its_spec(finished: Study, tmp_path: Path) -> None:
    winner = finished.ranking()[0]
    spec = finished.trial_spec(winner)
    folder = RunFolder.create(spec.name, tmp_path)
    folder.write_specs(dump(spec), {})
    run_trial(Trial.create(spec), folder)
    alone = read_columns(folder.session_df_path(0, "train"))
    together = finished.tables[winner][0].columns
    assert np.array_equal(alone["frame"], together["frame"])
    # the same numbers up to rounding, which differs by how many lanes a product has; early rows before it can grow
    np.testing.assert_allclose(alone["total_reward"][:8], together["total_reward"][:8], rtol=1e-5)
    np.testing.assert_allclose(alone["loss"][:8], together["loss"][:8], rtol=1e-3)


def test_the_ranking_and_the_best_spec_are_written(finished: Study) -> None:
    header, rows = read_cells(ranking_path(finished.folder))
    assert header[:4] == ["trial", "status", "frame", "total_reward_ma"]
    assert {"agent.algorithm.gamma", "agent.net.optim_spec.lr"} < set(header)
    assert [row[1] for row in rows] == ["finished", *["stopped"] * 7]
    assert [row[2] for row in rows] == ["3584", "1216", *["448"] * 6]
    best = load(best_path(finished.folder), "tiny")
    winner = finished.points[int(rows[0][0])]
    assert best.agent.algorithm["gamma"] == winner["agent.algorithm.gamma"]
    assert best.agent.net.optim_spec.lr == winner["agent.net.optim_spec.lr"]
    # a run to confirm it: the seed of the spec and not of the search, four sessions, nothing left to search
    assert (best.meta.seed, best.meta.max_session, best.search) == (0, 4, {})


def test_a_trial_that_is_not_finite_crashes_alone(tmp_path: Path) -> None:
    search = {"agent.net.optim_spec.lr__choice": [0.001, 1e38]}
    study = make_study(tmp_path, **{"search": search, "meta.max_trial": 2, "meta.search_scheduler": None})
    list(Population(study).run(never))
    by_lr = {point["agent.net.optim_spec.lr"]: study.outcomes[trial] for trial, point in study.points.items()}
    assert by_lr[0.001].status == "finished"
    assert by_lr[1e38].status == "crashed"
    assert "is nan at frame" in by_lr[1e38].reason or "is inf at frame" in by_lr[1e38].reason
    header, rows = read_cells(ranking_path(study.folder))
    assert rows[1][1] == "crashed"
    assert rows[1][header.index("reason")] == by_lr[1e38].reason


def test_a_trial_that_cannot_run_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    search = {"agent.algorithm.minibatch_size__choice": [32, 100000]}
    study = make_study(tmp_path, **{"search": search, "meta.max_trial": 2, "meta.search_scheduler": None})
    list(Population(study).run(never))
    assert sorted(outcome.status for outcome in study.outcomes.values()) == ["crashed", "finished"]
    (reason,) = [o.reason for o in study.outcomes.values() if o.status == "crashed"]
    assert "minibatch_size is 100000" in reason


def test_trials_of_other_shapes_are_programs_of_their_own(tmp_path: Path) -> None:
    search = {"agent.net.hid_layers__choice": [[8], [16]], "agent.algorithm.gamma__uniform": [0.9, 0.99]}
    population = Population(make_study(tmp_path, **{"search": search, "meta.max_trial": 4}))
    assert sorted(len(group.trials) for group in population.groups) == [2, 2]


def test_learning_rates_and_discounts_share_one_program(tmp_path: Path) -> None:
    search = {
        "agent.algorithm.gamma__uniform": [0.9, 0.99],
        "agent.algorithm.clip_eps_spec.start_val__uniform": [0.1, 0.3],
        "agent.net.optim_spec.lr__loguniform": [1e-4, 1e-2],
        "agent.net.clip_grad_val__uniform": [0.3, 1.0],
    }
    changes = {"search": search, "agent.algorithm.clip_eps_spec": {"name": "no_decay", "start_val": 0.2}}
    assert len(Population(make_study(tmp_path, **changes)).groups) == 1


def test_an_interrupted_search_goes_on_as_if_it_had_not_stopped(finished: Study, tmp_path: Path) -> None:
    study = make_study(tmp_path)
    chunks = 0
    while not ranking_path(study.folder).exists():
        assert chunks < 50
        chunks += 1
        left = iter([False] * chunks)  # stops a little later each time
        again = Study.open(study.spec, study.folder) if chunks > 1 else study
        list(Population(again).run(lambda left=left: next(left, True)))  # type: ignore[misc]
    for trial in finished.outcomes:
        place, other = finished.folder.with_trial(trial), study.folder.with_trial(trial)
        assert place.session_df_path(0, "train").read_bytes() == other.session_df_path(0, "train").read_bytes()
    assert ranking_path(study.folder).read_bytes() == ranking_path(finished.folder).read_bytes()


def test_an_environment_outside_jax_is_no_population(tmp_path: Path) -> None:
    study = make_study(tmp_path, **{"env.backend": "gymnasium"})
    with pytest.raises(SearchError, match="--engine ray"):
        Population(study)


def test_a_spec_of_a_search_is_a_spec(finished: Study) -> None:
    trial: Spec = load(finished.folder.with_trial(1).trial_spec_path, "tiny")
    assert trial.meta.seed == 1000
    assert trial.agent.algorithm["gamma"] == finished.points[1]["agent.algorithm.gamma"]
