"""A checkout of this package with a small board: two rows that are run in seconds, one of which no run can fill."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.commands import command, environment

SOURCE = Path(__file__).parents[2]
SPECS = """
_agent: &agent
  algorithm: {name: REINFORCE, training_frequency: 32}
  net: {hid_layers: [8], optim_spec: {lr: 0.003}}
_env: &env {num_envs: 4, max_frame: 2048}
_meta: &meta {max_session: 2, log_frequency: 128, eval_frequency: 2048}
reinforce_cartpole: {agent: *agent, env: {<<: *env, name: CartPole-v1}, meta: *meta}
reinforce_acrobot: {agent: *agent, env: {<<: *env, name: Acrobot-v1}, meta: *meta}
reinforce_acrobot_lam70: {agent: *agent, env: {<<: *env, name: Acrobot-v1}, meta: *meta}
reinforce_atari: {agent: *agent, env: {<<: *env, name: "${env:ALE/Pong-v5}"}, meta: *meta}
"""


def row(env: str, target: str) -> dict[str, Any]:
    settings = {"max_frame": 2048, "num_envs": 4, "max_session": 2, "log_frequency": 128}
    told = {"category": "Classic Control", "env": env, "algorithm": "REINFORCE", "target": target, "published": None}
    return {**told, "settings": settings}


def checkout(folder: Path) -> Path:
    """All of it committed, so that the audit has nothing against the code."""
    shutil.copytree(SOURCE / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    rows = [row("CartPole-v1", "> 12"), row("Acrobot-v1", "> -10")]
    (folder / "src/rewardlab/boards/targets.json").write_text(json.dumps({"rows": rows}))
    (folder / "specs" / "reinforce").mkdir(parents=True)
    (folder / "specs" / "reinforce" / "reinforce_small.yaml").write_text(SPECS)
    (folder / "benchmarks" / "runs").mkdir(parents=True)
    (folder / ".gitignore").write_text("__pycache__\ndata\nhub\ncache\n")
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "small"], cwd=folder, check=True)
    return folder


def around(folder: Path) -> dict[str, str]:
    """The environment in which this checkout is the package."""
    return environment(folder) | {"PYTHONPATH": str(folder / "src"), "RAY_AUTH_MODE": "disabled"}


def program(folder: Path) -> str:
    """How this checkout is called elsewhere."""
    told = f"JAX_PLATFORMS=cpu JAX_COMPILATION_CACHE_DIR={folder / 'cache'} PYTHONPATH={folder / 'src'}"
    return f"env {told} {sys.executable} -m rewardlab.cli.app"


def bench(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`rewardlab bench run` in the checkout."""
    line = command("bench", "run", *words)
    return subprocess.Popen(line, cwd=folder, env=around(folder), stderr=subprocess.PIPE, text=True)


def commits(folder: Path) -> list[str]:
    """The subjects of what was committed, the newest first."""
    words = ["git", "log", "--format=%s"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
