"""A real dstack server, up to its answer that nobody offers a machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.remote.test_remote import free_port, rewardlab

from rewardlab.remote.dstack import DstackRunner
from rewardlab.remote.job import Job, RemoteError

REPOSITORY = Path(__file__).parents[2]


def test_a_job_is_a_task_with_its_whole_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    runner = DstackRunner({"url": "http://127.0.0.1:9", "token": "t"})
    job = Job("one", ("run", "a.yaml", "a", "train"), files={"a.yaml": "a: {}\n"}, env={"HF_TOKEN": "h"}, gpu=True)
    asked = runner.configuration(job)
    assert (asked["type"], asked["name"], asked["env"]) == ("task", "one", {"HF_TOKEN": "h"})
    assert asked["resources"] == {"gpu": "16GB..", "memory": "16GB.."}
    assert asked["commands"][0].startswith("pip install")
    assert asked["commands"][-1].endswith("exec rewardlab run a.yaml a train\n")
    with pytest.raises(RemoteError, match=r"dstack at http://127\.0\.0\.1:9 does not answer"):
        runner.plan(job)


def test_the_project_is_the_one_that_dstack_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RemoteError, match="no dstack project is set up"):
        DstackRunner({})
    (tmp_path / ".dstack").mkdir()
    projects = (
        "projects:\n- {name: a, url: 'http://a', token: ta}\n- {name: b, url: 'http://b', token: tb, default: true}\n"
    )
    (tmp_path / ".dstack" / "config.yml").write_text(projects)
    assert (DstackRunner({}).project, DstackRunner({}).url) == ("b", "http://b")
    assert DstackRunner({"project": "a"}).token == "ta"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("dstack")
    port = free_port()
    around = {**os.environ, "HOME": str(folder), "DSTACK_SERVER_DIR": str(folder), "DSTACK_SERVER_ADMIN_TOKEN": "token"}
    words = [
        str(Path(sys.executable).with_name("dstack")),
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--yes",
    ]
    process = subprocess.Popen(words, env=around, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 90
    try:
        while time.monotonic() < until:
            with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"{url}/healthcheck"):
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_a_job_is_planned_submitted_and_stopped(server: str, tmp_path: Path) -> None:
    where = {"DSTACK_URL": server, "DSTACK_TOKEN": "token", "HOME": str(tmp_path)}
    words = [
        "run-remote",
        "ppo_cartpole",
        "train",
        "-n",
        "first",
        "-s",
        "env.max_frame=1000",
        "--hub",
        "s3://runs/ours",
    ]
    result = rewardlab(tmp_path, *words, **where)
    assert result.returncode == 1
    assert "dstack has no offers for first: no backend or fleet of the project main" in result.stderr
    (tmp_path / ".dstack").mkdir()
    (tmp_path / ".dstack" / "gpu.yml").write_text((REPOSITORY / ".dstack" / "gpu.yml").read_text())
    result = rewardlab(tmp_path, *words, "--gpu", **where)  # that one waits for capacity
    assert result.returncode == 0, result.stderr
    runner = DstackRunner({"url": server, "token": "token"})
    handle, until = {"run": "first"}, time.monotonic() + 60
    while time.monotonic() < until and "No matching fleet" not in runner.state(handle).detail:
        time.sleep(0.3)
    state = runner.state(handle)
    assert state.status == "waiting"
    assert "No matching fleet" in state.detail  # as far as one comes without a cloud
    shown = rewardlab(tmp_path, "remote", "ps", **where).stdout
    assert "first" in shown
    assert "waiting" in shown
    assert rewardlab(tmp_path, "remote", "logs", "first", **where).returncode == 0
    assert rewardlab(tmp_path, "remote", "stop", "first", **where).returncode == 0
    until = time.monotonic() + 60
    while time.monotonic() < until and not runner.state(handle).over:
        time.sleep(0.3)
    assert runner.state(handle).status == "stopped"
    assert runner.state({"run": "another"}).status == "lost"
    with pytest.raises(RemoteError, match="refuses: HTTP 40"):
        DstackRunner({"url": server, "token": "wrong"}).state(handle)
