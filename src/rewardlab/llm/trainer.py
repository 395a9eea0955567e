"""The trainer: complete, reward, compare, learn. A generator of steps; who consumes it records, shows and stops."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rewardlab.experiment.checkpoint import load_tree, save_tree
from rewardlab.llm import learn
from rewardlab.llm.config import Config
from rewardlab.llm.errors import LlmError
from rewardlab.llm.learn import Critic, Experience, Learner
from rewardlab.llm.losses import BOOK
from rewardlab.llm.model import Model
from rewardlab.llm.policy import Policy
from rewardlab.llm.prompts import dataset_of, prompt_of
from rewardlab.llm.rewards import Reward, extract_answer, format_score, overlong_penalty
from rewardlab.llm.sample import Rollouts, Sampling, generate
from rewardlab.llm.shard import Placement
from rewardlab.llm.tasks import Dataset, Entry
from rewardlab.llm.tokenizer import Tokenizer
from rewardlab.llm.weights import weights_hash
from rewardlab.maths.advantage import gae

REFILLS = 20  # draws for a batch of prompts that are neither all right nor all wrong


class Step(NamedTuple):
    """One step as others see it."""

    number: int  # from 1
    metrics: dict[str, float]
    sample: dict[str, Any]


class NotFinite(LlmError):  # noqa: N818
    """A loss or gradient that is no number; holds what the step had measured."""

    def __init__(self, step: Step, what: str, lr: float) -> None:
        super().__init__(
            f"step {step.number}: the {what} is not finite, so nothing was learned; lower lr ({lr:g}) or max_norm"
        )
        self.step = step


class Scored(NamedTuple):
    """Completions and what they earned; arrays are [prompts, rollouts]."""

    entries: list[Entry]
    rollouts: Rollouts
    texts: list[str]
    rewards: list[Reward]

    def grid(self, name: str) -> NDArray[np.float64]:
        """One part of the rewards."""
        return np.asarray([getattr(r, name) for r in self.rewards]).reshape(len(self.entries), -1)


@dataclass
class Trainer:
    """A run under way."""

    config: Config
    tokenizer: Tokenizer
    data: Dataset
    learner: Learner
    optimizer: Any
    reference: Model | None
    start_hash: str
    dtype: str
    placement: Placement = field(default_factory=Placement)
    step: int = 0
    cursor: int = 0  # entries used
    seconds: float = 0.0  # of training, in all processes
    held_out: list[Entry] = field(default_factory=list)

    @classmethod
    def create(cls, config: Config, policy: Policy, start_hash: str | None = None) -> Trainer:
        """At the start."""
        data = dataset_of(config.data, config.seed)
        model = policy.model
        critic = Critic.of(model) if config.loss == "ppo" else None
        learner = Learner(model, critic)
        reference = jax.tree.map(jnp.array, model) if config.beta else None
        dtype = config.dtype
        if dtype == "auto":
            dtype = "float32" if jax.default_backend() == "cpu" else "bfloat16"
        start_hash = start_hash or weights_hash(model)
        placement = placement_of(config)
        learner, reference = placement.split(learner), placement.split(reference)
        optimizer = placement.split(learn.adam(config.adam_beta2).init(learner))
        made = cls(config, policy.tokenizer, data, learner, optimizer, reference, start_hash, dtype, placement)
        made._prompt(data[0])  # a prompt that cannot be made is an error before anything is computed
        if config.eval_every:
            made.held_out = data.held_out(config.eval_size)
        return made

    @property
    def sampling(self) -> Sampling:
        """How completions are made."""
        t = self.tokenizer
        return Sampling(self.config.truncation, self.config.max_new_tokens, t.stops, t.pad, t.forbidden)

    @property
    def settings(self) -> learn.Settings:
        """How the weights are updated."""
        remat = self.config.remat
        if remat is None:
            remat = self.learner.policy.config.num_hidden_layers > 8
        return learn.settings_of(self.config, self.tokenizer.forbidden, self.dtype, remat, self.placement)

    @property
    def done(self) -> bool:
        """Whether the steps or the data are used up."""
        used_up = self.cursor + self.config.prompts_per_step > self.config.data.size
        return self.step >= self.config.total_steps or used_up

    def march(self) -> Iterator[Step]:
        """Step after step."""
        while not self.done:
            yield self.advance()

    def advance(self) -> Step:
        """Complete, reward, compare, learn."""
        begun = time.perf_counter()
        scored, everything = self._collect()
        generated = time.perf_counter()
        number = self.step + 1
        metrics = summary(everything)
        experience = self._compare(scored, metrics)
        rewarded = time.perf_counter()
        metrics |= {"seconds_to_reward": self.seconds + rewarded - begun}
        sample = self._sample(everything)
        metrics |= self._learn(experience, Step(number, metrics, sample))
        if self.config.eval_every and number % self.config.eval_every == 0:
            metrics |= self.evaluate(number)
        ended = time.perf_counter()
        self.step, self.seconds = number, self.seconds + ended - begun
        tokens = sum(int(s.rollouts.length.sum()) for s in everything)
        metrics |= {
            "tokens_per_second": tokens / (ended - begun),
            "generate_seconds": generated - begun,
            "learn_seconds": ended - rewarded,
            "seconds": self.seconds,
        }
        return Step(number, metrics, sample)

    def _prompt(self, entry: Entry) -> list[int]:
        return prompt_of(self.config.data, self.tokenizer, entry)

    def _key(self, *numbers: int) -> Any:
        """Randomness by seed and time alone, so that a resumed run draws what it would have drawn."""
        key = jax.random.key(self.config.seed)
        for number in numbers:
            key = jax.random.fold_in(key, number)
        return key

    def _collect(self) -> tuple[Scored, list[Scored]]:
        """A batch to learn from, and all that was drawn for it: more than the batch where prompts are refilled."""
        drawn: list[Scored] = []
        groups: list[tuple[Scored, int]] = []
        wanted = self.config.prompts_per_step
        refill = self.settings.form.refill
        for again in range(REFILLS if refill else 1):
            if again and self.cursor + wanted > self.config.data.size:
                break
            entries = [self.data[i] for i in range(self.cursor, self.cursor + wanted)]
            self.cursor += wanted
            drawn.append(self.complete(entries, self.config.num_rollouts, self._key(self.step, again)))
            right = drawn[-1].grid("accuracy")
            chosen = [i for i in range(wanted) if not refill or right[i].min() < right[i].max()]
            groups += [(drawn[-1], i) for i in chosen]
            if len(groups) >= wanted:
                break
        return (drawn[0] if not refill else join(groups[:wanted] or [(drawn[-1], 0)])), drawn

    def complete(self, entries: list[Entry], rollouts: int, key: Any, greedy: bool = False) -> Scored:
        """Completions of entries with their rewards."""
        sampling = self.sampling
        if greedy:
            sampling = replace(sampling, truncation=replace(sampling.truncation, temperature=0.0))
        model = self.placement.whole(learn.in_type(self.learner.policy, self.dtype))
        made = generate(model, sampling, [self._prompt(e) for e in entries], rollouts, key, self.placement)
        texts = [self.tokenizer.decode(t[:n].tolist()) for t, n in zip(made.tokens, made.length, strict=True)]
        rewards = [self._reward(entries[i // rollouts], text, int(made.length[i])) for i, text in enumerate(texts)]
        return Scored(entries, made, texts, rewards)

    def _reward(self, entry: Entry, text: str, length: int) -> Reward:
        c = self.config
        right = self.data.score(extract_answer(text), entry)
        accuracy = c.accuracy_min_reward + (c.accuracy_max_reward - c.accuracy_min_reward) * right
        form = format_score(text, c.strict_format)
        overlong = self.settings.form.overlong
        penalty = overlong_penalty(length, c.l_max, c.l_cache) if overlong else 0.0
        return Reward(accuracy + c.format_weight * form + penalty, accuracy, form, penalty, float(right == 1))

    def _compare(self, scored: Scored, metrics: dict[str, float]) -> Experience:
        """Advantages, and the log-probabilities and values that they and the loss need."""
        c, form, rollouts = self.config, self.settings.form, scored.rollouts
        mask = learn.mask_of(rollouts)
        bare = Experience(rollouts, rollouts.log_prob, np.zeros_like(mask))
        old = self._score(self.learner.policy, bare) if c.compat == BOOK else rollouts.log_prob
        reference = None if self.reference is None else self._score(self.reference, bare)
        total = scored.grid("total")
        paid = np.zeros_like(mask)  # what each token costs in the reward
        if reference is not None:
            kl = np.asarray(learn.kl_estimate(c.kl_estimator, c.compat, old, reference)) * mask
            metrics["kl"] = float(kl.sum() / mask.sum())
            if form.kl == "reward":
                book = c.compat == BOOK
                paid = c.beta * kl
                whole = paid.sum(1) / (rollouts.length if book else 1)
                metrics["reward"] -= float(whole.mean())
                if form.advantage is not None or book:
                    total, paid = total - whole.reshape(total.shape), np.zeros_like(mask)
        if form.advantage is None:
            assert self.learner.critic is not None
            value = self._appraise(bare) * mask
            advantage = token_advantages(total.reshape(-1), -paid, value, rollouts, c.gamma, c.lam)
            return Experience(rollouts, old, advantage, reference, value, advantage + value)
        group = np.asarray(form.advantage(scored.grid("binary") if form.binary else total))
        advantage = group.reshape(-1, 1).astype(np.float32) * mask
        return Experience(rollouts, old, advantage, reference)

    def _score(self, model: Model, experience: Experience) -> NDArray[np.float32]:
        return self._in_batches(lambda batch: learn.score(model, batch, self.settings), experience)

    def _appraise(self, experience: Experience) -> NDArray[np.float32]:
        return self._in_batches(lambda batch: learn.appraise(self.learner.critic, batch, self.settings), experience)

    def _in_batches(self, read: Any, experience: Experience) -> NDArray[np.float32]:
        """A function of batches over all rows."""
        rollouts = experience.rollouts
        count, width = rollouts.tokens.shape
        size = count
        while size > 1 and size * (rollouts.prompts.shape[1] + width) > self.config.tokens_per_batch:
            size = -(-size // 2)
        parts = []
        for start in range(0, count, size):
            rows = np.arange(start, min(start + size, count))
            batch = self.placement.rows(learn.cut_out(experience, rows, [0.0] * len(rows), size, width))
            parts.append(np.asarray(read(batch))[: len(rows)])
        return np.concatenate(parts)

    def _learn(self, experience: Experience, step: Step) -> dict[str, float]:
        """One pass over the completions in batches of `batch`; rows that say nothing are left out."""
        c, settings = self.config, self.settings
        count = len(experience.rollouts.tokens)
        order = np.random.default_rng([c.seed, self.step]).permutation(count)
        every = self.learner.critic is not None or (experience.reference is not None and settings.form.kl == "loss")
        says: NDArray[np.bool_] = np.ones(count, bool) if every else np.asarray(experience.advantage.any(1))
        sums = {"loss": 0.0, "tokens": 0.0, "clipped": 0.0, "approx_kl": 0.0}
        norms = []
        for start in range(0, count, c.batch):
            rows = order[start : start + c.batch]
            weight = self._weights(experience.rollouts.length[rows].astype(np.float32))
            chosen = says[rows]
            if not chosen.any():
                continue
            before: learn.Sums | None = None
            batches = learn.microbatches(
                experience, rows[chosen], weight[chosen], c.tokens_per_batch, min(c.batch, count)
            )
            for batch in batches:
                before = learn.accumulate(self.learner, self.placement.rows(batch), settings, before)
            assert before is not None
            value, seen, gradient = before
            lr = jnp.asarray(self._rate(), jnp.float32)
            self.learner, self.optimizer, norm = learn.apply(
                self.learner, self.optimizer, gradient, lr, c.max_norm, c.adam_beta2
            )
            for name, x in {"loss": value, **seen}.items():
                sums[name] += float(x)
            norms.append(float(norm))
            for what, found in (("loss", sums["loss"]), ("gradient", norms[-1])):
                if not math.isfinite(found):
                    raise NotFinite(step, what, c.lr)
        tokens = max(sums["tokens"], 1.0)
        return {
            "loss": sums["loss"] / max(len(norms), 1),
            "grad_norm": max(norms, default=0.0),
            "updates": float(len(norms)),
            "clip_fraction": sums["clipped"] / tokens,
            "approx_kl": sums["approx_kl"] / tokens,
            "learned_share": float(says.mean()),
        }

    def _weights(self, length: NDArray[np.float32]) -> NDArray[np.float32]:
        """What each row of a batch weighs per token."""
        form, c = self.settings.form, self.config
        if not form.per_microbatch:
            return np.asarray(form.weights(length, c.max_new_tokens), np.float32)
        parts = [length[i : i + c.train_batch_size] for i in range(0, len(length), c.train_batch_size)]
        each = [np.asarray(form.weights(p, c.max_new_tokens), np.float32) for p in parts]
        return np.concatenate(each) / np.float32(len(parts))

    def _rate(self) -> float:
        """The learning rate of this step."""
        c = self.config
        warm = min(1.0, (self.step + 1) / c.lr_warmup_steps) if c.lr_warmup_steps else 1.0
        left = 1 - self.step / c.total_steps if c.lr_schedule == "linear" else 1.0
        return c.lr * warm * left

    def _sample(self, drawn: list[Scored]) -> dict[str, Any]:
        """One completion to look at, another place of the batch every step."""
        scored = drawn[-1]
        i = self.step % len(scored.texts)
        entry = scored.entries[i // self.config.num_rollouts]
        shown = {"question": entry.question, "answer": entry.answer, "completion": scored.texts[i][:1000]}
        return shown | {"reward": scored.rewards[i].total}

    def evaluate(self, number: int) -> dict[str, float]:
        """Greedy completions of entries that training never sees."""
        scored = self.complete(self.held_out, 1, self._key(number), greedy=True)
        return {
            "eval_reward": float(scored.grid("total").mean()),
            "eval_accuracy": float(scored.grid("accuracy").mean()),
            "eval_exact": float(scored.grid("binary").mean()),
        }

    def save(self, path: Path) -> None:
        """Everything that the next step is a function of."""
        where: dict[str, str | int | float] = {"step": self.step, "cursor": self.cursor, "seconds": self.seconds}
        what: dict[str, str | int | float] = {"config": self.config.hash(), "start": self.start_hash}
        save_tree(path, {"learner": self.learner, "optimizer": self.optimizer}, where | what)

    def restore(self, path: Path) -> None:
        """Go on where a checkpoint was written."""
        tree, meta = load_tree(path, {"learner": self.learner, "optimizer": self.optimizer})
        for name, here in (("config", self.config.hash()), ("start", self.start_hash)):
            if meta[name] != here:
                what = "config" if name == "config" else "starting weights"
                raise LlmError(f"{path} was written with another {what}: a resumed run must not change it")
        self.learner, self.optimizer = self.placement.split((tree["learner"], tree["optimizer"]))
        self.step, self.cursor, self.seconds = int(meta["step"]), int(meta["cursor"]), float(meta["seconds"])


def placement_of(config: Config) -> Placement:
    """All accelerators where there are several; CPU devices only where it is asked for."""
    several = jax.device_count() > 1 and jax.default_backend() != "cpu"
    wanted = config.shard == "fsdp" or (config.shard == "auto" and several)
    return Placement.over_all() if wanted else Placement()


def join(groups: list[tuple[Scored, int]]) -> Scored:
    """Single groups of several draws as one; prompts take the widest padding."""
    width = max(scored.rollouts.prompts.shape[1] for scored, _ in groups)
    parts = []
    for scored, i in groups:
        r, per = scored.rollouts, len(scored.texts) // len(scored.entries)
        rows, extra = slice(i * per, (i + 1) * per), width - scored.rollouts.prompts.shape[1]
        prompts = np.pad(r.prompts[i : i + 1], ((0, 0), (extra, 0)))
        cut: list[Any] = [None if x is None else x[rows] for x in r[2:]]
        parts.append((Rollouts(prompts, r.padding[i : i + 1] + extra, *cut), scored.texts[rows], scored.rewards[rows]))
    columns = zip(*(part[0] for part in parts), strict=True)
    whole: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
    entries = [scored.entries[i] for scored, i in groups]
    texts, rewards = [t for part in parts for t in part[1]], [r for part in parts for r in part[2]]
    return Scored(entries, Rollouts(*whole), texts, rewards)


def summary(drawn: list[Scored]) -> dict[str, float]:
    """What a step's completions are like."""

    def mean(name: str) -> float:
        return float(np.mean(np.concatenate([scored.grid(name).reshape(-1) for scored in drawn])))

    lengths = np.concatenate([scored.rollouts.length for scored in drawn])
    entropy = sum(float(scored.rollouts.entropy.sum()) for scored in drawn)
    finished = np.concatenate([scored.rollouts.finished for scored in drawn])
    return {
        "reward": mean("total"),
        "accuracy": mean("accuracy"),
        "format": mean("format"),
        "penalty": mean("penalty"),
        "exact": mean("binary"),
        "entropy": entropy / max(float(lengths.sum()), 1.0),
        "length": float(lengths.mean()),
        "finished": float(finished.mean()),
        "kl": 0.0,
    }


def token_advantages(
    reward: NDArray[np.float64],
    each: NDArray[np.float32],
    value: NDArray[np.float32],
    rollouts: Rollouts,
    gamma: float,
    lam: float,
) -> NDArray[np.float32]:
    """GAE over the tokens of each row; the reward comes with the last one, `each` with every one."""
    mask = learn.mask_of(rollouts)
    rows = np.arange(len(mask))
    last = np.zeros(mask.shape, bool)
    last[rows, rollouts.length - 1] = True
    paid = each + last * reward[:, None]
    following = np.concatenate([value[:, 1:], np.zeros_like(value[:, :1])], axis=1)
    paid_t, value_t, following_t, last_t = (jnp.asarray(x.T) for x in (paid.astype(np.float32), value, following, last))
    cut = jnp.zeros_like(last_t)
    return np.array(gae(paid_t, value_t, following_t, last_t, cut, gamma, lam, jnp.asarray(mask.T)).T)
