"""Who takes part in which task, how it is started, and on how many frames it is measured."""

from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
PPO_TASKS = ("ppo_cartpole", "ppo_cartpole_64")
ALL_TASKS = (*PPO_TASKS, "dqn_cartpole", "sac_pendulum")


@dataclass(frozen=True)
class Contestant:
    """`one_program`: four sessions are one program here, not four processes side by side."""

    name: str
    script: Path
    tasks: tuple[str, ...]
    in_peers_environment: bool = True
    one_program: bool = False
    options: tuple[str, ...] = ()
    sessions: tuple[int, ...] = (1, 4)

    def missing(self, peers_python: Path) -> str | None:
        """Why it cannot take part, or None."""
        if not self.script.exists():
            return f"{self.script.name} is not there yet"
        if self.in_peers_environment and not peers_python.exists():
            return f"no interpreter at {peers_python}; see benchmarks/README.md"
        return None


CONTESTANTS = (
    Contestant("rewardlab", BENCHMARKS / "ours.py", ALL_TASKS, in_peers_environment=False, one_program=True),
    Contestant("purejax", BENCHMARKS / "peers/purejax_ppo.py", PPO_TASKS, one_program=True),
    Contestant(
        "purejax_2_devices",
        BENCHMARKS / "peers/purejax_ppo.py",
        PPO_TASKS,
        one_program=True,
        options=("--devices", "2"),
        sessions=(4,),
    ),
    Contestant("sbx", BENCHMARKS / "peers/sbx_rl.py", ALL_TASKS),
    Contestant("sb3", BENCHMARKS / "peers/sb3.py", ALL_TASKS),
    Contestant("cleanrl", BENCHMARKS / "peers/cleanrl_ppo.py", PPO_TASKS),
)

# Slow contestants are measured on this share of the full frames; their fps does not depend on it.
MEASURED_SHARE = {
    ("sb3", "ppo_cartpole"): 0.25,
    ("sbx", "ppo_cartpole"): 0.25,
    ("cleanrl", "ppo_cartpole"): 0.25,
    ("sb3", "ppo_cartpole_64"): 0.5,
    ("cleanrl", "ppo_cartpole_64"): 0.5,
    ("sb3", "dqn_cartpole"): 0.4,
    ("sb3", "sac_pendulum"): 0.2,
    ("sbx", "sac_pendulum"): 0.5,
}
