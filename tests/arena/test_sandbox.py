"""The sandbox of a server that is not root, and control groups."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.arena.conftest import QUICK, bundle

import rewardlab
from rewardlab.arena import sandbox, seccomp
from rewardlab.arena.cgroups import Group

NOBODY = 65534
SYSTEM_PYTHON = Path("/usr/bin/python3")
HELD = """
import os, sys
from pathlib import Path
from rewardlab.arena import sandbox
assert os.getuid() == {uid}
assert sandbox.problems() == [], sandbox.problems()
words = "id -u; grep CapEff /proc/self/status; ls -A /bundle; unshare -U true && echo nested; touch /usr/x && echo yes"
with sandbox.Sandbox(Path(sys.argv[1]), ["/bin/sh", "-c", words + "; echo end"], sandbox.Limits()) as made:
    said = b""
    while not said.endswith(b"end\\n"):
        said += made.read(1, 20)
    print(said.decode())
"""
PLAYED = """
import sys
from pathlib import Path
from rewardlab.arena.place import Place
from rewardlab.arena.season import read_season
from rewardlab.arena.shelf import hash_file
from rewardlab.arena.worker import Worker
place = Place(Path(sys.argv[1]) / "arena")
place.set_up()
place.seasons.add(read_season(Path(sys.argv[2]).read_text()))
alice = place.accounts.caller(place.accounts.make_token(place.accounts.add_user("alice")))
for file in map(Path, sys.argv[3:]):
    upload, key = place.policies.start_upload(alice)
    sha256, size = hash_file(file), file.stat().st_size
    place.policies.receive(upload, key, size, sha256)
    place.shelf.put("bundles/" + sha256 + ".zip", file)
    place.policies.complete(upload, alice, file.stem, "quick")
Worker(place, idle_seconds=0.01).run(until_idle=True)
for version, _ in place.policies.find(alice.user_id):
    print(version.name, version.kind, version.status, version.reason)
for match in place.seasons.matches():
    print("match", match["pool"], match["status"], [p["faults"]["first"] for p in match["players"]])
"""
POLICY = """
import os
from rewardlab.cogs.policies.api import MultiAgentPolicy
class Policy(MultiAgentPolicy):
    def __init__(self, info, device="cpu"):
        super().__init__(info)
        {init}
    def agent_policy(self, agent_id):
        raise NotImplementedError
    def step_batch(self, raw_observations, raw_actions):
        raw_actions[:] = 1
"""
BOMB = """children = []
        try:
            while len(children) < 500:
                children.append(os.posix_spawn("/bin/sleep", ["sleep", "20"], {}))
        except OSError:
            pass
        assert len(children) < 32, len(children)"""


def _open_to_all(place: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in place.parents)


@pytest.fixture(scope="module")
def as_nobody(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a script as somebody who is not root, in an environment of the system's Python with all of ours in it."""
    if os.geteuid() != 0 or shutil.which("bwrap") is None or not SYSTEM_PYTHON.exists():
        pytest.skip("needs root (to become somebody else), bubblewrap and the system's python3")
    home = tmp_path_factory.mktemp("nobody")
    for folder in (home, *home.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", home / "venv"], check=True)
    (there,) = (home / "venv/lib").glob("python*/site-packages")
    here = Path(np.__file__).parent.parent
    if there.parent.name != here.parent.name:
        pytest.skip("the system has another Python")
    if subprocess.run(["cp", "-al", f"{here}/.", there], capture_output=True, check=False).returncode:
        pytest.skip("the environment lies on another disk")
    (there / "rewardlab.pth").write_text(str(Path(rewardlab.__file__).parent.parent))
    os.chown(home, NOBODY, NOBODY)

    def run(script: str, *words: str | Path) -> str:
        line = [home / "venv/bin/python", "-c", script, *words]
        who: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
        ran = subprocess.run(line, capture_output=True, text=True, cwd=home, env=env, check=False, **who)
        assert ran.returncode == 0, ran.stderr
        return str(ran.stdout)

    if not _open_to_all(Path(rewardlab.__file__)):
        pytest.skip("nobody may not read this checkout")
    run.home = home  # type: ignore[attr-defined]
    return run


def test_a_server_that_is_not_root_holds_code_in_a_user_namespace(as_nobody: Any) -> None:
    bundle_ = as_nobody.home / "bundle"
    bundle_.mkdir()
    (bundle_ / "mine").touch()
    said = as_nobody(HELD.format(uid=NOBODY), bundle_)
    assert said.split() == [str(NOBODY), "CapEff:", "0000000000000000", "mine", "end"]


def test_a_server_that_is_not_root_plays_whole_matches_with_code(as_nobody: Any) -> None:
    """The good one plays beside one of ours; the one that asks for five hundred processes gets its share alone."""
    home = as_nobody.home
    (home / "quick.yaml").write_text(QUICK)
    for name, init in {"good": "pass", "bomb": BOMB, "reader": f"open({str(home / 'arena/arena.db')!r})"}.items():
        code = POLICY.format(init=init)
        (home / f"{name}.zip").write_bytes(bundle({"class_path": "policy.Policy"}, {"policy.py": code}))
    (home / "ours.zip").write_bytes(bundle({"class_path": "role"}))
    for file in home.glob("*.zip"):
        os.chown(file, NOBODY, NOBODY)
    files = [home / f"{name}.zip" for name in ("good", "ours", "bomb", "reader")]
    said = as_nobody(PLAYED, home, home / "quick.yaml", *files).splitlines()
    assert "good code accepted " in said
    assert "ours weights accepted " in said
    assert "bomb code accepted " in said
    (refused,) = (line for line in said if line.startswith("reader code refused"))
    assert "No such file or directory" in refused
    played = [line for line in said if line.startswith("match competition")]
    assert len(played) == 3 * 2  # all pairs of the three that were accepted, on two seeds
    assert all("completed ['', '']" in line for line in played)


def test_where_python_would_not_find_what_it_needs_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "TRIED", "import nothing_of_the_kind")
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    (reason,) = sandbox._problems.__wrapped__()
    assert reason == "Python cannot play in a sandbox: ModuleNotFoundError: No module named 'nothing_of_the_kind'"


def test_where_bubblewrap_is_missing_the_reason_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "bwrap" else name)
    assert sandbox._problems.__wrapped__() == ("bwrap is not installed (bubblewrap)",)


def test_a_group_is_made_with_its_bounds_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group.make(1 << 28, 7)
    if group is None:
        pytest.skip("no control group can be made here")
    told = "".join((folder / "pids.max").read_text() for folder in group.folders if (folder / "pids.max").exists())
    assert told.strip() == "7"
    process = subprocess.Popen(group.joined(["/bin/sleep", "60"]))
    while not any((folder / "cgroup.procs").read_text().strip() for folder in group.folders):
        pass
    assert not group.out_of_memory()
    group.close()  # with what runs in it
    assert process.wait(10) == -9
    assert not any(folder.exists() for folder in group.folders)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_lands_on_its_answer(machine: str) -> None:
    program = seccomp.program(machine)
    assert program is not None
    words = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]

    def answer(number: int, argument: int = 0, architecture: int = seccomp.MACHINES[machine][0]) -> int:
        data = {seccomp.NUMBER: number, seccomp.ARCHITECTURE: architecture, seccomp.FIRST_ARGUMENT: argument}
        held, at = 0, 0
        while True:  # the kernel's machine, as far as this filter uses it
            code, yes, no, value = words[at]
            if code == seccomp.ANSWER:
                return int(value)
            if code == seccomp.LOAD:
                held, at = data[value], at + 1
                continue
            test = {seccomp.EQUAL: held == value, seccomp.AT_LEAST: held >= value, seccomp.ANY_BIT: held & value}
            at += 1 + (yes if test[code] else no)

    _, refused, clone = seccomp.MACHINES[machine]
    assert all(answer(number) == 0x00050000 | 1 for number in (*refused, *seccomp.EVERYWHERE))  # EPERM
    assert answer(seccomp.CLONE3) == 0x00050000 | 38  # ENOSYS
    assert answer(clone, 0x10000000) == 0x00050000 | 1  # CLONE_NEWUSER
    assert answer(clone, 0x003D0F00) == seccomp.ALLOW  # the flags of a thread
    assert answer(0) == seccomp.ALLOW
    assert answer(0x40000000) == 0x00050000 | 1
    assert answer(0, architecture=1) == seccomp.KILL
