"""Policies for others compute what ours compute; others' weights are read, and nothing in them is run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewardlab.experiment.export import export, network_of
from rewardlab.experiment.record import RecordError, RunFolder
from rewardlab.experiment.replay import TrainedPolicy
from rewardlab.experiment.torch_file import read_torch
from rewardlab.experiment.trial import Recorder, Trial
from rewardlab.spec import dump, load

GOLDEN = Path(__file__).parents[1] / "golden" / "pt"
PEERS = Path(__file__).parents[2] / ".peers" / "bin" / "python"


def fresh(root: Path, name: str, *settings: str) -> RunFolder:
    """A run that has saved its first policy."""
    spec = load(name, settings=["meta.max_session=1", "agent.net.hid_layers=[8, 8]", *settings])
    folder = RunFolder.create(spec.name, root)
    folder.write_specs(dump(spec), {})
    recorder = Recorder(Trial.create(spec), folder)
    recorder.save()
    recorder.close()
    return folder


CASES = [
    ("ppo_cartpole", ["env.normalize_obs=true", "agent.net.layer_norm=true"]),
    ("dqn_cartpole", ["agent.net.dueling=true", "agent.net.hid_layers_activation=silu"]),
    ("sac_pendulum", ["agent.net.hid_layers_activation=gelu"]),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=[name for name, _ in CASES])
def test_onnx_acts_as_the_policy_does(name: str, settings: list[str], tmp_path: Path) -> None:
    import onnx
    from onnx.reference import ReferenceEvaluator

    folder = fresh(tmp_path, name, *settings)
    path = export(folder, "onnx")
    trained = TrainedPolicy(folder)
    obs = np.random.default_rng(0).normal(size=(5, trained.algorithm.observation.size)).astype(np.float32)
    _, action = ReferenceEvaluator(onnx.load(str(path))).run(None, {"obs": obs})
    ours = np.stack([trained.act(row) for row in obs])
    np.testing.assert_allclose(np.asarray(action).reshape(ours.shape), ours, rtol=1e-4, atol=1e-5)


def test_what_is_no_feed_forward_policy_says_so(tmp_path: Path) -> None:
    folder = fresh(tmp_path, "ppo_cartpole", "agent.net.shared=true")
    with pytest.raises(RecordError, match="no feed-forward policy of its own"):
        network_of(TrainedPolicy(folder))
    with pytest.raises(RecordError, match="there are onnx, pt"):
        export(folder, "tflite")


@pytest.mark.skipif(not PEERS.exists(), reason="PyTorch lives in the environment of the peers alone: .peers")
def test_pytorch_computes_the_same_from_our_file(tmp_path: Path) -> None:
    """Written by our code, which PyTorch's environment cannot run: so by its stages, in that environment."""
    folder = fresh(tmp_path, "ppo_cartpole")
    network = network_of(TrainedPolicy(folder))
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    arrays: dict[str, Any] = {"obs": obs}
    for i, stage in enumerate(network.stages):
        for j, array in enumerate(stage.arrays):
            arrays[f"{i}.{j}"] = array
    np.savez(tmp_path / "net.npz", **arrays)
    kinds = [stage.kind for stage in network.stages]
    source = (Path(__file__).parents[2] / "src/rewardlab/experiment/export.py").read_text()
    body = source[source.index("def write_torch") : source.index("WRITERS:")]
    modules = source[source.index("MODULES = ") : source.index("class Stage")]
    code = f"""
import collections, types, typing, numpy as np, torch
from typing import Any
from pathlib import Path
class RecordError(Exception): pass
Network = Any
{modules}
{body}
z = np.load({str(tmp_path / "net.npz")!r})
kinds = {kinds!r}
own = lambda i: [z[n] for n in sorted(z.files) if n.startswith(f"{{i}}.")]
stages = [types.SimpleNamespace(kind=k, arrays=own(i)) for i, k in enumerate(kinds)]
net = types.SimpleNamespace(stages=stages, discrete=True, tanh=False, dueling=False, low=None, high=None)
write_torch(net, Path({str(tmp_path / "net.pt")!r}))
kept = torch.load({str(tmp_path / "net.pt")!r}, weights_only=True)
model = torch.nn.Sequential(*[getattr(torch.nn, name)(*sizes) for name, *sizes in kept["modules"]])
model.load_state_dict(kept["state_dict"])
np.save({str(tmp_path / "out.npy")!r}, model(torch.tensor(z["obs"])).detach().numpy())
"""
    done = subprocess.run([str(PEERS), "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    x = obs
    for stage in network.stages:
        x = x @ stage.arrays[0] + stage.arrays[1] if stage.kind == "linear" else np.tanh(x)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), x, rtol=1e-5, atol=1e-6)
    assert set(read_torch(tmp_path / "net.pt")) == {
        f"state_dict.{i}.{n}" for i in (0, 2, 4) for n in ("weight", "bias")
    }


def test_the_weights_of_a_file_are_those_that_pytorch_saved() -> None:
    found = read_torch(GOLDEN / "mlp.pt")
    assert [(name, x.shape) for name, x in found.items()] == [
        *(("0.weight", (3, 4)), ("0.bias", (3,)), ("2.weight", (2, 3)), ("2.bias", (2,)))
    ]
    obs = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    hidden = np.maximum(found["0.weight"] @ obs + found["0.bias"], 0)
    out = found["2.weight"] @ hidden + found["2.bias"]
    np.testing.assert_allclose(out, [float(v) for v in (GOLDEN / "mlp.txt").read_text().split()], rtol=1e-5)


def test_conv_nets_views_and_counters_are_read() -> None:
    found = read_torch(GOLDEN / "conv.pt")
    assert found["net.0.weight"].shape == (3, 2, 2, 2)
    assert found["net.1.num_batches_tracked"].dtype == np.int64
    # arange(6) as 2 × 3, transposed, without its first row: strides that are not in order
    np.testing.assert_array_equal(found["view"], [[1.0, 4.0], [2.0, 5.0]])


def test_a_file_that_would_run_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordError, match=r"it names posix\.system, which is no weight"):
        read_torch(GOLDEN / "evil.pt")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(RecordError, match="is no file of PyTorch weights"):
        read_torch(tmp_path / "x.pt")
