"""The sandbox of a server that is not root, and control groups."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import rewardlab
from rewardlab.arena import sandbox, seccomp
from rewardlab.arena.cgroups import Group

NOBODY = 65534
SCRIPT = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from rewardlab.arena import sandbox, seccomp
assert os.getuid() == {uid}
assert sandbox.problems() == [], sandbox.problems()
words = "id -u; grep CapEff /proc/self/status; ls -A /bundle; unshare -U true && echo nested; touch /usr/x && echo yes"
with sandbox.Sandbox(Path(sys.argv[2]), ["/bin/sh", "-c", words + "; echo end"], sandbox.Limits()) as made:
    said = b""
    while not said.endswith(b"end\\n"):
        said += made.read(1, 20)
    print(said.decode())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bwrap") is None or not Path("/usr/bin/python3").exists(),
    reason="needs root (to become somebody else), bubblewrap and the system's python3",
)
def test_a_server_that_is_not_root_holds_code_in_a_user_namespace(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "mine").touch()
    for folder in (bundle, *bundle.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    source = Path(rewardlab.__file__).parent.parent
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", SCRIPT.format(uid=NOBODY), str(source), str(bundle)],
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        check=False,
    )
    if "Permission denied" in ran.stderr or "No module named" in ran.stderr:
        pytest.skip("nobody may not read this checkout")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(NOBODY), "CapEff:", "0000000000000000", "mine", "end"]


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
