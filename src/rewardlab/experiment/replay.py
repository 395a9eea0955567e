"""`enjoy`: a trained policy played again, watched or filmed."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rewardlab.algos.base import Algorithm
from rewardlab.experiment.evaluate import play_episodes
from rewardlab.experiment.record import RecordError, RunFolder, load_tree, read_meta
from rewardlab.experiment.trial import Trial
from rewardlab.spec import Spec, from_dict


class TrainedPolicy:
    """The best policy of a run's best session."""

    def __init__(self, folder: RunFolder) -> None:
        self.spec: Spec = from_dict(folder.read_spec(), folder.spec_name)
        paths = [folder.best_policy_path(s) for s in range(self.spec.meta.max_session)]
        saved = [path for path in paths if path.exists()]
        if not saved:
            raise RecordError(f"{folder.path} holds no policy yet: let it train to its first checkpoint")
        scores = [float(read_meta(path)["total_reward_ma"]) for path in saved]
        self.path = saved[int(np.argmax(scores))]
        trial = Trial.create(self.spec)
        template = jax.tree.map(lambda x: x[0], trial.runner.best.policy)
        self.algorithm: Algorithm = trial.algorithm
        self.lens = trial.loop.session.lens
        (self.policy, self.stats), self.meta = load_tree(self.path, template)
        self._act = jax.jit(self._act_one)

    def _act_one(self, obs: Any, key: Any) -> Any:
        lens = self.lens.create(1)._replace(obs=self.stats)
        return self.algorithm.play(self.policy, self.lens.look(lens, obs[None]), key)[0]

    def act(self, obs: Any, seed: int = 0) -> np.ndarray[Any, Any]:
        """The action for one observation, as the policy gives it."""
        return np.asarray(self._act(np.asarray(obs), jax.random.key(seed)))


def resolve(where: str | Path, spec_name: str) -> RunFolder:
    """A run by its folder, by a spec file in it, or by a pattern of either: then the newest that fits."""
    if Path(where).exists() and not any(Path(where).glob("*_spec.yaml")) and Path(where).is_dir():
        return RunFolder.latest(spec_name, Path(where))
    found = sorted(glob.glob(str(where)))
    if not found:
        raise RecordError(f"There is no run folder {where}.")
    return RunFolder.open(found[-1])



def enjoy(where: str | Path, spec_name: str, render: bool, episodes: int) -> Iterator[str]:
    """Lines that say what each episode brought; with `render` the episodes are filmed into the run's graph folder."""
    folder = resolve(where, spec_name)
    trained = TrainedPolicy(folder)
    yield f"{trained.path.name}: saved at frame {trained.meta['frame']}, total_reward_ma {trained.meta['total_reward_ma']:.2f}"
    frames: list[Any] = []
    total, returns = 0.0, []
    for step in play_episodes(trained.spec, trained.act, episodes, trained.spec.meta.seed + 1, render):
        total += step.reward
        if step.frame is not None:
            frames.append(step.frame)
        if step.done:
            returns.append(total)
            yield f"episode {len(returns)}: return {total:.2f}"
            total = 0.0
    yield f"mean of {len(returns)}: {np.mean(returns):.2f}"
    if frames:
        yield f"filmed: {film(folder, frames)}"


def film(folder: RunFolder, frames: list[Any]) -> Path:
    """The frames as a movie, or as a GIF where no encoder is installed."""
    try:
        import imageio.v3 as imageio  # of the extra `render`
    except ImportError as error:
        raise RecordError('filming needs: pip install "rewardlab[render]"') from error
    path = folder.graph_path("enjoy.mp4")
    try:
        imageio.imwrite(path, np.stack(frames), fps=50, macro_block_size=2)
    except (ImportError, OSError, ValueError):
        path.unlink(missing_ok=True)
        path = folder.graph_path("enjoy.gif")
        imageio.imwrite(path, np.stack(frames[::2]), duration=40, loop=0)
    return path
