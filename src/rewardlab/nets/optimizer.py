"""Optimisers and learning-rate schedules by name; the learning rate is an array, so a search can vary it."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from rewardlab.spec import LrScheduleSpec, NetSpec, OptimSpec, SpecError

Params = TypeVar("Params")


def _scaling(spec: OptimSpec) -> Any:
    """The direction of a step, before the learning rate; PyTorch's defaults."""
    b1, b2 = spec.betas or (0.9, 0.999)
    eps = 1e-8 if spec.eps is None else spec.eps
    momentum = optax.trace(spec.momentum) if spec.momentum else optax.identity()
    match spec.name:
        case "Adam":
            rule = optax.scale_by_adam(b1, b2, eps)
        case "AdamW":
            decay = 0.01 if spec.weight_decay is None else spec.weight_decay
            return optax.chain(optax.scale_by_adam(b1, b2, eps), optax.add_decayed_weights(decay))
        case "RMSprop":
            rms = optax.scale_by_rms(0.99 if spec.alpha is None else spec.alpha, eps, eps_in_sqrt=False)
            rule = optax.chain(rms, momentum)
        case "SGD":
            rule = momentum
        case _:
            raise SpecError(f"the optimiser {spec.name!r} is unknown; there are Adam, AdamW, RMSprop and SGD")
    # AdamW takes the decay off the weights; with the others it is a part of the gradient, as in PyTorch
    return optax.chain(optax.add_decayed_weights(spec.weight_decay), rule) if spec.weight_decay else rule


class Optimizer(eqx.Module):
    """One optimiser: clip the gradient's norm, step, follow the schedule of the learning rate."""

    lr: float | Array
    clip: float | Array | None
    schedule_end: float | Array
    schedule_floor: float | Array
    spec: OptimSpec = eqx.field(static=True)
    schedule: str | None = eqx.field(static=True)

    @classmethod
    def create(cls, net: NetSpec, optim: OptimSpec | None, max_frame: int) -> Optimizer:
        """The optimiser of a network's spec; a schedule without a `frame` ends with the run."""
        optim = optim or net.optim_spec
        schedule: LrScheduleSpec | None = net.lr_scheduler_spec
        end = float(max_frame if schedule is None or schedule.frame is None else schedule.frame)
        floor = 0.0 if schedule is None else schedule.end_factor
        name = None if schedule is None else schedule.name
        return cls(optim.lr, net.clip_grad_val, end, floor, dataclasses.replace(optim, lr=0.0), name)

    def learning_rate(self, frame: Array) -> Float[Array, ""]:
        """The learning rate at a frame."""
        if self.schedule is None:
            return jnp.asarray(self.lr, jnp.float32)
        left = jnp.clip(1 - frame / self.schedule_end, 0.0, 1.0)
        if self.schedule != "LinearToZero":  # cosine
            left = 0.5 * (1 - jnp.cos(jnp.pi * left))
        return self.lr * (self.schedule_floor + (1 - self.schedule_floor) * left)

    def init(self, params: Any) -> Any:
        """The optimiser's own state, over all parameters as one vector: many small arrays cost many small calls."""
        return _scaling(self.spec).init(ravel_pytree(params)[0])

    def step(self, params: Params, grads: Params, state: Any, frame: Array) -> tuple[Params, Any, Float[Array, ""]]:
        """New parameters, new state, and the norm of the gradient before clipping."""
        vector, unravel = ravel_pytree(params)
        gradient = ravel_pytree(grads)[0]
        norm = jnp.linalg.norm(gradient)
        if self.clip is not None:
            gradient = gradient * jnp.minimum(1.0, self.clip / (norm + 1e-6))
        update, state = _scaling(self.spec).update(gradient, state, vector)
        lr = self.learning_rate(frame)
        return jax.tree.map(lambda p, u: p - lr * u, params, unravel(update)), state, norm
