"""A run that goes to a hub, is deleted here, comes back, plays and proves itself: by the commands a person types."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.commands import environment
from tests.hub.conftest import KEY, SECRET
from tests.hub.hub_server import TOKEN, HubServer

pytestmark = pytest.mark.slow

SPEC = """
small:
  agent:
    algorithm: {name: PPO, time_horizon: 32, minibatch_size: 64, training_epoch: 1}
    net: {hid_layers: [8]}
  env: {name: CartPole-v1, num_envs: 4, max_frame: 4000}
  meta: {max_session: 2, log_frequency: 200, eval_frequency: 1000}
"""


def type_in(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rewardlab.cli.app", *words]
    around = environment(folder) | {"HF_HUB_DISABLE_XET": "1"} | more
    result = subprocess.run(line, cwd=folder, env=around, capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "small.yaml").write_text(SPEC)
    type_in(folder, "run", "small.yaml", "small")
    return folder


@pytest.mark.parametrize("kind", ["file", "s3", "hf"])
def test_push_delete_list_pull_enjoy_verify(
    kind: str, trained: Path, hub_server: HubServer, s3_server: tuple[str, Path]
) -> None:
    (path,) = (trained / "data").glob("small_20*")
    keep = trained / "keep"
    shutil.copytree(path, keep)
    hubs = {
        "file": {},  # the default: nothing is set
        "s3": {
            "REWARDLAB_HUB": "s3://bucket/round/trip",
            "AWS_ENDPOINT_URL": s3_server[0],
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        "hf": {"HF_REPO": "user/repo", "HF_ENDPOINT": hub_server.endpoint},
    }
    (trained / ".env").write_text("".join(f"{k}={v}\n" for k, v in hubs[kind].items()) + f'export HF_TOKEN="{TOKEN}"\n')
    try:
        assert path.name in type_in(trained, "push", f"data/{path.name}").stderr
        shutil.rmtree(path)
        assert type_in(trained, "list").stdout == f"{path.name}\n"
        assert type_in(trained, "pull", "small").stdout == f"data/{path.name}\n"
        assert "mean of 2" in type_in(trained, "run", "small", f"enjoy@data/{path.name}", "--episodes", "2").stdout
        assert type_in(trained, "verify", f"data/{path.name}").stdout == "identical\n"
    finally:
        (trained / ".env").unlink()
        if not path.exists():
            shutil.copytree(keep, path)
        shutil.rmtree(keep)
