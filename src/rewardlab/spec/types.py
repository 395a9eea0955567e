"""What a run is: frozen dataclasses, and the names that their text fields may hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OPTIMISERS = ("Adam", "AdamW", "RMSprop", "SGD")
LR_SCHEDULES = ("LinearToZero", "CosineAnnealingLR", "CosineAnnealing", "cosine")
LOSSES = ("MSELoss", "SmoothL1Loss")
ACTIVATIONS = (
    *("relu", "tanh", "selu", "elu", "gelu", "silu", "swish", "sigmoid", "leaky_relu", "softplus", "mish", "identity"),
)
INITIALISERS = (
    *("orthogonal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "normal_", "zeros_"),
)
NETS = ("MLPNet", "ConvNet", "RecurrentNet", "TorchArcNet")
MEMORIES = ("OnPolicyReplay", "OnPolicyBatchReplay", "Replay", "PrioritizedReplay")
UPDATE_TYPES = ("replace", "polyak")
VAR_SCHEDULES = ("no_decay", "linear_decay", "rate_decay", "periodic_decay")
LOGGERS = ("wandb", "tensorboard")
LAYERS = ("linear", "activation", "layer_norm", "batch_renorm", "conv", "impala", "flatten", "gru", "lstm")


class SpecError(ValueError):
    """A spec that cannot be run, said in one sentence that names the place and the nearest valid key."""


@dataclass(frozen=True)
class VarSpec:
    """A value that changes with the frames: SLM-Lab's VarScheduler (no_decay, linear_, rate_, periodic_decay)."""

    name: str = "no_decay"
    start_val: float = math.nan  # has no sensible default: one that is left out is an error
    end_val: float | None = None  # None: start_val
    start_step: float = 0.0
    end_step: float = 0.0


@dataclass(frozen=True)
class OptimSpec:
    """An optimiser by name (Adam, AdamW, RMSprop, SGD) with its own keys."""

    name: str = "Adam"
    lr: float = 1e-3
    weight_decay: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None
    momentum: float = 0.0
    alpha: float | None = None  # RMSprop's smoothing constant, as PyTorch names it


@dataclass(frozen=True)
class LrScheduleSpec:
    """How the learning rate falls over the run: LinearToZero or cosine; `frame` is where it ends."""

    name: str = "LinearToZero"
    frame: float | None = None
    end_factor: float = 0.0


@dataclass(frozen=True)
class LossSpec:
    """The regression loss of value and Q networks: MSELoss, SmoothL1Loss (Huber)."""

    name: str = "MSELoss"


@dataclass(frozen=True)
class NetSpec:
    """A network and how it is optimised; the keys of SLM-Lab's MLPNet and TorchArcNet."""

    type: str = "MLPNet"
    hid_layers: tuple[int, ...] = (64, 64)
    hid_layers_activation: str = "relu"
    layer_norm: bool = False
    batch_renorm: Mapping[str, Any] | None = None  # {momentum, eps, warmup_steps}
    arc: Mapping[str, Any] | None = None  # a TorchArcNet graph; a loaded spec has it as hid_layers or layers
    layers: tuple[Mapping[str, Any], ...] | None = None  # an explicit body in place of hid_layers, see LAYERS
    init_fn: str | None = None
    actor_init_std: float | None = None
    critic_init_std: float | None = None
    log_std_init: float | None = None
    shared: bool = False
    dueling: bool = False
    clip_grad_val: float | None = None
    loss_spec: LossSpec = LossSpec()
    optim_spec: OptimSpec = OptimSpec()
    actor_optim_spec: OptimSpec | None = None
    critic_optim_spec: OptimSpec | None = None
    lr_scheduler_spec: LrScheduleSpec | None = None
    update_type: str = "replace"
    update_frequency: int = 1
    polyak_coef: float = 0.005

    def __hash__(self) -> int:
        return hash(repr(self))  # mappings do not hash, and a network's spec is a static part of compiled programs


@dataclass(frozen=True)
class MemorySpec:
    """What is remembered: OnPolicyReplay, OnPolicyBatchReplay, Replay, PrioritizedReplay."""

    name: str = "OnPolicyBatchReplay"
    batch_size: int = 64
    max_size: int = 50_000
    use_cer: bool = False
    alpha: float = 0.6
    epsilon: float = 1e-4
    beta_spec: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class AgentSpec:
    """The learner: its algorithm's own keys (checked by the algorithm named), memory and networks."""

    name: str
    algorithm: Mapping[str, Any]
    memory: MemorySpec = MemorySpec()
    net: NetSpec = NetSpec()
    critic_net: NetSpec | None = None


@dataclass(frozen=True)
class EnvSpec:
    """The environment; `kwargs` holds every further key and goes to the environment as it stands."""

    name: str
    num_envs: int = 1
    max_t: int | None = None
    max_frame: int = 100_000
    normalize_obs: bool = False
    normalize_reward: bool = False
    clip_obs: float | None = None
    clip_reward: float | None = None
    backend: str | None = None  # None: JAX where the environment lives there, else gymnasium; or name one
    kwargs: Mapping[str, Any] = field(default_factory=dict, metadata={"spec": False})


@dataclass(frozen=True)
class SchedulerSpec:
    """Successive halving in a search: the first look at `grace_period` frames, then one trial in `reduction_factor`
    goes on to `reduction_factor` times as many."""

    grace_period: int = 10_000
    reduction_factor: int = 3


@dataclass(frozen=True)
class ResourcesSpec:
    """What one trial of a search takes on a Ray cluster."""

    cpu: float = 1.0
    gpu: float = 0.0


@dataclass(frozen=True)
class MetaSpec:
    """How it is run: sessions, trials, logging, evaluation, search, seed."""

    max_session: int = 4
    max_trial: int = 1
    log_frequency: int = 500
    eval_frequency: int = 10_000
    rigorous_eval: int = 0
    film: int = 0
    search_resources: ResourcesSpec | None = None
    search_scheduler: SchedulerSpec | None = None
    seed: int = 0
    checkpoint_seconds: float = 30.0
    save_replay: bool = True
    distributed: bool = False
    loggers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A named, complete, checked run."""

    name: str = field(metadata={"spec": False})
    agent: AgentSpec
    env: EnvSpec
    meta: MetaSpec = MetaSpec()
    search: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=(), compare=False, metadata={"spec": False})  # what loading had to say
