"""From completions with advantages to new weights: microbatches of a few shapes, one gradient, one step of Adam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from rewardlab.llm.config import Config
from rewardlab.llm.losses import BOOK, BOOK_KL, KL, Form, form_of
from rewardlab.llm.model import Model
from rewardlab.llm.sample import Rollouts, allowed
from rewardlab.llm.shard import Placement
from rewardlab.maths import loss, token_loss
from rewardlab.maths.token_loss import Shape, Tokens
from rewardlab.maths.truncation import NONE, Truncation, log_prob

WIDE_LOGITS = 1 << 27  # numbers: above this, rows are read one after another


class Critic(eqx.Module):
    """PPO's value model: a decoder of its own, and what a hidden state is worth."""

    model: Model
    head: Float[Array, " D"]

    @classmethod
    def of(cls, model: Model) -> Critic:
        """With the policy's weights at first; every value is 0."""
        return cls(jax.tree.map(jnp.array, model), jnp.zeros_like(model.norm))


class Learner(NamedTuple):
    """What learns: the policy, and PPO's critic."""

    policy: Model
    critic: Critic | None


class Settings(NamedTuple):
    """What a compiled update is a function of, beside its arrays."""

    form: Form
    how: Truncation
    shape: Shape
    beta: float
    kl: str
    compat: str | None
    clip_value: float
    value_weight: float
    forbidden: tuple[int, ...]
    dtype: str
    remat: bool
    placement: Placement


class Batch(NamedTuple):
    """Completions behind their prompts, and what learning needs of each token."""

    prompts: Int[Array, "Q P"]
    padding: Int[Array, " Q"]
    which: Int[Array, " B"]  # the prompt of each row: one that several rows share is read once
    tokens: Int[Array, "B C"]
    mask: Float[Array, "B C"]
    weight: Float[Array, " B"]
    old_log_prob: Float[Array, "B C"]
    advantage: Float[Array, "B C"]
    support: Array | None = None
    reference: Float[Array, "B C"] | None = None
    old_value: Float[Array, "B C"] | None = None
    target: Float[Array, "B C"] | None = None


def settings_of(
    config: Config,
    forbidden: tuple[int, ...],
    dtype: str,
    remat: bool,
    placement: Placement = Placement(),  # noqa: B008  a constant
) -> Settings:
    """From a config."""
    shape = Shape(*config.clip, config.sapo_temp_pos, config.sapo_temp_neg)
    form = form_of(config.loss, config.compat)
    rest = (config.clip_eps_val, config.vf_coef, forbidden, dtype, remat, placement)
    return Settings(form, config.trained_on, shape, config.beta, config.kl_estimator, config.compat, *rest)


def kl_estimate(kind: str, compat: str | None, now: Any, reference: Any) -> Any:
    """The estimate of KL(π ‖ π_ref) per token."""
    return (BOOK_KL if compat == BOOK else KL)[kind](now, reference)


def in_type(tree: Any, dtype: str) -> Any:
    """Weights in the type that is computed in."""
    return jax.tree.map(lambda x: x.astype(dtype), tree)


def hidden_states(model: Model, batch: Batch, remat: bool) -> Float[Array, "B C D"]:
    """The state before each token of the completions."""
    asked, caches = model.read(batch.prompts, batch.padding, None, remat)
    caches = jax.tree.map(lambda x: x[batch.which], caches)
    said, _ = model.read(batch.tokens[:, :-1], batch.padding[batch.which], caches, remat)
    return jnp.concatenate([asked[:, -1:][batch.which], said], axis=1)


def completion_log_probs(model: Model, batch: Batch, settings: Settings) -> Float[Array, "B C"]:
    """log π of every token of the completions, among what could have been drawn."""
    hidden = hidden_states(model, batch, settings.remat)

    def read(xs: tuple[Array, Array, Array | None]) -> Array:
        logits = allowed(model.logits(xs[0]), settings.forbidden)
        return log_prob(settings.how, logits, xs[1], xs[2])

    support = batch.support if settings.how.cuts else None
    parts = (hidden, batch.tokens, support)
    if batch.tokens.size * model.config.vocab_size > WIDE_LOGITS:
        one_by_one: Array = jax.lax.map(jax.checkpoint(read), parts)
        return one_by_one
    return read(parts)


def values(critic: Critic, batch: Batch, settings: Settings) -> Float[Array, "B C"]:
    """V before each token of the completions."""
    hidden = hidden_states(critic.model, batch, settings.remat)
    return (hidden @ critic.head).astype(jnp.float32)


def objective(learner: Learner, batch: Batch, settings: Settings) -> tuple[Array, dict[str, Array]]:
    """The loss of a microbatch: its weights make the sum over microbatches the loss of the whole batch."""
    policy = in_type(learner.policy, settings.dtype)
    now = completion_log_probs(policy, batch, settings)
    tokens = Tokens(now, batch.old_log_prob, batch.advantage, batch.mask)
    each = settings.form.token(tokens, settings.shape)
    if batch.reference is not None and settings.form.kl == "loss":
        each = each + settings.beta * kl_estimate(settings.kl, settings.compat, now, batch.reference)
    if learner.critic is not None and batch.target is not None and batch.old_value is not None:
        value = values(in_type(learner.critic, settings.dtype), batch, settings)
        error = loss.clipped_error(value, batch.old_value, batch.target, settings.clip_value)
        each = each + settings.value_weight * 0.5 * error
    total = jnp.sum(batch.weight[:, None] * batch.mask * jnp.where(batch.mask > 0, each, 0.0))
    ratio = token_loss.ratio(tokens)
    low, high = settings.shape[:2]
    cut = jnp.where(batch.advantage > 0, ratio > 1 + high, (ratio < 1 - low) & (batch.advantage < 0))
    seen = {
        "tokens": jnp.sum(batch.mask),
        "clipped": jnp.sum(cut * batch.mask),
        "approx_kl": jnp.sum((ratio - 1 - jnp.log(ratio)) * batch.mask),
    }
    return total, seen


Sums = tuple[Array, dict[str, Array], Learner]


@partial(jax.jit, static_argnames="settings", donate_argnames="before")
def accumulate(learner: Learner, batch: Batch, settings: Settings, before: Sums | None) -> Sums:
    """Loss, counts and gradient of a microbatch, on top of those before."""
    (value, seen), gradient = jax.value_and_grad(objective, has_aux=True)(learner, batch, settings)
    now = (value, seen, settings.placement.keep_split(gradient))
    return now if before is None else jax.tree.map(jnp.add, before, now)


def adam(beta2: float) -> Any:
    """The rule of a step, before the learning rate."""
    return optax.scale_by_adam(b2=beta2)


@partial(jax.jit, static_argnames=("max_norm", "beta2"), donate_argnames=("learner", "state"))
def apply(
    learner: Learner, state: Any, gradient: Learner, lr: Array, max_norm: float, beta2: float
) -> tuple[Learner, Any, Array]:
    """One step of Adam along the clipped gradient; nothing moves where it is not finite."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(gradient)))
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6)) if max_norm else 1.0
    change, moved = adam(beta2).update(jax.tree.map(lambda g: g * scale, gradient), state)
    fine = jnp.isfinite(norm)
    learner = jax.tree.map(lambda p, u: jnp.where(fine, p - lr * u, p), learner, change)
    return learner, jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, state), norm


@partial(jax.jit, static_argnames="settings")
def score(model: Model, batch: Batch, settings: Settings) -> Array:
    """log π of completions that are there."""
    return completion_log_probs(in_type(model, settings.dtype), batch, settings)


@partial(jax.jit, static_argnames="settings")
def appraise(critic: Critic, batch: Batch, settings: Settings) -> Array:
    """V of completions that are there."""
    return values(in_type(critic, settings.dtype), batch, settings)


def fitting(count: int, full: int, halvings: int = 2) -> int:
    """The smallest of full, full/2, full/4 … that holds so many: few shapes, for each of them is compiled."""
    size = full
    for _ in range(halvings):
        if size % 2 == 0 and size // 2 >= count:
            size //= 2
    return size


class Experience(NamedTuple):
    """Everything learning knows of the completions of a step, on the host; rows as in the rollouts."""

    rollouts: Rollouts
    old_log_prob: NDArray[np.float32]
    advantage: NDArray[np.float32]  # [rows, C]
    reference: NDArray[np.float32] | None = None
    old_value: NDArray[np.float32] | None = None
    target: NDArray[np.float32] | None = None

    @property
    def mask(self) -> NDArray[np.float32]:
        """One on the tokens of completions."""
        return mask_of(self.rollouts)


def mask_of(rollouts: Rollouts) -> NDArray[np.float32]:
    """One on the tokens of completions."""
    return (np.arange(rollouts.tokens.shape[1]) < rollouts.length[:, None]).astype(np.float32)


def microbatches(
    experience: Experience, rows: NDArray[np.int64], weight: NDArray[np.float32], budget: int, full: int
) -> Iterator[Batch]:
    """Rows of about one length together, each batch within a budget of tokens, all of a few shapes."""
    rollouts = experience.rollouts
    order = rows[np.argsort(-rollouts.length[rows], kind="stable")]
    weights = dict(zip(rows.tolist(), weight.tolist(), strict=True))
    prompt, longest = rollouts.prompts.shape[1], rollouts.tokens.shape[1]
    while len(order):
        width = fitting(int(rollouts.length[order[0]]), longest, halvings=1)
        most = full
        while most > 1 and most * (prompt + width) > budget:
            most = -(-most // 2)
        chosen, order = order[:most], order[most:]
        yield cut_out(experience, chosen, [weights[r] for r in chosen.tolist()], fitting(len(chosen), most), width)


def cut_out(experience: Experience, rows: NDArray[np.int64], weight: Sequence[float], size: int, width: int) -> Batch:
    """A batch of some rows, filled up with rows that weigh nothing."""
    rollouts = experience.rollouts
    missing = size - len(rows)
    asked, which = np.unique(rows // (len(rollouts.tokens) // len(rollouts.prompts)), return_inverse=True)
    prompts = fitting(len(asked), min(size, len(rollouts.prompts)), halvings=0)
    more = prompts - len(asked)

    def take(x: NDArray[Any] | None) -> Array | None:
        if x is None:
            return None
        fill = NONE if x is rollouts.support and x.dtype == np.int32 else 255 if x is rollouts.support else 0
        return jnp.asarray(np.pad(x[rows, :width], ((0, missing),) + ((0, 0),) * (x.ndim - 1), constant_values=fill))

    return Batch(
        prompts=jnp.asarray(np.pad(rollouts.prompts[asked], ((0, more), (0, 0)))),
        padding=jnp.asarray(np.pad(rollouts.padding[asked], (0, more))),
        which=jnp.asarray(np.pad(which.reshape(-1), (0, missing)).astype(np.int32)),
        tokens=take(rollouts.tokens),  # type: ignore[arg-type]
        mask=take(experience.mask),  # type: ignore[arg-type]
        weight=jnp.asarray(np.pad(np.asarray(weight, np.float32), (0, missing))),
        old_log_prob=take(experience.old_log_prob),  # type: ignore[arg-type]
        advantage=take(experience.advantage),  # type: ignore[arg-type]
        support=take(rollouts.support),
        reference=take(experience.reference),
        old_value=take(experience.old_value),
        target=take(experience.target),
    )
