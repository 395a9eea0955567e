"""Where a run comes from: the code, the versions and the machine's kind; never a host's name or a path."""

from __future__ import annotations

import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("rewardlab", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "safetensors")
_SOURCE = Path(__file__).resolve().parents[1]


def provenance(seed: int, started: datetime | None = None) -> dict[str, Any]:
    """The `_run` block of a trial's spec."""
    import jax

    devices = jax.devices()
    return {
        "seed": seed,
        "started": (started or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        "git": git_state(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "x64": str(jax.dtypes.canonicalize_dtype("float64")) == "float64",
        },
        "machine": {"system": sys.platform, "architecture": platform.machine(), "cpu": _cpu_model()},
    }


def git_state(source: Path = _SOURCE) -> dict[str, Any] | None:
    """The commit of the checkout that this package is imported from, and whether what it runs differs from that commit;
    None when it is installed (a site-packages folder may lie inside somebody else's repository)."""
    top = _git(source, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "rewardlab" != source:
        return None
    sha = _git(source, "rev-parse", "HEAD")
    changes = _git(Path(top), "status", "--porcelain", "--", "src", "pyproject.toml")
    return {"sha": sha, "dirty": sha is None or changes is None or bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None  # run from its source folder without being installed: the git SHA says which


def _cpu_model() -> str | None:
    """The processor's name: XLA compiles for its instruction set, so the bits of a run depend on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
