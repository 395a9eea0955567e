"""A real Ray on this machine: a job through its jobs API, and a search through Tune."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.boards import bench, checkout, commits, program
from tests.e2e.commands import environment
from tests.remote.test_remote import free_port, rewardlab

from rewardlab.experiment.table import read_cells
from rewardlab.hub.store import open_store
from rewardlab.hub.transfer import listing

pytestmark = pytest.mark.slow

SPEC = """
small:
  agent:
    algorithm: {name: PPO, time_horizon: 32, minibatch_size: 32, training_epoch: 1}
    net: {hid_layers: [8], optim_spec: {lr: 0.003}}
  env: {name: CartPole-v1, num_envs: 4, max_frame: 3600}
  meta: {max_session: 1, max_trial: 4, log_frequency: 128, search_resources: {cpu: 1},
         search_scheduler: {grace_period: 400, reduction_factor: 3}}
  search:
    agent.algorithm.gamma__uniform: [0.9, 0.999]
    agent.net.optim_spec.lr__choice: [0.001, 0.01]
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ray")
    (folder / "small.yaml").write_text(SPEC)
    return folder


@pytest.fixture(scope="module")
def cluster() -> str:
    """Where the head node listens."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def head(shop: Path, cluster: str) -> Iterator[str]:
    """A head node with its dashboard, in a session of its own that is ended as a whole: its address."""
    port, dashboard = cluster.partition(":")[2], free_port()
    words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"]
    words += [
        f"--port={port}",
        f"--dashboard-port={dashboard}",
        "--dashboard-host=127.0.0.1",
        "--node-ip-address=127.0.0.1",
    ]
    around = environment(shop) | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    around["HOME"] = str(shop)  # where jobs have their folders
    process = subprocess.Popen(
        [*words, "--disable-usage-stats"],
        env=around,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    address, until = f"http://127.0.0.1:{dashboard}", time.monotonic() + 90
    try:
        while time.monotonic() < until:
            with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"{address}/api/version"):
                break
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_run_through_ray_jobs_ends_on_the_hub(shop: Path, head: str) -> None:
    hub = f"file://{shop}/hub"
    program = f"{sys.executable} -m rewardlab.cli.app"
    words = ["run-remote", "small.yaml", "small", "train", "-n", "onray", "--runner", "ray", "--address", head]
    result = rewardlab(shop, *words, "--hub", hub, "--program", program, RAY_AUTH_MODE="disabled")
    assert result.returncode == 0, result.stderr
    result = rewardlab(shop, "remote", "attach", "onray", RAY_AUTH_MODE="disabled")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "trial_metrics: frame:3.58e+03" in result.stdout
    assert "onray: done (0)" in result.stderr
    assert len(listing(open_store(hub))) == 1
    rows = json.loads(rewardlab(shop, "remote", "ps", "-a", "--json", RAY_AUTH_MODE="disabled").stdout)
    assert (rows[0]["status"], rows[0]["exit_code"]) == ("done", 0)


def test_the_work_loop_through_ray_jobs(shop: Path, head: str) -> None:
    board = checkout(shop / "board")
    words = ["CartPole", "--runner", "ray", "--address", head, "--hub", f"file://{board}/hub"]
    loop = bench(board, *words, "--program", program(board))
    said = loop.communicate(timeout=200)[1]
    assert loop.returncode == 0, said
    assert "reinforce_cartpole on CartPole-v1: train, submitted to ray" in said
    assert "reinforce_cartpole on CartPole-v1: ✅" in said
    assert commits(board)[0].startswith("docs: CartPole-v1 benchmark, reinforce_cartpole ✅")


def test_a_search_through_ray_tune(shop: Path, head: str, cluster: str) -> None:
    words = ["run", "small.yaml", "small", "search", "-s", "env.backend=gymnasium", "-s", "env.max_frame=2400"]
    result = rewardlab(shop, *words, "--address", cluster)  # outside JAX the engine is Ray without asking
    assert result.returncode == 0, result.stderr
    assert "search by ray: 4 trials, 2 ranges" in result.stdout
    (path,) = (shop / "data").glob("small_20*")
    header, rows = read_cells(path / "info" / "small_experiment_df.csv")
    assert len(rows) == 4
    assert {row[1] for row in rows} <= {"finished", "stopped"}
    assert rows[0][1] == "finished"
    assert {row[header.index("agent.net.optim_spec.lr")] for row in rows} <= {"0.001", "0.01"}
    assert (path / "small_best_spec.yaml").exists()
    assert (path / "info" / "small_t3_s0_session_df_train.csv").exists()


def test_trials_that_crash_in_ray_are_told(shop: Path, head: str, cluster: str) -> None:
    text = SPEC[: SPEC.index("  search:")] + "  search: {agent.algorithm.minibatch_size__choice: [32, 64, 100000]}\n"
    (shop / "crashing.yaml").write_text(text)
    words = [
        "run",
        "crashing.yaml",
        "small",
        "search",
        "--engine",
        "ray",
        "--data",
        "crashed",
        "-s",
        "meta.max_trial=5",
        "-s",
        "env.max_frame=800",
        "--address",
        cluster,
    ]
    result = rewardlab(shop, *words)
    assert result.returncode == 0, result.stderr
    (path,) = (shop / "crashed").glob("small_20*")
    header, rows = read_cells(path / "info" / "small_experiment_df.csv")
    crashed = [row for row in rows if row[1] == "crashed"]
    assert 0 < len(crashed) < 5
    assert all("minibatch_size is 100000" in row[header.index("reason")] for row in crashed)


def daemons(mark: bytes) -> list[bytes]:
    """The processes of this machine whose environment holds a mark."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" "))
    return [words for words in found if words]  # a process that has ended and was not waited for has none


def test_a_search_leaves_no_daemon(shop: Path) -> None:
    words = ["run", "small.yaml", "small", "search", "--engine", "ray", "--data", "left", "-s", "meta.max_trial=1"]
    result = rewardlab(shop, *words, "-s", "env.max_frame=600", OF_THIS_SEARCH=str(shop))
    assert result.returncode == 0, result.stderr
    mark, until = f"OF_THIS_SEARCH={shop}".encode(), time.monotonic() + 30
    while time.monotonic() < until and daemons(mark):  # they are told to end, and take a moment
        time.sleep(0.2)
    assert daemons(mark) == []
