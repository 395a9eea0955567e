"""`enjoy`: a trained policy played again, watched or filmed."""

from __future__ import annotations

import dataclasses
import glob
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab import algos
from rewardlab.algos.base import Algorithm
from rewardlab.envs.host import HostEnv
from rewardlab.envs.make import make, spaces
from rewardlab.experiment import slm_policy
from rewardlab.experiment.checkpoint import Meta
from rewardlab.experiment.evaluate import decide, play_episodes
from rewardlab.experiment.record import RecordError, RunFolder, holds_spec, load_tree, read_meta
from rewardlab.experiment.session import Session
from rewardlab.nets.heads import to_env_action
from rewardlab.spec import Spec, from_dict


class TrainedPolicy:
    """The best policy of a run's best session."""

    def __init__(self, folder: RunFolder) -> None:
        theirs = slm_policy.best_weights(folder)
        self.spec: Spec = slm_policy.spec_of(folder) if theirs else from_dict(folder.read_spec(), folder.spec_name)
        self.path = theirs.path if theirs else best_session(folder, self.spec.meta.max_session)
        env = make(dataclasses.replace(self.spec.env, num_envs=1), 1, self.spec.meta.seed)
        self.algorithm: Algorithm = algos.make(self.spec, *spaces(env))
        if isinstance(env, HostEnv):
            env.close()
        self.lens = Session(self.spec, self.algorithm).lens
        policy = jax.eval_shape(lambda key: self.algorithm.policy(self.algorithm.init(key)), jax.random.key(0))
        self.stats = self.lens.create(1).obs
        self.gathers = theirs is not None and self.stats is not None  # SLM-Lab does not save what normalises
        if theirs:
            self.policy = slm_policy.load(theirs.path, policy)
            self.meta: Meta = {"frame": theirs.frame, "total_reward_ma": theirs.score}
        else:
            (self.policy, self.stats), self.meta = load_tree(self.path, (policy, self.stats))
        self._choose = jax.jit(self._choose_one)
        self.memory: Any = None
        self.forget()
        self._to_env = jax.jit(lambda action: to_env_action(action, self.algorithm.action))

    def _choose_one(self, stats: Any, obs: Any, memory: Any, key: Any) -> Any:
        action, after = decide(self.algorithm, self.lens, (self.policy, stats), obs[None], memory, key)
        return action[0], after

    def forget(self) -> None:
        """Begin an episode: what a recurrent policy remembers of the last one is gone. Others remember nothing."""
        self.memory = self.algorithm.blank(self.policy, 1)

    def choose(self, obs: Any) -> np.ndarray[Any, Any]:
        """The policy's own action at one observation."""
        if self.gathers and self.stats is not None:
            self.stats = self.stats.update(jnp.asarray(obs)[None])
        action, self.memory = self._choose(self.stats, np.asarray(obs), self.memory, jax.random.key(0))
        return np.asarray(action)

    def act(self, obs: Any) -> np.ndarray[Any, Any]:
        """The action at one observation, in the environment's units."""
        return np.asarray(self._to_env(self.choose(obs)))


def best_session(folder: RunFolder, sessions: int) -> Path:
    """The policy of the session that was best."""
    saved = [path for s in range(sessions) if (path := folder.best_policy_path(s)).exists()]
    if not saved:
        raise RecordError(f"{folder.path} holds no policy yet: let it train to its first checkpoint")
    return max(saved, key=lambda path: float(read_meta(path)["total_reward_ma"]))


def resolve(where: str | Path, spec_name: str) -> RunFolder:
    """A run by its folder, by a spec file in it, or by a pattern of either: then the newest that fits."""
    if Path(where).is_dir() and not holds_spec(Path(where)):
        return RunFolder.latest(spec_name, Path(where))
    found = sorted(glob.glob(str(where)))  # noqa: PTH207 - the pattern may be absolute, which Path.glob refuses
    if not found:
        raise RecordError(f"There is no run folder {where}.")
    return RunFolder.open(found[-1])


def enjoy(where: str | Path, spec_name: str, render: bool, episodes: int) -> Iterator[str]:
    """Lines that say what each episode brought; with `render` the episodes are filmed into the run's graph folder."""
    folder = resolve(where, spec_name)
    trained = TrainedPolicy(folder)
    frame, score = trained.meta["frame"], float(trained.meta["total_reward_ma"])
    yield f"{trained.path.name}: saved at frame {frame}, total_reward_ma {score:.2f}"
    if trained.gathers:
        yield "its observations were normalised by statistics that SLM-Lab did not save: they are gathered anew"
    frames: list[Any] = []
    total, returns = 0.0, []
    for step in play_episodes(trained.spec, trained.choose, episodes, trained.spec.meta.seed + 1, render):
        total += step.reward
        if step.frame is not None:
            frames.append(step.frame)
        if step.done:
            trained.forget()
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
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # the encoder is its own program: no JAX in it
            imageio.imwrite(path, np.stack(frames), fps=50, macro_block_size=2)
    except (ImportError, OSError, ValueError):
        path.unlink(missing_ok=True)
        path = folder.graph_path("enjoy.gif")
        imageio.imwrite(path, np.stack(frames[::2]), duration=40, loop=0)
    return path
