"""What a run of the trainer is: rlhf-book's keys, and ours. Unknown keys and what cannot work are errors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rewardlab.files import RecordError, read_text
from rewardlab.llm.losses import BOOK, KL, LOSSES, form_of
from rewardlab.maths.truncation import Truncation
from rewardlab.spec import SpecError, build, near
from rewardlab.spec.build import keys_of
from rewardlab.spec.check import at_least, one_of, require
from rewardlab.spec.text import parse, parse_value

SYSTEM = (
    "A conversation between a user and an assistant. The user asks a question and the assistant solves it. The "
    "assistant first thinks about the reasoning process and then gives the answer. The reasoning stands within "
    "<think> </think> tags and the answer within <answer> </answer> tags, so: "
    "<think> reasoning here </think> <answer> answer here </answer>"
)
IDLE = {  # rlhf-book's keys that have nothing to do here
    "model_device_id": "all devices are used",
    "ref_model_device_id": "all devices are used",
    "val_model_device_id": "all devices are used",
    "rollout_batch_size": "all completions of a step are made at once",
}


@dataclass(frozen=True)
class TaskConfig:
    """One task of the data."""

    name: str
    weight: float = 1.0
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DataConfig:
    """The questions."""

    specs: tuple[TaskConfig, ...]
    size: int = 3000
    prompt: Literal["chat", "plain", "terse"] = "chat"
    system: str = SYSTEM


@dataclass(frozen=True)
class Config:
    """One run."""

    data: DataConfig
    loss: str
    model_name: str = "Qwen/Qwen3-1.7B"
    # the loss
    compat: str | None = None
    clip_eps_lo: float | None = None
    clip_eps_hi: float | None = None
    clip_eps_val: float = 0.2
    gamma: float = 0.99
    lam: float = 0.95
    vf_coef: float = 0.1
    sapo_temp_pos: float = 1.0
    sapo_temp_neg: float = 1.05
    beta: float = 0.0
    kl_estimator: str = "kl3"
    # the reward
    l_cache: int = 256
    l_max: int = 512
    accuracy_min_reward: float = 0.0
    accuracy_max_reward: float = 1.0
    format_weight: float = 0.5
    strict_format: bool = False
    # completions
    temperature: float = 0.6
    top_p: float = 0.95
    top_k: int = 20
    min_p: float = 0.0
    max_new_tokens: int = 512
    prompts_per_step: int = 4
    num_rollouts: int = 8
    # learning
    lr: float = 5e-6
    lr_warmup_steps: int = 0
    lr_schedule: Literal["constant", "linear"] = "constant"
    adam_beta2: float = 0.999
    train_batch_size: int = 2
    batch_acc: int = 4
    tokens_per_batch: int = 16_384
    max_norm: float = 1.0
    remat: bool | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    # the run
    steps: int | None = None
    seed: int = 42
    device: Literal["auto", "cpu", "cuda"] = "auto"
    shard: Literal["auto", "none", "fsdp"] = "auto"
    eval_every: int = 0
    eval_size: int = 64
    checkpoint_seconds: float = 60.0
    stop_at_goal: bool = False
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_run_name: str | None = None

    @property
    def truncation(self) -> Truncation:
        """How completions are drawn."""
        return Truncation(self.temperature, self.top_k, self.top_p, self.min_p)

    @property
    def trained_on(self) -> Truncation:
        """The distribution that log-probabilities are of; rlhf-book's are of another than it draws from."""
        return Truncation() if self.compat == BOOK else self.truncation

    @property
    def batch(self) -> int:
        """Completions per update of the weights."""
        return self.train_batch_size * self.batch_acc

    @property
    def clip(self) -> tuple[float, float]:
        """How far the ratio may go down and up."""
        low, high = form_of(self.loss, self.compat).clip
        if self.loss == "cispo" and self.compat != BOOK:
            low = 1.0  # the paper has no lower bound
        elif self.clip_eps_lo is not None:
            low = self.clip_eps_lo
        return low, high if self.clip_eps_hi is None else self.clip_eps_hi

    @property
    def total_steps(self) -> int:
        """Once through the data, or fewer."""
        whole = self.data.size // self.prompts_per_step
        return whole if self.steps is None else self.steps

    @property
    def tasks(self) -> str:
        """The tasks' names in a word."""
        return "+".join(spec.name for spec in self.data.specs)

    def hash(self) -> str:
        """SHA-256 of everything that decides what is computed."""
        kept = {k: v for k, v in dump(self).items() if not k.startswith("wandb_") and k != "checkpoint_seconds"}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def folder() -> Path:
    """The configs inside the installed package, or the repository's beside its source."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "configs" / "llm"
    return packaged if packaged.is_dir() else package.parents[1] / "configs" / "llm"


def find(path: Path) -> tuple[Path, list[str]]:
    """A config's file: as named, or the packaged one of that name."""
    if path.is_file():
        return path, []
    ours = {str(p.relative_to(folder())): p for p in sorted(folder().rglob("*.yaml"))}
    parts = path.parts
    for start in range(len(parts)):
        if (name := "/".join(parts[start:])) in ours:
            book = "policy_gradients" in parts
            chosen = ours.get(f"qwen3-1.7b/{name}", ours[name]) if book else ours[name]
            return chosen, [f"there is no {path}; using the packaged {chosen.relative_to(folder().parent.parent)}"]
    nearest = near(path.name, [Path(name).name for name in ours])
    hint = f"did you mean configs/llm/{nearest}?" if nearest else f"packaged are {', '.join(ours)}"
    raise SpecError(f"there is no config {path}; {hint}")


def load(path: Path, settings: Mapping[str, str] | None = None) -> tuple[Config, list[str]]:
    """The config of a file with KEY=VALUE settings over it, and what is worth saying about it."""
    path, notes = find(path)
    try:
        raw, _ = parse(read_text(path), path)
    except RecordError as error:
        raise SpecError(str(error)) from error
    for key, value in (settings or {}).items():
        _set(raw, key, parse_value(value))
    config = from_dict(raw, str(path))
    return config, notes + _notes(raw, config)


def _set(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted key."""
    *above, last = key.split(".")
    for part in above:
        raw = raw.setdefault(part, {})
        if not isinstance(raw, dict):
            raise SpecError(f"{key} cannot be set: {part} holds no keys")
    raw[last] = value


def from_dict(raw: Mapping[str, Any], source: str = "the config") -> Config:
    """A checked config."""
    known = keys_of(Config)
    for key in raw:
        if key not in known and key not in IDLE:
            nearest = near(str(key), known)
            hint = f"did you mean {nearest}?" if nearest else f"the keys are {', '.join(known)}"
            raise SpecError(f"{source}: the key {key} is unknown; {hint}")
    try:
        config = build(Config, dict(raw), "", ignore=IDLE)
        _check(config)
    except SpecError as error:
        raise SpecError(f"{source}: {error}") from error
    return config


def _check(c: Config) -> None:
    one_of("loss", c.loss, list(LOSSES), "loss")
    one_of("kl_estimator", c.kl_estimator, list(KL), "estimator of the KL")
    if c.compat is not None:
        one_of("compat", c.compat, [BOOK], "original")
    require(len(c.data.specs) > 0, "data.specs", list(c.data.specs), "at least one task")
    require(all(spec.weight > 0 for spec in c.data.specs), "data.specs", "a weight of 0 or less", "weights above 0")
    lowest = {"prompts_per_step": 1, "num_rollouts": 1, "train_batch_size": 1, "batch_acc": 1, "max_new_tokens": 1}
    lowest |= {"tokens_per_batch": 1, "steps": 1, "eval_size": 1}
    lowest |= dict.fromkeys(("temperature", "top_k", "min_p", "lr", "max_norm", "beta", "eval_every", "seed"), 0)
    at_least(c, "config", **lowest)
    require(0 < c.top_p <= 1, "top_p", c.top_p, "more than 0 and at most 1")
    require(0 <= c.adam_beta2 < 1, "adam_beta2", c.adam_beta2, "0 or more and less than 1")
    require(
        c.temperature > 0, "temperature", c.temperature, "more than 0: without chance there is nothing to learn from"
    )
    form = form_of(c.loss, c.compat)
    alone = form.advantage is not None and c.loss != "reinforce" and c.num_rollouts < 2
    require(not alone, "num_rollouts", c.num_rollouts, f"2 or more: {c.loss} compares completions of a prompt")
    require(
        c.beta == 0 or form.kl != "none" or c.compat == BOOK, "beta", c.beta, f"0: {c.loss} has no KL term in its paper"
    )
    require(not form.overlong or c.l_cache <= c.l_max, "l_cache", c.l_cache, "at most l_max")
    need = c.total_steps * c.prompts_per_step
    require(0 < need <= c.data.size, "data.size", c.data.size, f"at least prompts_per_step × steps = {max(need, 1)}")


def _notes(raw: Mapping[str, Any], config: Config) -> list[str]:
    notes = [f"{key} has no effect here: {why}" for key, why in IDLE.items() if raw.get(key)]
    if config.loss == "cispo" and config.clip_eps_lo is not None and config.compat is None:
        notes.append("clip_eps_lo has no effect: CISPO's paper has no lower bound (compat: rlhf-book has one)")
    if config.compat == BOOK and config.beta and form_of(config.loss, BOOK).kl == "none":
        notes.append(f"beta has no effect: rlhf-book's {config.loss} ignores it")
    return notes


def dump(config: Config) -> dict[str, Any]:
    """A config as plain mappings."""
    return json.loads(json.dumps(dataclasses.asdict(config)))  # type: ignore[no-any-return]
