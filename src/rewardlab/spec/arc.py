"""SLM-Lab's TorchArcNet: a graph of PyTorch modules in a line becomes `hid_layers`, or `layers` where it must."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewardlab.spec.types import SpecError

ACTIVATIONS = {
    "ReLU": "relu",
    "Tanh": "tanh",
    "SELU": "selu",
    "ELU": "elu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "LeakyReLU": "leaky_relu",
    "Softplus": "softplus",
    "Mish": "mish",
    "Identity": "identity",
}
NEVER = 2_000_000_000  # batch renorm during its warm-up is batch norm, so a warm-up without end is batch norm
Layer = Mapping[str, Any]


def resolve(net: Any, where: str) -> Any:
    """A net's mapping with its `arc` as plain keys; one without an `arc` as it stands."""
    if not isinstance(net, Mapping) or net.get("arc") is None:
        return net
    for key in ("hid_layers", "layers"):
        if net.get(key) is not None:
            raise SpecError(f"{where} has both arc and {key}, which say the same thing twice")
    layers = to_layers(net["arc"], f"{where}.arc")
    kept = {key: value for key, value in net.items() if key not in ("arc", "type", "hid_layers", "layers")}
    simple = as_hid_layers(layers)
    if simple is None:
        activation = next((layer["activation"] for layer in layers if "activation" in layer), None)
        return {"type": "TorchArcNet", **kept, "layers": layers} | (
            {"hid_layers_activation": activation} if activation else {}
        )
    return {"type": "MLPNet", **kept, **simple}


def to_layers(arc: Any, where: str) -> list[Layer]:
    """The layers of a graph, from its input to its output."""
    modules = arc.get("modules") if isinstance(arc, Mapping) else None
    graph = arc.get("graph") if isinstance(arc, Mapping) else None
    if not isinstance(modules, Mapping) or not isinstance(graph, Mapping):
        raise SpecError(f"{where} needs `modules` and a `graph`")
    layers: list[Layer] = []
    for name in _in_line(graph, where):
        if name not in modules:
            raise SpecError(f"{where}.graph uses {name}, which is not among {where}.modules: {', '.join(modules)}")
        layers += _module(modules[name], f"{where}.modules.{name}")
    return layers


def _in_line(graph: Mapping[str, Any], where: str) -> list[str]:
    """The names of a graph's modules in the order the data takes, where that is one line."""
    here, wired = graph.get("input"), graph.get("modules")
    trouble = SpecError(f"{where}.graph is not one line from an input to an output, the only shape that is understood")
    if not isinstance(here, str) or not isinstance(wired, Mapping):
        raise trouble
    follows: dict[str, str] = {}
    for name, inputs in wired.items():
        sources = inputs if isinstance(inputs, list) else [inputs]
        if len(sources) != 1 or not isinstance(sources[0], str) or sources[0] in follows:
            raise trouble
        follows[sources[0]] = name
    order: list[str] = []
    while here in follows and len(order) < len(follows):
        here = follows[here]
        order.append(here)
    if len(order) != len(follows) or graph.get("output") not in (here, [here]):
        raise trouble
    return order


def _module(module: Any, where: str) -> list[Layer]:
    """The layers of one module: a Sequential, or a single layer."""
    if isinstance(module, str):
        return _layer(module, {}, where)
    if not isinstance(module, Mapping) or len(module) != 1:
        raise SpecError(f"{where} is {module!r}, expected one layer such as {{LazyLinear: {{out_features: 64}}}}")
    ((kind, value),) = module.items()
    if kind != "Sequential":
        return _layer(kind, value or {}, where)
    if not isinstance(value, list):
        raise SpecError(f"{where}.Sequential is {value!r}, expected a list of layers")
    return [layer for i, entry in enumerate(value) for layer in _module(entry, f"{where}.Sequential[{i}]")]


def _layer(kind: str, given: Any, where: str) -> list[Layer]:
    """One PyTorch layer in our words."""
    if not isinstance(given, Mapping):
        raise SpecError(f"{where}.{kind} is {given!r}, expected keyword arguments")
    name = kind.removeprefix("Lazy")
    if kind in ACTIVATIONS:
        return [{"activation": ACTIVATIONS[kind]}]
    if name == "Linear":
        _only(given, ("in_features", "out_features"), f"{where}.{kind}")
        return [{"linear": _size(given, "out_features", f"{where}.{kind}")}]
    if name == "LayerNorm":
        _only(given, ("normalized_shape",), f"{where}.{kind}")
        return [{"layer_norm": True}]
    if name == "BatchRenorm1d":
        _only(given, ("num_features", "momentum", "eps", "warmup_steps", "r_max", "d_max"), f"{where}.{kind}")
        defaults = {"momentum": 0.01, "eps": 1e-5, "warmup_steps": 10_000}
        return [{"batch_renorm": defaults | {k: v for k, v in given.items() if k != "num_features"}}]
    if name == "BatchNorm1d":
        _only(given, ("num_features", "momentum", "eps"), f"{where}.{kind}")
        kept = {"momentum": given.get("momentum", 0.1), "eps": given.get("eps", 1e-5)}
        return [{"batch_renorm": {**kept, "warmup_steps": NEVER}}]
    if name == "Conv2d":
        _only(given, ("in_channels", "out_channels", "kernel_size", "stride", "padding"), f"{where}.{kind}")
        sizes = {"channels": _size(given, "out_channels", where), "kernel": _size(given, "kernel_size", where)}
        return [{"conv": sizes | {"stride": given.get("stride", 1), "padding": given.get("padding", 0)}}]
    if name == "Flatten":
        return [{"flatten": True}]
    known = ", ".join(["Linear", "Conv2d", "Flatten", "LayerNorm", "BatchNorm1d", "BatchRenorm1d", *ACTIVATIONS])
    raise SpecError(f"{where} uses the layer {kind}, which is not understood; understood are {known} (and Lazy…)")


def _size(given: Mapping[str, Any], key: str, where: str) -> int:
    value = given.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{where}.{key} is {value!r}, expected a whole number of 1 or more")
    return value


def _only(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in known:
            raise SpecError(f"{where}.{key} is not understood; {where} may have {', '.join(known)}")


def as_hid_layers(layers: list[Layer]) -> dict[str, Any] | None:
    """The same body as `hid_layers` and its companions, where every block is Linear [BatchRenorm] [LayerNorm] act."""
    blocks: list[list[Layer]] = []
    for layer in layers:
        if "linear" in layer:
            blocks.append([])
        elif not blocks:
            return None
        blocks[-1].append(layer)
    rests = [block[1:] for block in blocks]
    if not blocks or any(rest != rests[0] for rest in rests):
        return None
    shape = [next(iter(layer)) for layer in rests[0]]
    if shape not in (["activation"], ["batch_renorm", "activation"], ["layer_norm", "activation"]):
        return None
    made: dict[str, Any] = {"hid_layers": [block[0]["linear"] for block in blocks]}
    for layer in rests[0]:
        ((kind, value),) = layer.items()
        made["hid_layers_activation" if kind == "activation" else kind] = value
    return made
