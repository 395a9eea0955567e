"""RewardLab from Python: train, load, act."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from rewardlab import spec as specs
from rewardlab.envs.make import settled
from rewardlab.experiment import device
from rewardlab.experiment.record import RunFolder, provenance, read_columns, read_json
from rewardlab.experiment.replay import TrainedPolicy
from rewardlab.experiment.trial import Trial, run_trial
from rewardlab.spec import Spec


class Run:
    """A finished or unfinished run on disk."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.path = folder.path

    @cached_property
    def spec(self) -> Spec:
        """What was run."""
        return specs.from_dict(self.folder.read_spec(), self.folder.spec_name)

    @property
    def metrics(self) -> dict[str, Any]:
        """The trial's metrics: strength, efficiencies, stability, consistency …"""
        return dict(read_json(self.folder.trial_metrics_path)["scalar"])

    @property
    def score(self) -> float:
        """total_reward_ma: the mean over sessions of the mean of the last 100 log checkpoints."""
        return float(self.metrics["total_reward_ma"])

    def table(self, session: int = 0, mode: Any = "train") -> dict[str, Any]:
        """The columns of a session's table, as arrays."""
        return read_columns(self.folder.session_df_path(session, mode))

    @cached_property
    def policy(self) -> TrainedPolicy:
        """The best policy of the best session: `run.policy.act(obs)`."""
        return TrainedPolicy(self.folder)

    def __repr__(self) -> str:
        done = self.folder.trial_metrics_path.exists()
        return f"Run({str(self.path)!r}, {f'score={self.score:.2f}' if done else 'unfinished'})"


def train(what: str | Path | Spec, name: str | None = None, data: str | Path = "data", **overrides: Any) -> Run:
    """Train a spec, by name, by file (and name) or as a Spec, with any of its dotted keys overridden."""
    device.prepare()
    spec = specs.apply(what, overrides) if isinstance(what, Spec) else specs.load(what, name, overrides=overrides)
    spec = settled(spec)
    trial = Trial.create(spec)
    folder = RunFolder.create(spec.name, Path(data))
    with folder.lock():
        folder.write_specs(specs.dump(spec), provenance(spec.meta.seed))
        run_trial(trial, folder)
    return Run(folder)


def load(path: str | Path) -> Run:
    """The run of a folder."""
    device.prepare()
    return Run(RunFolder.open(path))
