"""Settings that have the right type and still cannot work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rewardlab.spec import types as t
from rewardlab.spec.types import SpecError


def check(made: Any, where: str) -> None:
    """Raises a SpecError for a part of a spec that cannot work; parts without rules pass."""
    looks_like_var = all(hasattr(made, key) for key in ("start_val", "end_val", "start_step", "end_step"))
    rules = _var if looks_like_var else RULES.get(type(made))
    if rules:
        rules(made, where)


def require(holds: bool, where: str, value: Any, expected: str) -> None:
    """A rule: the value at a place is as expected."""
    if not holds:
        raise SpecError(f"{where} is {value!r}, expected {expected}")


def one_of(where: str, name: str, options: Sequence[str], what: str) -> None:
    """A rule: a name is one of those there are; the error names the nearest."""
    from rewardlab.spec.build import near

    if name not in options:
        nearest = near(name, options)
        hint = f"did you mean {nearest}?" if nearest else f"there are {', '.join(options)}"
        raise SpecError(f"{where} names an unknown {what}, {name!r}; {hint}")


def at_least(part: Any, where: str, **lowest: float) -> None:
    """A rule: numbers not below their lowest; those left out pass."""
    for key, low in lowest.items():
        value = getattr(part, key)
        require(value is None or value >= low, f"{where}.{key}", value, f"{low:g} or more")


def _var(spec: t.VarSpec, where: str) -> None:
    one_of(f"{where}.name", spec.name, t.VAR_SCHEDULES, "schedule")
    if math.isnan(spec.start_val):
        raise SpecError(f"{where}.start_val is missing")
    at_least(spec, where, start_step=0, end_step=0)
    changes = spec.name != "no_decay" and spec.end_val is not None
    require(
        not changes or spec.end_step > spec.start_step, f"{where}.end_step", spec.end_step, "a frame after start_step"
    )


def _optim(spec: t.OptimSpec, where: str) -> None:
    one_of(f"{where}.name", spec.name, t.OPTIMISERS, "optimiser")
    at_least(spec, where, lr=0, weight_decay=0, eps=0)
    for key in ("betas", "momentum", "alpha"):
        value = getattr(spec, key)
        given = value if isinstance(value, tuple) else () if value is None else (value,)
        require(all(0 <= v < 1 for v in given), f"{where}.{key}", value, "0 or more and less than 1")


def _lr_schedule(spec: t.LrScheduleSpec, where: str) -> None:
    one_of(f"{where}.name", spec.name, t.LR_SCHEDULES, "learning-rate schedule")
    at_least(spec, where, frame=1, end_factor=0)


def _loss(spec: t.LossSpec, where: str) -> None:
    one_of(f"{where}.name", spec.name, t.LOSSES, "loss")


def _net(spec: t.NetSpec, where: str) -> None:
    one_of(f"{where}.type", spec.type, t.NETS, "network")
    if spec.type == "TorchArcNet" and spec.layers is None and spec.arc is None:
        raise SpecError(f"{where}.type is TorchArcNet, which needs an arc or layers; hid_layers belong to MLPNet")
    one_of(f"{where}.hid_layers_activation", spec.hid_layers_activation, t.ACTIVATIONS, "activation")
    one_of(f"{where}.update_type", spec.update_type, t.UPDATE_TYPES, "target update")
    if spec.init_fn is not None:
        one_of(f"{where}.init_fn", spec.init_fn.removesuffix("_") + "_", t.INITIALISERS, "initialiser")
    require(all(n >= 1 for n in spec.hid_layers), f"{where}.hid_layers", spec.hid_layers, "widths of 1 or more")
    require(0 <= spec.polyak_coef <= 1, f"{where}.polyak_coef", spec.polyak_coef, "a number from 0 to 1")
    require(
        spec.clip_grad_val is None or spec.clip_grad_val > 0, f"{where}.clip_grad_val", spec.clip_grad_val, "above 0"
    )
    at_least(spec, where, update_frequency=1, actor_init_std=0, critic_init_std=0)
    if spec.batch_renorm is not None:
        batch_renorm(spec.batch_renorm, f"{where}.batch_renorm")
    for index, layer in enumerate(spec.layers or ()):
        _layer(layer, f"{where}.layers[{index}]")


def batch_renorm(given: Any, where: str) -> None:
    """The keys of a batch-renorm layer."""
    for key, value in given.items():
        one_of(f"{where}.{key}", key, ("momentum", "eps", "warmup_steps", "r_max", "d_max"), "key")
        number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        require(number, f"{where}.{key}", value, "a number of 0 or more")


def _layer(layer: Any, where: str) -> None:
    """One entry of an explicit body: {linear: 64}, {activation: tanh}, {conv: {…}} …"""
    require(len(layer) == 1, where, dict(layer), "one key, such as {linear: 64}")
    ((kind, value),) = layer.items()
    one_of(where, kind, t.LAYERS, "layer")
    if kind in ("linear", "impala", "gru", "lstm"):
        require(type(value) is int and value >= 1, f"{where}.{kind}", value, "a width of 1 or more")
    elif kind == "activation":
        one_of(f"{where}.activation", str(value), t.ACTIVATIONS, "activation")
    elif kind == "batch_renorm":
        require(isinstance(value, dict), f"{where}.batch_renorm", value, "a mapping")
        batch_renorm(value, f"{where}.batch_renorm")
    elif kind == "conv":
        require(isinstance(value, dict) and {"channels", "kernel"} <= set(value), where, value, "channels and kernel")
        for key, size in value.items():
            one_of(f"{where}.conv", key, ("channels", "kernel", "stride", "padding"), "key")
            least = 0 if key == "padding" else 1
            require(
                type(size) is int and size >= least, f"{where}.conv.{key}", size, f"a whole number of {least} or more"
            )
    else:
        require(value is True, f"{where}.{kind}", value, "true")


def _memory(spec: t.MemorySpec, where: str) -> None:
    one_of(f"{where}.name", spec.name, t.MEMORIES, "memory")
    at_least(spec, where, batch_size=1, max_size=1, alpha=0, epsilon=0)
    fits = spec.name.startswith("OnPolicy") or spec.batch_size <= spec.max_size
    require(fits, f"{where}.batch_size", spec.batch_size, f"no more than max_size, {spec.max_size}")


def _agent(spec: t.AgentSpec, where: str) -> None:
    name = spec.algorithm.get("name")
    if name is None:
        raise SpecError(f"{where}.algorithm.name is missing")
    require(isinstance(name, str), f"{where}.algorithm.name", name, "a text")


def _env(spec: t.EnvSpec, where: str) -> None:
    at_least(spec, where, num_envs=1, max_t=1, clip_obs=0, clip_reward=0)
    what = f"at least one frame for each of {spec.num_envs} environments"
    require(spec.max_frame >= spec.num_envs, f"{where}.max_frame", spec.max_frame, what)


def _meta(spec: t.MetaSpec, where: str) -> None:
    at_least(
        spec, where, max_session=1, max_trial=1, log_frequency=1, eval_frequency=1, rigorous_eval=0, film=0, seed=0
    )
    for name in spec.loggers:
        one_of(f"{where}.loggers", name, t.LOGGERS, "logger")


def _scheduler(spec: t.SchedulerSpec, where: str) -> None:
    at_least(spec, where, grace_period=1, reduction_factor=2)


def _resources(spec: t.ResourcesSpec, where: str) -> None:
    at_least(spec, where, cpu=0, gpu=0)


def check_together(spec: t.Spec) -> None:
    """Rules that look at more than one section."""
    log, envs = spec.meta.log_frequency, spec.env.num_envs
    what = f"at least env.num_envs, {envs}: that many frames pass at each step"
    require(log >= envs, "meta.log_frequency", log, what)


RULES: dict[type, Callable[[Any, str], None]] = {
    t.OptimSpec: _optim,
    t.LrScheduleSpec: _lr_schedule,
    t.LossSpec: _loss,
    t.NetSpec: _net,
    t.MemorySpec: _memory,
    t.AgentSpec: _agent,
    t.EnvSpec: _env,
    t.MetaSpec: _meta,
    t.SchedulerSpec: _scheduler,
    t.ResourcesSpec: _resources,
}
