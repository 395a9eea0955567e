"""`dev` mode: one short session, and whether it learns at all."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from rewardlab.experiment.record import RunFolder, SessionTable
from rewardlab.experiment.trial import TrainingError, Trial
from rewardlab.spec import Spec


def shorten(spec: Spec) -> Spec:
    """The spec with one session and no more frames than a look takes."""
    env = dataclasses.replace(spec.env, max_frame=min(spec.env.max_frame, 10_000))
    meta = dataclasses.replace(spec.meta, max_session=1, max_trial=1)
    return dataclasses.replace(spec, env=env, meta=meta)


def weights(trial: Trial) -> list[np.ndarray[Any, Any]]:
    """A copy of what the policy is made of."""
    policy = jax.vmap(trial.algorithm.policy)(trial.runner.agent)
    return [np.array(leaf) for leaf in jax.tree.leaves(policy)]


def check(trial: Trial, before: list[np.ndarray[Any, Any]], folder: RunFolder) -> list[str]:
    """What was found out; an error if the weights did not move or a gradient was zero."""
    table = SessionTable.read(folder.session_df_path(0, "train")).columns
    learned = table["opt_step"] > 0
    if not learned.any():
        return [f"dev: nothing was learned in {trial.frame} frames: the algorithm still waits for its first batch"]
    moved = [float(np.abs(new - old).max()) for new, old in zip(weights(trial), before, strict=True)]
    still = sum(m == 0 for m in moved)
    if still == len(moved) and moved:
        raise TrainingError(f"no weight of {trial.spec.name} moved in {trial.frame} frames: is the learning rate zero?")
    norms = table["grad_norm"][learned & ~np.isnan(table["grad_norm"])]
    if len(norms) and not (norms > 0).any():
        raise TrainingError(f"every gradient of {trial.spec.name} was zero in {trial.frame} frames")
    lines = [f"dev: {len(moved) - still} of {len(moved)} weight arrays moved, by up to {max(moved):.3g}"]
    if len(norms):
        lines.append(f"dev: gradients finite, norm between {norms.min():.3g} and {norms.max():.3g}")
    return lines
