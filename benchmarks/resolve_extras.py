"""Do the optional extras resolve together, from wheels alone, without CUDA, on every Python that we support?

    python benchmarks/resolve_extras.py          (needs uv: pip install uv; nothing is installed)

Prints a table and exits 1 if an extra does not resolve, brings CUDA, or brings two packages that overwrite each other.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
PYTHONS = ("3.11", "3.12")
PLATFORM = "x86_64-manylinux_2_28"  # where wheels with CUDA exist
WITHOUT_WHEELS = ("cellpylib", "pycosat", "zss")  # published as source alone; reasoning-gym needs them
CUDA = re.compile(r"cuda|nvidia|cudnn|nccl|cublas|triton|rocm", re.IGNORECASE)
SAME_FILES = ({"pygame", "pygame-ce"}, {"box2d", "box2d-py"})  # distributions that install the same module


class ResolutionError(RuntimeError):
    """No set of packages fits."""


def extras() -> list[str]:
    return list(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"].get("optional-dependencies", {}))


def uv() -> list[str]:
    found = shutil.which("uv")
    return [found] if found else [sys.executable, "-m", "uv"]


def resolve(python: str, chosen: list[str]) -> dict[str, str]:
    """The packages and their versions that RewardLab needs with these extras."""
    command = [*uv(), "pip", "compile", PROJECT.name, "--python-version", python, "--python-platform", PLATFORM]
    command += ["--only-binary", ":all:", "--no-header", "--no-annotate", "--quiet"]
    command += [part for name in WITHOUT_WHEELS for part in ("--no-binary", name)]
    command += [part for extra in chosen for part in ("--extra", extra)]
    done = subprocess.run(command, cwd=PROJECT.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ResolutionError(done.stderr.strip())
    pins = (line.split(";")[0].strip().partition("==") for line in done.stdout.splitlines() if "==" in line)
    return {name.split("[")[0].lower(): version for name, _, version in pins}


def faults(packages: dict[str, str]) -> list[str]:
    """What should not be there."""
    found = [f"brings CUDA: {name}" for name in packages if CUDA.search(name)]
    clashes = [sorted(names) for names in SAME_FILES if names <= packages.keys()]
    return found + [f"{' and '.join(names)} overwrite each other" for names in clashes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=list(PYTHONS), metavar="VERSION")
    arguments = parser.parse_args()
    names = extras()
    rows: list[tuple[str, list[str]]] = [("(none)", []), *((name, [name]) for name in names), ("all together", names)]
    print(f"{'Python':<8}{'extra':<16}{'packages':>9}{'jax':>10}   verdict")
    failed = False
    for python in arguments.python:
        for label, chosen in rows:
            try:
                packages = resolve(python, chosen)
                wrong = faults(packages)
            except ResolutionError as error:
                packages, wrong = {}, ["does not resolve"]
                print(error, file=sys.stderr)
            failed |= bool(wrong)
            counted = f"{len(packages) or '–':>9}{packages.get('jax', '–'):>10}"
            print(f"{python:<8}{label:<16}{counted}   {'; '.join(wrong) or 'resolves, no CUDA'}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
