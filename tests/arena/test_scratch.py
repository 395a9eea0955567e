"""What killed workers leave behind goes with the next start; what living ones have stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rewardlab.arena import cgroups
from rewardlab.arena.scratch import PREFIX, Scratch, sweep

HOLD = "import sys; from pathlib import Path; from rewardlab.arena.scratch import Scratch; "
HOLD += "s = Scratch(Path(sys.argv[1])); print(s.path, flush=True); sys.stdin.read()"


def aged(folder: Path) -> Path:
    """As if it had been made two hours ago."""
    os.utime(folder, (time.time() - 7200,) * 2)
    return folder


def test_a_killed_workers_folder_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        (held / "bundles").mkdir()
        (held / "bundles" / "large").write_bytes(b"0" * 1000)
        (tmp_path / f"{PREFIX}of-another-kind").mkdir()
        sweep(tmp_path)
        sweep(aged(held).parent)
        assert held.is_dir()  # it lives
        process.kill()
        process.wait()
    aged(held)
    mine = Scratch(tmp_path)
    assert not held.exists()
    assert (tmp_path / f"{PREFIX}of-another-kind").is_dir()  # no lock: none of ours
    mine.remove()
    mine.remove()
    assert not mine.path.exists()


def test_old_empty_groups_are_removed(tmp_path: Path) -> None:
    old, young, full = (tmp_path / f"rewardlab-{name}" for name in ("old", "young", "full"))
    for folder in (old, young, full):
        folder.mkdir()
    (full / "process").touch()  # a group with somebody in it cannot be removed, as a folder with a file cannot
    aged(old)
    aged(full)
    cgroups.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == [full, young]
