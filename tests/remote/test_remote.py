"""Jobs for real: on this machine, through a real sshd, through Ray's jobs API; and what a command line says of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.e2e.commands import SPEC, environment

from rewardlab.hub.store import open_store
from rewardlab.hub.transfer import listing, pull
from rewardlab.remote.job import Job, RemoteError, warnings
from rewardlab.remote.ledger import Ledger, make_runner
from rewardlab.remote.shell import ShellRunner

OVER = 20.0  # seconds


def wait(runner: ShellRunner, handle: dict[str, object], status: str = "over") -> str:
    """Until a job is over, or has begun to say something."""
    until = time.monotonic() + OVER
    while time.monotonic() < until:
        state = runner.state(handle)
        if state.over or (status == "talking" and runner.logs(handle)):
            return str(state)
        time.sleep(0.05)
    raise AssertionError(f"not over: {runner.logs(handle)}")


def job(name: str, *words: str, program: str = "sh -c", **more: object) -> Job:
    return Job(name, words, program, **more)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A real sshd on a free port, with keys of its own: its port and the key that it lets in."""
    program = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("openssh-server is not installed; .ci/run installs it")
    folder = tmp_path_factory.mktemp("sshd")
    folder.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "authorized").chmod(0o600)
    port = free_port()
    lines = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "UsePAM no", "StrictModes no"]
    lines += [f"AuthorizedKeysFile {folder}/authorized", f"PidFile {folder}/pid", "PasswordAuthentication no"]
    (folder / "config").write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield port, folder / "user"
    server.terminate()
    server.wait()


SSH = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")


@pytest.fixture(params=["local", "ssh"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> ShellRunner:
    if request.param == "local":
        return ShellRunner(str(tmp_path / "jobs"))
    port, key = request.getfixturevalue("sshd")
    return ShellRunner(str(tmp_path / "jobs there"), f"{os.environ.get('USER', 'root')}@127.0.0.1", port, str(key), SSH)


def test_a_job_runs_with_its_files_and_its_environment(runner: ShellRunner) -> None:
    given = job("hello", "cat 'a file'; echo $SECRET; exit 3", files={"a file": "it's here\n"}, env={"SECRET": "a'b c"})
    handle = runner.submit(given)
    assert wait(runner, handle) == "failed (3)"
    assert runner.logs(handle) == "it's here\na'b c\n"
    assert wait(runner, runner.submit(job("fine", "true"))) == "done (0)"


def test_a_job_is_stopped_with_time_to_save(runner: ShellRunner) -> None:
    handle = runner.submit(job("long", "trap 'echo saved; exit 143' TERM; echo begun; while :; do sleep 0.1; done"))
    wait(runner, handle, "talking")
    assert runner.state(handle).status == "running"
    assert runner.metrics(handle)["cpu_percent"] >= 0
    runner.stop(handle)
    assert wait(runner, handle).startswith("stopped")
    assert "saved" in runner.logs(handle)


def test_a_job_that_was_killed_is_lost(runner: ShellRunner) -> None:
    handle = runner.submit(job("killed", "echo begun; sleep 60"))
    wait(runner, handle, "talking")
    pid = int((Path(str(handle["folder"])) / "pid").read_text())
    os.killpg(pid, signal.SIGKILL)
    assert wait(runner, handle) == "lost"
    assert runner.state({"folder": f"{handle['folder']}/nowhere"}).status == "lost"


def test_a_machine_that_does_not_answer_is_told() -> None:
    away = ShellRunner("jobs", "nobody@127.0.0.1", free_port(), None, SSH)
    with pytest.raises(RemoteError, match=r"nobody@127.0.0.1 refused: .*Connection refused"):
        away.submit(job("x", "true"))


def test_a_gpu_that_waits_is_warned_of() -> None:
    assert warnings(True, {"gpu_percent": 30.0}) == [
        "the GPU is used 30 %: the environment or the CPU holds it up, not the training"
    ]
    assert warnings(True, {"gpu_percent": 80.0}) == []
    assert warnings(False, {"gpu_percent": 0.0}) == []
    assert warnings(True, {"cpu_percent": 99.0}) == []


NVIDIA_SMI = """#!/bin/sh
[ "$*" = "--query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits" ] || exit 6
printf '%s\n' {rows}
"""


@pytest.mark.parametrize(
    ("rows", "used", "warned"),
    [
        (["0, 3", "31, 20480"], 31.0, True),  # two GPUs, of which the job keeps one half busy
        (["97, 40960"], 97.0, False),
        (["[N/A], 512"], None, False),  # a slice of a GPU does not tell
    ],
)
def test_an_idle_gpu_is_warned_of_through_nvidia_smi(
    tmp_path: Path, rows: list[str], used: float | None, warned: bool
) -> None:
    """A stand-in that speaks as the real command does, on the path of the job's machine."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(NVIDIA_SMI.replace("{rows}", " ".join(f"'{row}'" for row in rows)))
    program.chmod(0o755)
    (tmp_path / "small.yaml").write_text(SPEC)
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    words = ["run-remote", "--runner", "local", "--gpu", "small.yaml", "small", "-n", "idle", "--program", "sleep 20 #"]
    assert rewardlab(tmp_path, *words, **path).returncode == 0
    shown = rewardlab(tmp_path, "remote", "metrics", "idle", "--json", **path)
    assert json.loads(shown.stdout).get("gpu_percent") == used
    told = "note: the GPU is used 31 %: the environment or the CPU holds it up, not the training"
    assert (told in shown.stderr) == warned
    assert rewardlab(tmp_path, "remote", "stop", "idle").returncode == 0


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [("slurm", {}, "there are local, ssh, ray, dstack"), ("dstak", {}, "did you mean dstack"), ("ssh", {}, "--host")],
)
def test_a_runner_that_cannot_be_made_says_why(name: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(RemoteError, match=told):
        make_runner(name, options)


def rewardlab(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rewardlab.cli.app", *words]
    around = environment(folder) | env
    return subprocess.run(line, cwd=folder, env=around, capture_output=True, text=True, timeout=280, check=False)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small spec, where commands are typed."""
    folder = tmp_path_factory.mktemp("remote")
    (folder / "small.yaml").write_text(SPEC.replace("max_frame: 20000", "max_frame: ${max_frame}"))
    return folder


def follow(shop: Path, name: str) -> subprocess.CompletedProcess[str]:
    return rewardlab(shop, "remote", "attach", name)


def submitted(shop: Path, name: str, *more: str, frames: int = 8000) -> subprocess.CompletedProcess[str]:
    words = ["run-remote", "small.yaml", "small", "train", "-n", name, "-s", f"max_frame={frames}", *more]
    result = rewardlab(shop, *words)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.slow
def test_a_run_through_ssh_ends_on_the_hub(shop: Path, sshd: tuple[int, Path], tmp_path: Path) -> None:
    port, key = sshd
    hub = f"file://{shop}/hub_ssh"
    options = [f"--ssh-option={word}" for word in SSH]
    where = ["--runner", "ssh", "--host", "root@127.0.0.1", "--port", str(port), "--identity", str(key), *options]
    program = f"env JAX_PLATFORMS=cpu PYTHONPATH={':'.join(sys.path)} {sys.executable} -m rewardlab.cli.app"
    submitted(shop, "far", *where, "--program", program, "--hub", hub)
    result = follow(shop, "far")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "trial_metrics: frame:8.00e+03" in result.stdout
    assert "far: done (0)" in result.stderr
    store = open_store(hub)
    (row,) = listing(store)
    back = pull(store, row.name, tmp_path)
    assert (back / "info" / "small_t0_trial_metrics.json").exists()
    assert list(back.glob("graph/*.png"))
    shutil.rmtree(Path.home() / "rewardlab-jobs" / "far")


@pytest.mark.slow
def test_a_run_that_is_cut_off_goes_on_from_the_hub(shop: Path) -> None:
    hub = f"file://{shop}/hub_cut"
    submitted(shop, "cut", "--runner", "local", "--hub", hub, frames=20_000_000)
    store, until = open_store(hub), time.monotonic() + 120
    ledger = Ledger(shop / "data" / "remote")
    runner, handle = ledger.runner("cut")
    while time.monotonic() < until and "compiled" not in runner.logs(handle) and "frames/s" not in runner.logs(handle):
        time.sleep(0.1)
    assert rewardlab(shop, "remote", "stop", "cut").returncode == 0
    listed = json.loads(rewardlab(shop, "remote", "ps", "--all", "--json").stdout)
    assert {row["name"]: row["status"] for row in listed}["cut"] == "stopped"
    (row,) = listing(store)  # what it had learned was pushed on the way out
    shutil.rmtree(Path(str(handle["folder"])))  # the machine is gone
    assert rewardlab(shop, "remote", "resume", "cut").returncode == 0
    until = time.monotonic() + 120
    while time.monotonic() < until and "resuming at frame" not in runner.logs(handle):
        time.sleep(0.1)
    log = runner.logs(handle)
    frame = int(log.partition("resuming at frame ")[2].split()[0])
    assert frame > 0
    assert row.name in log
    rewardlab(shop, "remote", "stop", "cut")


LLM = """
model_name: builtin:blank
loss: grpo
data: {specs: [{name: "builtin:chain_sum"}], size: 8000, prompt: terse}
max_new_tokens: 4
prompts_per_step: 2
num_rollouts: 2
train_batch_size: 4
batch_acc: 1
steps: 4000
checkpoint_seconds: 0.2
"""


@pytest.mark.slow
def test_a_language_model_is_trained_elsewhere_cut_off_and_gone_on_with(shop: Path, sshd: tuple[int, Path]) -> None:
    """Its config travels with the job; what was learned is on the hub, from where it goes on."""
    port, key = sshd
    (shop / "configs").mkdir()
    (shop / "configs" / "tiny.yaml").write_text(LLM)
    hub = f"file://{shop}/hub_llm"
    options = [f"--ssh-option={word}" for word in SSH]
    where = ["--runner", "ssh", "--host", "root@127.0.0.1", "--port", str(port), "--identity", str(key), *options]
    told = f"JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR={shop / 'cache'} PYTHONPATH={':'.join(sys.path)}"
    where += ["--program", f"env {told} {sys.executable} -m rewardlab.cli.app", "--hub", hub]
    result = rewardlab(shop, "run-remote", "-n", "talk", *where, "--", "llm", "train", "--config", "configs/tiny.yaml")
    assert result.returncode == 0, result.stderr
    runner, handle = Ledger(shop / "data" / "remote").runner("talk")
    until = time.monotonic() + 120
    while time.monotonic() < until and "4000 steps, in data/llm_tiny_" not in runner.logs(handle):
        assert not runner.state(handle).over, runner.logs(handle)
        time.sleep(0.2)
    time.sleep(2)
    assert rewardlab(shop, "remote", "stop", "talk").returncode == 0
    assert "checkpoint saved; to go on:" in runner.logs(handle)
    (row,) = listing(open_store(hub))
    assert row.name.startswith("llm_tiny_20")
    shutil.rmtree(Path.home() / str(handle["folder"]))  # the machine is gone
    assert rewardlab(shop, "remote", "resume", "talk").returncode == 0
    until = time.monotonic() + 120
    while time.monotonic() < until and f"4000 steps, in data/{row.name}/" not in runner.logs(handle):
        time.sleep(0.2)
    assert rewardlab(shop, "remote", "stop", "talk").returncode == 0
    log = runner.logs(handle)
    assert f"llm train --resume data/{row.name}" in log, log
    shutil.rmtree(Path.home() / str(handle["folder"]))


def test_what_would_be_submitted_can_be_read(shop: Path) -> None:
    words = ["run-remote", "--gpu", "-s", "max_frame=1000", "small.yaml", "small", "train", "-n", "look", "--plan"]
    result = rewardlab(shop, *words, HF_REPO="user/repo")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "exec rewardlab run small.yaml small train --push --hub hf://user/repo"
    words = ["run-remote", "--runner", "local", "-n", "talk", "--plan", "--", "llm", "train", "--config", "grpo.yaml"]
    assert rewardlab(shop, *words).stdout.splitlines()[-1].endswith(" llm train --config grpo.yaml")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["remote", "logs", "nothing"], "no job nothing was submitted from here"),
        (["run-remote", "small.yaml", "small", "-n", "a b", "-s", "max_frame=9"], "letters, digits"),
        (["run-remote", "small.yaml", "smal", "-n", "x", "-s", "max_frame=9"], "small"),
        (["run-remote", "small.yaml", "small", "-n", "x", "-s", "max_frame=9"], "no dstack project is set up"),
    ],
)
def test_mistakes_are_one_sentence(shop: Path, words: Sequence[str], told: str) -> None:
    result = rewardlab(shop, *words, HOME=str(shop))
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert told in line
