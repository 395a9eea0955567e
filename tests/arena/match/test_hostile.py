"""Bundles that mean harm: each ends as docs/arena.md says, and the machine is as it was."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import socket
import stat
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.arena.conftest import bundle

from rewardlab.arena import sandbox
from rewardlab.arena.cgroups import Group
from rewardlab.arena.errors import ArenaError
from rewardlab.arena.match import bundles, strangers
from rewardlab.arena.match.play import Table, play_match, try_policy
from rewardlab.arena.sandbox import Limits, Sandbox
from rewardlab.cogs.errors import CogsError

HELD = pytest.mark.skipif(bool(sandbox.problems()), reason="; ".join(sandbox.problems()))
POLICY = """
from rewardlab.cogs.policies.api import MultiAgentPolicy
{top}
class Policy(MultiAgentPolicy):
    def __init__(self, info, device="cpu", **kwargs):
        super().__init__(info)
        self.steps = 0
        {init}
    def agent_policy(self, agent_id):
        raise NotImplementedError
    def step_batch(self, raw_observations, raw_actions):
        self.steps += 1
        {step}
"""
SPEC = {"class_path": "policy.Policy"}
SMALL = Limits(memory=1 << 30, cpu_seconds=20, file_bytes=1 << 20, processes=24, scratch=4 << 20)


def code(top: str = "", init: str = "pass", step: str = "pass") -> bytes:
    return bundle(SPEC, {"policy.py": POLICY.format(top=top, init=init, step=step)})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    tmp_path.chmod(0o711)
    for parent in tmp_path.parents:  # the sandboxed uid passes through to its bundle
        if str(parent) != "/" and not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(0o711)
    return Table(lambda name: tmp_path / f"{name}.zip", tmp_path / "unpacked", SMALL)


def tried(table: Table, data: bytes, timeout: float = 1.0) -> tuple[str | None, str]:
    name = hashlib.sha256(data).hexdigest()
    table.fetch(name).write_bytes(data)
    return try_policy(name, table, timeout)


def zipped(*members: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as packed:
        warnings.filterwarnings("ignore", "Duplicate name")
        for member, content in members:
            packed.writestr(member, content)
    return written.getvalue()


def packed_by(method: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as packed:
        packed.writestr(*SPEC_FILE)
    return written.getvalue()


def said(text: str, *more: tuple[str, bytes]) -> bytes:
    """A bundle with this policy_spec.json."""
    return zipped(("policy_spec.json", text.encode()), *more)


def arguments(name: str, text: str) -> bytes:
    return said(f'{{"class_path": "{name}", "init_kwargs": {text}}}')


def weights(content: bytes) -> bytes:
    return said('{"class_path": "mlp", "data_path": "w.safetensors"}', ("w.safetensors", content))


def arrays(**shapes: Any) -> bytes:
    from safetensors.numpy import save

    made: bytes = save({name.replace("_", "."): np.zeros(shape, np.float32) for name, shape in shapes.items()})
    return made


def header_of(kind: str) -> bytes:
    head = json.dumps({"hidden.bias": {"dtype": kind, "shape": [4], "data_offsets": [0, 8]}}).encode()
    return len(head).to_bytes(8, "little") + head + b"\0" * 8


def link(name: str, mode: int = stat.S_IFLNK) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.external_attr = (mode | 0o777) << 16
    return member


SPEC_FILE = ("policy_spec.json", b'{"class_path": "role"}')


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (zipped(SPEC_FILE, ("../evil.py", b"1")), "points outside"),
        (zipped(SPEC_FILE, ("/etc/evil", b"1")), "points outside"),
        (zipped(SPEC_FILE, ("..\\evil.py", b"1")), "points outside"),
        (zipped(SPEC_FILE, ("a/../../evil", b"1")), "points outside"),
        (zipped(SPEC_FILE, (link("weights"), b"/etc/passwd")), "is a link"),
        (zipped(SPEC_FILE, (link("pipe", stat.S_IFIFO), b"")), "is a link or a device"),
        (b"PK not really", "not a readable zip"),
        (b"", "not a readable zip"),
        (zipped(("other.txt", b"1")), "no policy_spec.json"),
        (zipped(("policy_spec.json", b"{")), "not valid JSON"),
        (zipped(("policy_spec.json", b'{"class_path": "role", "clas": 1}')), "unknown key 'clas'"),
        (zipped(("policy_spec.json", b'{"class_path": "role", "data_path": "../../etc/passwd"}')), "outside"),
        (
            zipped(("policy_spec.json", b'{"class_path": "mlp", "data_path": "w.pkl"}'), ("w.pkl", b"cos\nsystem\n")),
            ".safetensors",
        ),
        (
            zipped(
                ("policy_spec.json", b'{"class_path": "mlp", "data_path": "w.safetensors"}'),
                ("w.safetensors", b"\xff" * 64),
            ),
            "no readable safetensors",
        ),
        (zipped(("policy_spec.json", b'{"class_path": "role", "init_kwargs": {"miner": -1}}')), "whole number"),
        (
            zipped(("policy_spec.json", b'{"class_path": "role", "setup_script": "s.sh"}'), ("s.sh", b"reboot")),
            "setup_script",
        ),
    ],
)
def test_bundles_that_are_refused_by_looking_at_them(table: Table, data: bytes, told: str) -> None:
    _, reason = tried(table, data)
    assert told in reason
    assert str(table.unpacked.parent) not in reason  # nothing of the server's own paths
    assert not list(table.unpacked.parent.glob("evil*"))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (zipped(SPEC_FILE, ("a", b"1"), ("a", b"2")), "'a' twice"),
        (zipped(SPEC_FILE, ("policy_spec.json", b'{"class_path": "noop"}')), "twice"),
        (zipped(SPEC_FILE, ("a", b"1"), ("a/b", b"2")), "'a/b' twice"),
        (zipped(SPEC_FILE, ("a/b", b"1"), ("a", b"2")), "'a' twice"),
        (zipped(SPEC_FILE, ("a/b", b"1"), ("./a//b", b"2")), "twice"),
        (zipped(SPEC_FILE, ("x" * 300, b"1")), "255 bytes"),
        (zipped(SPEC_FILE, ("\u00fc" * 200, b"1")), "255 bytes"),
        (zipped(SPEC_FILE, ("a\x1b[2Jb", b"1")), "can be printed"),
        (zipped(SPEC_FILE, ("\u202eyp.evil", b"1")), "can be printed"),  # reads from right to left
        (zipped(SPEC_FILE, (".", b"1")), "twice"),
        (zipped(SPEC_FILE, ("C:\\evil", b"1")), "points outside"),
        (zipped(("policy_spec.json/x", b"1")), "no policy_spec.json"),
        (packed_by(zipfile.ZIP_LZMA), "other than deflate"),
        (packed_by(zipfile.ZIP_BZIP2), "other than deflate"),
        (
            zipped(SPEC_FILE).replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"),
            "encrypted",
        ),
        (b"PK\x01\x02".ljust(46, b"\0") * 30_000, "very many files"),
        (said("[" * 100_000), "not valid JSON"),
        (said('{"class_path": ' + "9" * 10_000 + "}"), "not valid JSON"),
        (said('{"class_path": "role", "init_kwargs": {"miner": 1}}' + " " * (1 << 20)), "larger than 1 MiB"),
        (arguments("role", '{"miner": 1000000000000}'), "never more than"),
        (arguments("role", '{"policy_env_info": 1}'), "cannot be made"),
        (arguments("mlp", '{"seed": null}'), "whole number"),  # dice that nobody could throw again
        (arguments("mlp", '{"seed": -1}'), "whole number"),
        (arguments("mlp", '{"hidden": 1000000000}'), "cannot be made"),
        (weights(arrays(hidden_bias=())), "the policy mlp needs"),
        (weights(arrays(hidden_bias=100_000)), "the policy mlp needs"),
        (weights(header_of("BF16")), "the policy mlp needs"),
        (weights(header_of("X9")), "no readable safetensors"),
        (said('{"class_path": "mlp", "data_path": "w.safetensors"}', ("w.safetensors/a", b"1")), "w.safetensors"),
    ],
)
def test_odder_bundles_are_refused_in_a_sentence_too(table: Table, data: bytes, told: str) -> None:
    start = time.monotonic()
    _, reason = tried(table, data)
    assert told in reason
    assert reason.isprintable()
    assert str(table.unpacked.parent) not in reason
    assert time.monotonic() - start < 5


def test_plain_names_in_every_script_are_taken(table: Table) -> None:
    names = ("\u00fcber/\u7b56\u7565.txt", "a b", "a/", "a/b/", "a/b/c", "policy.py~")
    assert tried(table, zipped(SPEC_FILE, *((name, b"") for name in names))) == ("weights", "")


def test_a_zip_bomb_stops_at_the_limit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MOST_BYTES", 1 << 20)
    data = zipped(SPEC_FILE, ("zeros", b"\0" * (8 << 20)))
    assert len(data) < 20_000
    _, reason = tried(table, data)
    assert "unpacks to more than 1 MiB" in reason
    assert list(table.unpacked.iterdir()) == []  # what was unpacked before is gone


def test_a_zip_that_lies_about_its_sizes_stops_as_well(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MOST_BYTES", 1 << 20)
    data = zipped(SPEC_FILE, ("zeros", b"\0" * (8 << 20)))
    _, reason = tried(table, data.replace((8 << 20).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert reason  # cut off at what it claims, so its checksum fails; or over the limit
    assert list(table.unpacked.iterdir()) == []


def test_a_zip_of_very_many_files_is_refused(table: Table) -> None:
    data = zipped(SPEC_FILE, *((f"f{i}", b"") for i in range(bundles.MOST_FILES)))
    assert "2001 files" in tried(table, data)[1]


@HELD
def test_a_policy_that_does_no_harm_is_accepted(table: Table) -> None:
    assert tried(table, code(step="raw_actions[:] = 1")) == ("code", "")


def still_running() -> list[int]:
    """Processes of the uids that sandboxes of this process get; others may use the machine at the same time."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and place.stat().st_uid in sandbox.uids():
                found.append(int(place.name))
    return found


def secret_in(folder: Path) -> Path:
    file = folder / "secret"
    file.write_text("server's secret")
    file.chmod(0o644)  # open to everybody on this machine, and yet not in sight
    return file


@HELD
def test_the_servers_files_environment_and_processes_are_not_in_sight(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARDLAB_SECRET", "hidden")
    secret = secret_in(tmp_path)
    seen = f"""
import os, pathlib
def look():
    found = []
    places = ({str(secret)!r}, {str(tmp_path)!r}, {str(Path.home())!r} + "/.ssh")
    for path in (*places, "/etc/passwd", "/etc/shadow", "/var"):
        found += [path] if os.path.exists(path) else []
    found += [name for name in os.environ if "SECRET" in name]
    own = os.getpid()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path("/proc", pid, "cmdline").read_text()
        except OSError:
            continue
        if "pytest" in line:
            found.append(line)
    for root, _, files in os.walk("/bundle/.."):
        found += [root] if "secret" in files else []
    return found
"""
    assert tried(table, code(top=seen, init="found = look(); assert not found, found")) == ("code", "")


@HELD
def test_there_is_no_network(table: Table) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    step = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
    kind, reason = tried(table, code(init=step))
    assert kind == "code"
    assert "Error" in reason
    server.settimeout(0.2)
    with pytest.raises(TimeoutError):
        server.accept()
    server.close()
    outside = "import socket; socket.create_connection(('1.1.1.1', 53), 1)"
    assert "unreachable" in tried(table, code(init=outside))[1]


@HELD
@pytest.mark.parametrize("place", ["/bundle/x", "/x", "/usr/x", "/dev/x", "/proc/sys/kernel/hostname", "/etc/x"])
def test_nothing_can_be_written_outside(table: Table, place: str) -> None:
    assert "Error" in tried(table, code(init=f"open({place!r}, 'w').write('x')"))[1]


@HELD
def test_its_own_room_is_small(table: Table) -> None:
    one = "open('/tmp/a', 'wb').write(b'0' * (2 << 20))"  # a file of more than 1 MiB
    assert "File too large" in tried(table, code(init=one))[1]
    many = "[open(f'/tmp/{i}', 'wb').write(b'0' * (1 << 19)) for i in range(40)]"  # 20 MiB in a room of 4
    assert "No space left" in tried(table, code(init=many))[1]


@HELD
def test_a_fork_bomb_ends_with_its_sandbox(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "START", 2.0)
    bomb = (
        "import os\n        while True:\n            try:\n                os.fork()\n            except OSError: pass"
    )
    start = time.monotonic()
    _, reason = tried(table, code(step=bomb), timeout=0.2)
    assert "no answer in 2 seconds" in reason
    assert time.monotonic() - start < 20
    assert still_running() == []
    assert tried(table, code())[1] == ""


@HELD
def test_processes_are_counted_per_sandbox(table: Table) -> None:
    top = """
import subprocess, sys
def many():
    alive = []
    try:
        for _ in range(200):
            alive.append(subprocess.Popen(["/bin/sleep", "60"]))
    except OSError:
        pass
    return len(alive)
"""
    assert tried(table, code(top=top, init=f"n = many(); assert n < {SMALL.processes}, n")) == ("code", "")


@HELD
def test_a_memory_hog_is_stopped(table: Table) -> None:
    hog = "self.held = bytearray(3 << 30)"
    _, reason = tried(table, code(init=hog))
    assert "MemoryError" in reason or "memory" in reason
    shared = """
import os, time
def children():
    for _ in range(3):
        if os.fork() == 0:
            held = bytearray(300 << 20)
            for i in range(0, len(held), 4096): held[i] = 1
            time.sleep(30)
    time.sleep(3)
"""
    table = Table(table.fetch, table.unpacked, Limits(memory=512 << 20))
    start = time.monotonic()
    _, reason = tried(table, code(top=shared, init="children()"))
    assert time.monotonic() - start < 60
    trial = Group.make(1 << 30, 10)
    if trial is not None:  # all of them together are bounded where there are cgroups
        trial.close()
        assert "used more than 512 MiB of memory" in reason


@HELD
@pytest.mark.parametrize("where", ["init", "step"])
def test_an_endless_loop_is_stopped(table: Table, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "START", 2.0)
    loop = "while True: pass"
    start = time.monotonic()
    _, reason = tried(table, code(**{where: loop}), timeout=0.1)
    assert "no answer in 2 seconds" in reason
    assert time.monotonic() - start < 20


@HELD
def test_a_flood_of_output_fills_nothing(table: Table) -> None:
    flood = "import sys; [stream.write('x' * 65536) for stream in (sys.stdout, sys.stderr) for _ in range(2000)]"
    assert tried(table, code(init=flood), timeout=5) == ("code", "")


@HELD
def test_garbage_in_place_of_answers_harms_only_itself(table: Table) -> None:
    top = """
import os
def everywhere():
    for fd in range(3, 20):
        try:
            os.write(fd, b"\\xff" * 65536)
        except OSError:
            pass
"""
    _, reason = tried(table, code(top=top, step="everywhere()"))
    assert "which no answer has" in reason


@HELD
@pytest.mark.parametrize(
    ("init", "told"),
    [
        ("import os; os._exit(3)", "ended with status 3"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os; os.kill(1, 9); os.kill(-1, 9)", ""),
        ("raise BaseException", "BaseException"),
    ],
)
def test_policies_that_end_themselves(table: Table, init: str, told: str) -> None:
    _, reason = tried(table, code(init=init))
    assert reason
    assert told in reason


@HELD
def test_what_a_policy_says_drives_no_terminal_and_fits_every_database(table: Table) -> None:
    said = r"'a\x00b\x1b]0;owned\x07\u202e\udcff'"
    _, reason = tried(table, code(init=f"raise ValueError({said})"))
    assert reason.startswith("The policy cannot be loaded: ValueError: a")
    assert reason.isprintable()
    sha256 = hashlib.sha256(talker := code(init=r"import os; os.write(2, b'\x00\x1b[2J\xff said\n')")).hexdigest()
    table.fetch(sha256).write_bytes(talker)
    spec: dict[str, Any] = {"mission": "cogsguard_arena.basic", "cogs": 4, "steps": 2, "timeout": 0.5, "seed": 1}
    spec |= {"policies": [{"name": "t", "version": 1, "sha256": sha256}], "counts": [4], "replay": False}
    log = play_match(spec, table).log
    assert "said" in log
    assert log.replace("\n", "").isprintable()


@HELD
def test_privileges_cannot_be_won_back(table: Table) -> None:
    top = """
import ctypes, os, resource
def try_all():
    won = []
    for name, act in {
        "setuid": lambda: os.setuid(0),
        "chroot": lambda: os.chroot("/tmp"),
        "mount": lambda: ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0 or 1 / 0,
        "namespace": lambda: ctypes.CDLL(None).unshare(0x10000000) == 0 or 1 / 0,
        "user namespace by clone": lambda: ctypes.CDLL(None).syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0 or 1 / 0,
        "another's memory": lambda: ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 or 1 / 0,
        "limits": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)),
    }.items():
        try:
            act()
        except (OSError, ValueError, ZeroDivisionError):
            continue
        won.append(name)
    assert os.getuid() != 0
    return won
"""
    assert tried(table, code(top=top, init="won = try_all(); assert not won, won")) == ("code", "")


@HELD
def test_a_policy_that_plays_well_at_first_and_crashes_later(table: Table) -> None:
    later = "raw_actions[:] = 1\n        if len(raw_observations) == 4 and self.steps > 5: import os; os._exit(1)"
    data = code(step=later)
    assert tried(table, data) == ("code", "")  # two cogs are tried
    spec: dict[str, Any] = {"mission": "cogsguard_arena.basic", "cogs": 4, "steps": 10, "timeout": 0.5, "seed": 1}
    sha256 = hashlib.sha256(data).hexdigest()
    spec |= {"policies": [{"name": "late", "version": 1, "sha256": sha256}], "counts": [4], "replay": False}
    outcome = play_match(spec, table)
    assert outcome.steps == 10  # the match is played to its end, with noops
    assert outcome.faults[0]["errors"] == 6  # its first step is the unmeasured one, so 5 to 10 failed
    assert "ended with status 1" in outcome.faults[0]["first"]


def test_a_policy_that_cannot_be_made_any_more_rests(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise CogsError("The policy cannot be loaded: ImportError.")

    monkeypatch.setattr("rewardlab.arena.match.play.StrangersPolicy", type("Gone", (), {"__new__": fails}))
    data = code()
    sha256 = hashlib.sha256(data).hexdigest()
    table.fetch(sha256).write_bytes(data)
    spec: dict[str, Any] = {"mission": "cogsguard_arena.basic", "cogs": 4, "steps": 10, "timeout": 0.5, "seed": 1}
    spec |= {"policies": [{"name": "gone", "version": 1, "sha256": sha256}], "counts": [4], "replay": False}
    outcome = play_match(spec, table)
    assert outcome.faults[0]["errors"] == 10
    assert outcome.faults[0]["first"].endswith("ImportError.")


def test_bundles_that_were_not_used_for_long_make_room(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewardlab.arena.match.play.MOST_UNPACKED", 2)
    for i in range(5):
        table.fetch(str(i)).write_bytes(bundle({"class_path": "role"}))
        assert table.bundle(str(i)).kind == "weights"
    assert len(list(table.unpacked.iterdir())) == 3  # two, and the one at hand
    assert table.bundle("0").kind == "weights"  # it is unpacked anew


@HELD
def test_without_a_sandbox_code_is_refused(table: Table) -> None:
    refusing = Table(table.fetch, table.unpacked, takes_code=False)
    kind, reason = tried(refusing, code())
    assert kind == "code"
    assert "takes no bundles with code" in reason
    assert tried(refusing, bundle({"class_path": "role"})) == ("weights", "")


@HELD
def test_two_sandboxes_do_not_see_each_other(table: Table, tmp_path: Path) -> None:
    (tmp_path / "y.zip").write_bytes(code(top="SECRET = 'of the other'"))
    bundles.unpack(tmp_path / "y.zip", table.unpacked / "y")
    look = (
        "import os; assert sorted(os.listdir('/bundle')) == ['policy.py', 'policy_spec.json']; "
        f"assert not os.path.exists({str(table.unpacked)!r})"
    )
    assert tried(table, code(init=look)) == ("code", "")


@HELD
def test_a_sandbox_leaves_nothing_behind(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sandbox] = []

    class Watched(Sandbox):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(strangers, "Sandbox", Watched)
    for _ in range(3):
        assert tried(table, code()) == ("code", "")
    assert len(made) == 3
    assert all(one.process.returncode is not None and not one._reader.is_alive() for one in made)
    assert [folder for one in made if one._group for folder in one._group.folders if folder.exists()] == []
    assert still_running() == []


def test_unpacking_names_the_sentence_not_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(("other", b"")))
    with pytest.raises(ArenaError, match=r"holds no policy_spec\.json"):
        bundles.look(bundles.unpack(tmp_path / "a.zip", tmp_path / "a"))
