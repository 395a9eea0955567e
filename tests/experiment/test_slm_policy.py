"""Folders that SLM-Lab published play here: the nets compute what PyTorch computed, and hold the pole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from rewardlab import slm
from rewardlab.cli.app import app
from rewardlab.envs.base import Box, Discrete
from rewardlab.experiment import slm_policy
from rewardlab.experiment.record import RecordError, RunFolder
from rewardlab.experiment.replay import TrainedPolicy, enjoy
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.nets.heads import QNet
from rewardlab.spec import from_dict

GOLDEN = Path(__file__).parents[1] / "golden" / "slm"
STAMP = "_2026_02_11_144029"


@pytest.mark.parametrize("name", ["ppo_cartpole_arc", "a2c_cartpole", "sac_pendulum", "dueling_cartpole"])
def test_the_nets_compute_what_pytorch_computed(name: str) -> None:
    path = GOLDEN / f"{name}{STAMP}"
    told = json.loads((path / "out.json").read_text())
    trained = TrainedPolicy(RunFolder.open(path))
    net = trained.policy.actor if isinstance(trained.policy, ActorCritic) else trained.policy
    obs = jnp.array(told["obs"])
    ours = net(obs) if isinstance(net, QNet) else net.net(obs)
    np.testing.assert_allclose(ours, told["out"], rtol=1e-5, atol=1e-6)


def test_a_published_folder_is_enjoyed() -> None:
    lines = list(enjoy(GOLDEN / f"ppo_cartpole_arc{STAMP}", "ppo_cartpole_arc", False, 3))
    # session 1 is the better one (4 against 3), and its controller holds the pole to the end
    assert lines[0] == "ppo_cartpole_arc_t0_s1_ckpt-best_net_model.pt: saved at frame 1500, total_reward_ma 4.00"
    assert lines[-1] == "mean of 3: 500.00"


def test_statistics_that_were_not_saved_are_gathered_and_that_is_said() -> None:
    path = GOLDEN / f"a2c_cartpole{STAMP}"
    trained = TrainedPolicy(RunFolder.open(path))
    for row in ([1.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]):
        trained.act(np.array(row))
    assert trained.stats is not None
    assert float(trained.stats.mean[0]) == pytest.approx(2.0, abs=1e-3)
    assert "statistics that SLM-Lab did not save" in list(enjoy(path, "a2c_cartpole", False, 1))[1]


def test_it_can_be_exported_as_one_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    path = shutil.copytree(GOLDEN / f"ppo_cartpole_arc{STAMP}", tmp_path / f"ppo_cartpole_arc{STAMP}")
    result = CliRunner().invoke(app, ["export", str(path)])
    assert result.exit_code == 0, result.output
    assert (path / "model" / "ppo_cartpole_arc_t0_s1_ckpt-best_net_model.onnx").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("8,", "9,", "body.body.0 is [4, 8], expected [4, 9]"),
        ("6\n", "6,\n 6\n", "does not fit its spec"),
    ],
)
def test_weights_that_do_not_fit_the_spec_are_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = shutil.copytree(GOLDEN / f"ppo_cartpole_arc{STAMP}", tmp_path / f"ppo_cartpole_arc{STAMP}")
    spec = path / "ppo_cartpole_arc_t0_spec.json"
    at, rest = spec.read_text().split('"hid_layers"')
    spec.write_text(f'{at}"hid_layers"{rest.replace(old, new, 1)}')
    with pytest.raises(RecordError) as raised:
        TrainedPolicy(RunFolder.open(path))
    assert told in str(raised.value)


def test_too_few_layers_are_told() -> None:
    trained = TrainedPolicy(RunFolder.open(GOLDEN / f"ppo_cartpole_arc{STAMP}"))
    shapes = jax.eval_shape(lambda: trained.policy)
    with pytest.raises(RecordError, match=r"holds 3 layers, the spec's network has more|does not fit its spec"):
        slm_policy.load(GOLDEN / f"dueling_cartpole{STAMP}/model/dueling_cartpole_t0_s0_ckpt-best_net_model.pt", shapes)


def test_a_conv_net_computes_what_pytorch_computed() -> None:
    """Channels first and rows channel by channel there; pixels with their channels here."""
    net: dict[str, Any] = {
        "type": "ConvNet",
        "conv_hid_layers": [[3, 4, 2, 0, 1], [4, 3, 1, 1, 1]],
        "fc_hid_layers": [6],
    }
    net |= {"hid_layers_activation": "relu", "shared": True, "gpu": "auto"}
    raw: dict[str, Any] = {"name": "PPO", "algorithm": {"name": "PPO"}, "memory": {"name": "OnPolicyBatchReplay"}}
    spec = from_dict(slm.convert({"agent": {**raw, "net": net}, "env": {"name": "ALE/Pong-v5"}, "meta": {}})[0], "x")
    told = json.loads((GOLDEN / "conv.json").read_text())
    frames = np.array(told["obs"], np.uint8)
    seen, action = Box(frames.shape[1:], 0, 255, "uint8"), Discrete(3)
    key = jax.random.key(0)
    shapes = jax.eval_shape(lambda: ActorCritic.create(key, spec.agent.net, None, seen, action))
    policy = slm_policy.load(GOLDEN / "conv.pt", shapes)
    np.testing.assert_allclose(policy.actor.net(jnp.asarray(frames)), told["out"], rtol=1e-5, atol=1e-6)
