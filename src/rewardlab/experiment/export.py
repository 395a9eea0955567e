"""A trained policy for others: ONNX, or a PyTorch state dict. Observation statistics and action scaling go with it."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rewardlab.envs.base import Discrete, MultiDiscrete
from rewardlab.experiment.record import RecordError, RunFolder
from rewardlab.experiment.replay import TrainedPolicy
from rewardlab.files import write_bytes_atomic
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.nets.heads import Actor, QNet, SquashedActor
from rewardlab.nets.linear import Linear
from rewardlab.nets.mlp import MLP, Activation, LayerNorm

Values = NDArray[np.float32]
OPSET = 20
# our names, and the operators that mean the same
OPERATORS: dict[str, str] = {
    **{"relu": "Relu", "tanh": "Tanh", "elu": "Elu", "sigmoid": "Sigmoid", "softplus": "Softplus", "mish": "Mish"},
    **{"gelu": "Gelu", "selu": "Selu", "leaky_relu": "LeakyRelu", "identity": "Identity"},
}
MODULES = {"relu": "ReLU", "tanh": "Tanh", "elu": "ELU", "sigmoid": "Sigmoid", "softplus": "Softplus", "mish": "Mish"}
MODULES |= {"gelu": "GELU", "selu": "SELU", "leaky_relu": "LeakyReLU", "identity": "Identity", "silu": "SiLU"}
MODULES |= {"swish": "SiLU"}


class Stage(NamedTuple):
    """A step of a network: what it does, and with which arrays."""

    kind: str  # normalize, linear, layer_norm, or an activation's name
    arrays: tuple[Values, ...] = ()


class Network(NamedTuple):
    """A policy as a chain of stages, and how its output becomes an action."""

    size: int
    stages: list[Stage]
    discrete: bool
    tanh: bool  # a squashed Gaussian: the first half of the output is its mean
    low: Values | None
    high: Values | None
    dueling: bool


def network_of(trained: TrainedPolicy) -> Network:
    """The chain of a feed-forward policy."""
    policy = trained.policy
    actor = policy.actor if isinstance(policy, ActorCritic) else policy
    net = getattr(actor, "net", None)
    shared = isinstance(policy, ActorCritic) and policy.critic is None
    if not isinstance(actor, Actor | QNet | SquashedActor) or not isinstance(net, MLP) or shared:
        raise RecordError(f"{trained.path.name} is no feed-forward policy of its own: only such a one can be exported.")
    if net.image is not None or isinstance(trained.algorithm.action, MultiDiscrete):
        raise RecordError(
            f"{trained.path.name} sees pixels or makes several choices at once: it cannot be exported yet."
        )
    stages: list[Stage] = []
    if trained.stats is not None:
        deviation = jnp.sqrt(trained.stats.var + 1e-8)
        clip = np.float32(trained.lens.clip_obs or 10.0)
        stages.append(Stage("normalize", _plain(trained.stats.mean, deviation, clip)))
    for layer in (*net.layers, net.output):
        stages.append(_stage(layer))
    action: Any = trained.algorithm.action
    discrete = isinstance(action, Discrete)
    bounds = (None, None) if discrete else _bounds(action)
    dueling = isinstance(actor, QNet) and actor.dueling
    return Network(
        trained.algorithm.observation.size, stages, discrete, isinstance(actor, SquashedActor), *bounds, dueling
    )


def _stage(layer: Any) -> Stage:
    if isinstance(layer, Linear):
        return Stage("linear", _plain(layer.weight, layer.bias))
    if isinstance(layer, LayerNorm):
        return Stage("layer_norm", _plain(layer.scale, layer.bias))
    if isinstance(layer, Activation):
        return Stage(layer.name)
    raise RecordError(f"A layer of kind {type(layer).__name__} cannot be exported.")


def _plain(*arrays: Any) -> tuple[Values, ...]:
    return tuple(np.asarray(x, np.float32) for x in arrays)


def _bounds(action: Any) -> tuple[Values | None, Values | None]:
    low, high = np.asarray(action.low, np.float32).reshape(-1), np.asarray(action.high, np.float32).reshape(-1)
    return (low, high) if np.isfinite(low).all() and np.isfinite(high).all() else (None, None)


def write_onnx(network: Network, path: Path) -> None:
    """A model with the input `obs` [N, size] and the outputs `output` (logits, values, means) and `action`."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise RecordError('ONNX needs: pip install "rewardlab[export]".') from error
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(constants)}"))
        return str(constants[-1].name)

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"x{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    x = "obs"
    for stage in network.stages:
        x = _onnx_stage(stage, x, add, constant)
    if network.dueling:  # V shifts all values alike, and does not change which is best
        x = add("Slice", x, constant(np.array([1])), constant(np.array([2**31 - 1])), constant(np.array([1])))
    if network.tanh:
        half = network.stages[-1].arrays[1].shape[0] // 2
        x = add("Slice", x, constant(np.array([0])), constant(np.array([half])), constant(np.array([1])))
        x = add("Tanh", x)
    output = add("Identity", x)
    if network.discrete:
        action, kind = add("ArgMax", output, axis=1, keepdims=0), TensorProto.INT64
    else:
        action, kind = output, TensorProto.FLOAT
        if network.low is not None and network.high is not None:
            one = add("Clip", output, constant(np.float32(-1)), constant(np.float32(1)))
            span = add("Mul", add("Add", one, constant(np.float32(1))), constant(0.5 * (network.high - network.low)))
            action = add("Add", span, constant(network.low))
        action = add("Identity", action)
    shape = ["N"] if network.discrete else ["N", None]
    outs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", None])]
    outs += [helper.make_tensor_value_info(action, kind, shape)]
    for info, name in zip(outs, ("output", "action"), strict=True):
        nodes.append(helper.make_node("Identity", [info.name], [name]))
        info.name = name
    given = helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["N", network.size])
    graph = helper.make_graph(nodes, "policy", [given], outs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    write_bytes_atomic(path, model.SerializeToString())


def _onnx_stage(stage: Stage, x: str, add: Callable[..., str], constant: Callable[[Any], str]) -> str:
    if stage.kind == "normalize":
        mean, deviation, clip = stage.arrays
        scaled = add("Div", add("Sub", x, constant(mean)), constant(deviation))
        return add("Clip", scaled, constant(-clip), constant(clip))
    if stage.kind == "linear":
        return add("Gemm", x, *(constant(a) for a in stage.arrays))
    if stage.kind == "layer_norm":
        return add("LayerNormalization", x, *(constant(a) for a in stage.arrays), epsilon=1e-5)
    if stage.kind in ("silu", "swish"):
        return add("Mul", x, add("Sigmoid", x))
    return add(OPERATORS[stage.kind], x)


def write_torch(network: Network, path: Path) -> None:
    """A file for `torch.load(weights_only=True)`: `modules`, the names of a `torch.nn.Sequential`'s modules in order
    with their sizes; `state_dict`, its weights; and what surrounds it."""
    try:
        import torch
    except ImportError as error:
        raise RecordError("A .pt file is written by PyTorch: pip install torch, or export to ONNX.") from error
    modules: list[list[Any]] = []
    weights: collections.OrderedDict[str, Any] = collections.OrderedDict()
    around: dict[str, Any] = {"discrete": network.discrete, "tanh": network.tanh, "dueling": network.dueling}
    for stage in network.stages:
        if stage.kind == "normalize":
            around |= dict(zip(("obs_mean", "obs_std", "obs_clip"), map(torch.tensor, stage.arrays), strict=True))
            continue
        if stage.kind == "linear":
            modules.append(["Linear", *stage.arrays[0].shape])
            weights[f"{len(modules) - 1}.weight"] = torch.tensor(stage.arrays[0].T.copy())
            weights[f"{len(modules) - 1}.bias"] = torch.tensor(stage.arrays[1])
        elif stage.kind == "layer_norm":
            modules.append(["LayerNorm", len(stage.arrays[0])])
            weights[f"{len(modules) - 1}.weight"] = torch.tensor(stage.arrays[0])
            weights[f"{len(modules) - 1}.bias"] = torch.tensor(stage.arrays[1])
        else:
            modules.append([MODULES[stage.kind]])
    if network.low is not None and network.high is not None:
        around |= {"action_low": torch.tensor(network.low), "action_high": torch.tensor(network.high)}
    torch.save({"modules": modules, "state_dict": weights, **around}, path)


WRITERS: dict[str, Callable[[Network, Path], None]] = {"onnx": write_onnx, "pt": write_torch}


def export(folder: RunFolder, kind: str, output: Path | None = None) -> Path:
    """The best policy of a run in another format, beside its own weights."""
    if kind not in WRITERS:
        raise RecordError(f"There is no format {kind!r}: there are {', '.join(WRITERS)}.")
    trained = TrainedPolicy(folder)
    path = output or trained.path.with_suffix(f".{kind}")
    WRITERS[kind](network_of(trained), path)
    return path
