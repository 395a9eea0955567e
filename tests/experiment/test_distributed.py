"""Data-parallel training over the two devices that tests have: the same learning, on shares of the environments."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rewardlab.experiment.record import RunFolder, read_columns
from rewardlab.experiment.trial import Trial, run_trial
from rewardlab.spec import Spec, SpecError, dump, load

SETTINGS = ["env.max_frame=4096", "meta.max_session=1", "meta.log_frequency=512", "agent.net.hid_layers=[8]"]


def trained(name: str, root: Path, *more: str) -> tuple[Trial, dict[str, Any]]:
    spec: Spec = load(name, settings=[*SETTINGS, *more])
    folder = RunFolder.create(spec.name, root)
    folder.write_specs(dump(spec), {})
    trial = Trial.create(spec)
    run_trial(trial, folder)
    return trial, read_columns(folder.session_df_path(0, "train"))


@pytest.mark.parametrize("name", ["ppo_cartpole", "dqn_cartpole"])
def test_it_learns_what_one_device_learns(name: str, tmp_path: Path) -> None:
    assert len(jax.devices()) == 2
    trial, spread = trained(name, tmp_path / "two", "meta.distributed=true")
    _, alone = trained(name, tmp_path / "one")
    held = {shard.device: shard.data.shape for shard in trial.runner.obs.addressable_shards}
    assert set(held.values()) == {(1, 2, 4)}  # each device holds two of the four environments
    weights = jax.tree.leaves(trial.algorithm.policy(jax.tree.map(lambda x: x[0], trial.runner.agent)))[0]
    assert len(weights.sharding.device_set) == 2  # and all of the weights
    for column in ("frame", "epi", "opt_step"):
        np.testing.assert_array_equal(spread[column][:3], alone[column][:3])
    # the same sums in another order: equal up to rounding until it has had time to grow
    np.testing.assert_allclose(spread["loss"][:3], alone["loss"][:3], rtol=2e-3)


def test_it_resumes_where_it_stopped(tmp_path: Path) -> None:
    spec = load("ppo_cartpole", settings=[*SETTINGS, "meta.distributed=true"])
    folder = RunFolder.create(spec.name, tmp_path)
    folder.write_specs(dump(spec), {})
    trial = Trial.create(spec)
    run_trial(trial, folder, lambda recorder, _: recorder.trial.segment < 4)
    again = Trial.restore(spec, folder)
    assert 0 < again.segment < again.loop.plan.segments
    np.testing.assert_array_equal(np.asarray(again.runner.obs), np.asarray(trial.runner.obs))
    assert len(again.runner.obs.sharding.device_set) == 2
    assert run_trial(again, folder) is not None


def test_environments_that_do_not_divide_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"spreads env\.num_envs, 3, over 2 devices: take a multiple"):
        trained("ppo_cartpole", tmp_path, "meta.distributed=true", "env.num_envs=3")
