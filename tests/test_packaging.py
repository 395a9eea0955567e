"""The wheel holds what the package reads: specs, tables, the typing marker, the licence, and the commands' modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
UV = os.environ.get("UV") or shutil.which("uv")  # `uv run` names itself


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    if UV is None:
        pytest.skip("uv, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    command = [UV, "build", "--wheel", "--quiet", "--python", sys.executable, "--out-dir", str(folder), str(TOP)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_everything_under_the_package_and_every_spec_is_in_it(wheel: zipfile.ZipFile) -> None:
    source, specs = TOP / "src" / "rewardlab", TOP / "specs"
    kept = [p for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    wanted = {f"rewardlab/{p.relative_to(source).as_posix()}" for p in kept}
    wanted |= {f"rewardlab/{p.relative_to(TOP).as_posix()}" for p in (TOP / "configs").rglob("*.yaml")}
    wanted |= {f"rewardlab/specs/{p.relative_to(specs).as_posix()}" for p in specs.rglob("*.yaml")}
    assert wanted - set(wheel.namelist()) == set()
    assert {"rewardlab/py.typed", "rewardlab/experiment/random_baseline.json"} <= wanted


def test_nothing_else_is_in_it(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top.split("-")[0] for top in tops} == {"rewardlab"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_commands_are_there(wheel: zipfile.ZipFile) -> None:
    scripts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert {"rewardlab", "slm-lab", "cogames"} <= set(scripts)
    for target in scripts.values():
        module, _, function = target.partition(":")
        text = wheel.read(module.replace(".", "/") + ".py").decode()
        assert f"def {function}(" in text


def test_specs_are_found_from_the_wheel_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "from rewardlab.spec import find, load; load('ppo_cartpole'); print(find('ppo_cartpole'))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path.resolve())
