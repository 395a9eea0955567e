"""Policies that SLM-Lab trained: the weights of its `.pt` files in the networks that its spec names here.

Its nets are a body and one output layer per tail. A state dict holds their layers in the order in which the data meets
them, so layers are matched by order, whatever the modules are called in which version; every shape is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rewardlab import slm
from rewardlab.experiment.record import RecordError, RunFolder, read_columns
from rewardlab.experiment.torch_file import Tensors, read_torch
from rewardlab.nets.actor_critic import ActorCritic
from rewardlab.spec import Spec, from_dict
from rewardlab.spec.build import keys_of
from rewardlab.spec.types import MetaSpec


class Layer(NamedTuple):
    """A layer of theirs: linear [out, in], convolution [out, in, height, width] or norm [n], and its bias."""

    name: str
    weight: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]


class Best(NamedTuple):
    """The weights of the best session, and how good it was."""

    path: Path
    frame: int
    score: float


def best_weights(folder: RunFolder) -> Best | None:
    """Of the sessions that kept their best net, the one with the highest `total_reward_ma`; None in our own folders."""
    found = []
    for path in sorted((folder.path / "model").glob(f"{folder.stem}_s*_ckpt-best_net_model.pt")):
        session = int(path.name.removeprefix(f"{folder.stem}_s").partition("_")[0])
        table = folder.session_df_path(session, "train")
        frame, score = 0, float("-inf")
        if table.exists():
            columns = read_columns(table)
            row = int(np.nanargmax(columns["total_reward_ma"]))
            frame, score = int(columns["frame"][row]), float(columns["total_reward_ma"][row])
        found.append(Best(path, frame, score))
    return max(found, key=lambda best: best.score, default=None)


def spec_of(folder: RunFolder) -> Spec:
    """The spec in our keys; what of `meta` belonged to the run is of no use to who plays."""
    raw, notes = slm.convert(folder.read_spec())
    known = keys_of(MetaSpec)
    raw["meta"] = {key: value for key, value in (raw.get("meta") or {}).items() if key in known}
    return from_dict({key: raw[key] for key in ("agent", "env", "meta")}, folder.spec_name, notes)


def load(path: Path, shapes: Any) -> Any:
    """A policy of these shapes with the weights of a file. What SLM-Lab keeps elsewhere (a critic) and what acting
    without exploration does not need (a deviation) is zero."""
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    critic = blank.critic if isinstance(blank, ActorCritic) else blank
    actor = blank.actor if isinstance(blank, ActorCritic) else blank
    if not hasattr(getattr(actor, "net", None), "layers"):
        raise RecordError(f"{path.name}: only feed-forward nets of SLM-Lab can be played here.")
    net = filled(actor.net, list(layers_of(read_torch(path))), critic is None, path)
    actor = dataclasses.replace(actor, net=net)
    return dataclasses.replace(blank, actor=actor) if isinstance(blank, ActorCritic) else actor


def layers_of(tensors: Tensors) -> Iterator[Layer]:
    """Every layer with a weight and a bias, in order."""
    for name, weight in tensors.items():
        where = name.removesuffix(".weight")
        if where != name:
            if f"{where}.bias" not in tensors:
                raise RecordError(f"{where} has no bias, which every layer here has.")
            yield Layer(where, weight, tensors[f"{where}.bias"])


def filled(net: Any, theirs: list[Layer], valued: bool, path: Path) -> Any:
    """A body and its output, from the layers of a file; `valued`: the last output is a value, beside the actor's."""
    rest, layers, channels = list(theirs), [], 0
    for layer in net.layers:
        if not jax.tree.leaves(layer):  # an activation
            layers.append(layer)
            continue
        if not rest:
            raise RecordError(f"{path.name} holds {len(theirs)} layers, the spec's network has more.")
        given = rest.pop(0)
        layers.append(_converted(layer, given, channels, path))
        channels = len(given.bias) if given.weight.ndim == 4 else channels if given.weight.ndim == 1 else 0
    if not rest:
        raise RecordError(f"{path.name} holds {len(theirs)} layers, none of them for the output.")
    weight, bias = np.concatenate([tail.weight for tail in rest]), np.concatenate([tail.bias for tail in rest])
    wanted = net.output.bias.shape[0]
    rows = [*range(wanted - 1), len(bias) - 1] if valued else [*range(wanted)]  # means come before deviations
    if len(bias) < wanted:
        raise RecordError(f"{path.name} has {len(bias)} outputs, the spec's network has {wanted}.")
    tail = Layer(rest[0].name, weight[rows], bias[rows])
    return dataclasses.replace(net, layers=tuple(layers), output=_converted(net.output, tail, channels, path))


def _converted(layer: Any, given: Layer, channels: int, path: Path) -> Any:
    """A layer of ours with the numbers of theirs; `channels`: of the image that a linear layer sees as a row."""
    if hasattr(layer, "linear"):  # a convolution: [out, in, height, width] is [height · width · in, out] here
        flat = given._replace(weight=np.moveaxis(given.weight, 1, -1).reshape(len(given.bias), -1))
        return dataclasses.replace(layer, linear=_converted(layer.linear, flat, 0, path))
    weight = given.weight.T
    if channels and given.weight.ndim == 2:  # their rows run channel by channel, ours pixel by pixel
        weight = weight.reshape(channels, -1, weight.shape[1]).swapaxes(0, 1).reshape(weight.shape)
    fields: Mapping[str, Any] = {"scale" if hasattr(layer, "scale") else "weight": weight, "bias": given.bias}
    for name, value in fields.items():
        if (held := getattr(layer, name)).shape != value.shape:
            raise RecordError(
                f"{path.name} does not fit its spec: {given.name} is {list(value.shape)}, expected {list(held.shape)}."
            )
    return dataclasses.replace(layer, **{name: jnp.asarray(value, jnp.float32) for name, value in fields.items()})
