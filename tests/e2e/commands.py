"""Running the command line as a person would, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# one small spec with everything a resume can lose: replay, target network, schedules, statistics, episodes under way
SPEC = """
small:
  agent:
    algorithm: {name: DQN, training_frequency: 4, training_iter: 2, training_start_step: 200, gamma: 0.98,
                explore_var_spec: {name: linear_decay, start_val: 1.0, end_val: 0.1, end_step: 2000}}
    memory: {name: PrioritizedReplay, batch_size: 16, max_size: 2000}
    net: {hid_layers: [16], update_frequency: 100, lr_scheduler_spec: {name: LinearToZero}}
  env: {name: CartPole-v1, num_envs: 4, max_frame: 20000, normalize_obs: true, normalize_reward: true}
  meta: {max_session: 2, log_frequency: 200, eval_frequency: 1000, checkpoint_seconds: 0.0}
"""


def command(*words: str, module: str = "rewardlab.cli.app") -> list[str]:
    return [sys.executable, "-m", module, *words]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"), "JAX_PLATFORMS": "cpu"}


def run(
    folder: Path, *words: str, module: str = "rewardlab.cli.app", **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words, module=module),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        **options,
    )


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small spec in it; commands run there share a compilation cache."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "small.yaml").write_text(SPEC)
    return folder
