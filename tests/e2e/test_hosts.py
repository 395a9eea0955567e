"""One training in two real processes: the bits of one; stopped, resumed; and what is said of one that is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.commands import command, environment, run
from tests.remote.test_remote import free_port

from rewardlab.experiment.record import RunFolder, first_difference
from rewardlab.experiment.trial import Trial, run_trial
from rewardlab.spec import Spec, dump, load

pytestmark = pytest.mark.slow

SPEC = """
_reinforce: &reinforce
  algorithm: {name: REINFORCE, training_frequency: 32}
  net: {hid_layers: [16], optim_spec: {lr: 0.003}}
_env: &env {name: CartPole-v1, num_envs: 4, normalize_obs: true}
_meta: &meta {log_frequency: 128, eval_frequency: 1024}
shared: {agent: *reinforce, env: {<<: *env, max_frame: 2048}, meta: {<<: *meta, max_session: 2, rigorous_eval: 1}}
spread: {agent: *reinforce, env: {<<: *env, max_frame: 1024}, meta: {<<: *meta, max_session: 1, distributed: true}}
endless: {agent: *reinforce, env: {<<: *env, max_frame: 400000000}, meta: {<<: *meta, max_session: 2}}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "two.yaml").write_text(SPEC)
    return folder


def both(shop: Path, *words: str, slurm: bool = False) -> list[subprocess.Popen[str]]:
    """Two processes of one core each, named by options or as Slurm would."""
    started, port, cores = [], free_port(), sorted(os.sched_getaffinity(0))
    for i in range(2):
        where = ["--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process", str(i)]
        around = environment(shop)
        if slurm:
            where = ["--coordinator", "auto"]
            around |= {"SLURM_JOB_ID": str(port), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
            around |= {"SLURM_PROCID": str(i), "SLURM_LOCALID": str(i), "JAX_COORDINATOR_PORT": str(port)}
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        line = ["taskset", "-c", str(cores[i % len(cores)]), *command("run", *words, *where)]
        started.append(subprocess.Popen(line, cwd=shop, env=around, **options))
    return started


def ends(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit status, stdout and stderr of each."""
    told = [process.communicate(timeout=200) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, told, strict=True)]


def alone(shop: Path, name: str, root: Path) -> Path:
    """The same spec in this process, which has two devices."""
    spec: Spec = load(shop / "two.yaml", name)
    folder = RunFolder.create(name, root)
    folder.write_specs(dump(spec), {})
    assert run_trial(Trial.create(spec), folder) is not None
    return folder.path


@pytest.mark.parametrize("name", ["shared", "spread"])
def test_two_processes_are_one_run_to_the_bit(shop: Path, tmp_path: Path, name: str) -> None:
    """A share of the sessions each; a share of the environments each, with gradients added over the network."""
    (led, out, err), followed = ends(both(shop, "two.yaml", name))
    assert (led, followed[0]) == (0, 0), err + followed[2]
    assert followed[1:] == ("", "")  # process 0 alone says something
    assert "trial_metrics: frame:" in out
    assert "Gloo" not in out + err
    (path,) = (shop / "data").glob(f"{name}_20*")
    assert first_difference(path, alone(shop, name, tmp_path)) is None
    assert RunFolder.open(path).read_run()["device"]["count"] == 2


def wait_for(path: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None and not list(path.glob(pattern)):
        time.sleep(0.05)


def test_stopped_in_one_process_it_stops_in_both_and_goes_on(shop: Path) -> None:
    processes = both(shop, "two.yaml", "endless", "--data", "stopped")
    wait_for(shop / "stopped", "*/log/timing.jsonl", processes[0])
    processes[1].send_signal(signal.SIGINT)  # the one that keeps no record
    (led, out, err), (followed, *_) = ends(processes)
    assert (led, followed) == (143, 130), err
    assert "checkpoint saved; to go on:" in out
    again = both(shop, "endless", "train@latest", "--data", "stopped", slurm=True)
    (path,) = (shop / "stopped").iterdir()
    length = (path / "log" / "timing.jsonl").stat().st_size
    until = time.monotonic() + 120
    while time.monotonic() < until and (path / "log" / "timing.jsonl").stat().st_size == length:
        time.sleep(0.05)
    again[0].kill()  # process 0 too, by which the others meet
    (led, out, _), (followed, _, err) = ends(again)
    assert "resuming at frame " in out
    assert "resuming at frame 0" not in out
    assert (led, followed) == (-9, 1)
    (line,) = err.strip().splitlines()
    assert line.startswith("rewardlab: another of the processes is gone, so this one stops: train@latest goes on")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--processes", "2"], "--processes and --process need --coordinator HOST:PORT, where process 0 listens"),
        (["--coordinator", "here"], "--coordinator is 'here', expected HOST:PORT, or auto"),
        (["--coordinator", "here:1", "--processes", "2", "--process", "2"], "with I from 0 to N - 1"),
        (["search", "--coordinator", "auto"], "--coordinator belongs to the mode train: search is one process"),
        (["--coordinator", "auto"], "nothing says where the processes meet"),
    ],
)
def test_mistakes_are_one_sentence(shop: Path, words: list[str], told: str) -> None:
    result = run(shop, "run", "two.yaml", "shared", *words)
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert told in line


def test_a_trial_that_cannot_be_shared_says_so(shop: Path) -> None:
    for code, _, err in ends(both(shop, "two.yaml", "shared", "-s", "meta.max_session=3")):
        assert code == 1
        (line,) = err.strip().splitlines()
        assert "2 processes share the sessions of a trial, and meta.max_session is 3" in line
