"""The exact state of a Gymnasium environment as plain arrays (no pickle), and back.

What is known in full: environments (and their wrappers) whose attributes are numbers, strings, arrays, containers of
those, random generators and spaces; and MuJoCo's simulator. Anything else means that the state cannot be held
exactly, and `take` says so with None. What no one can see from outside is state kept in a module or in NumPy's global
generator.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Set once when an environment is made, or pointing at the next layer; a fresh environment has its own.
_NOT_STATE = {
    "env",
    "spec",
    "metadata",
    "_metadata",
    "_cached_spec",
    "_saved_kwargs",
    "_ezpickle_args",
    "_ezpickle_kwargs",
}
_DRAWING = ("pygame", "gymnasium.envs.mujoco.mujoco_rendering")  # windows and canvases hold no simulator state
_SIMULATOR = "mujoco"


class _CannotSaveError(Exception):
    """Something that plain arrays cannot hold."""


def take(env: Any) -> dict[str, Array] | None:
    """The state of an environment and of all its wrappers, or None where it cannot be held exactly."""
    encoder = _Encoder()
    layers = list(layers_of(env))
    try:
        found = [
            {name: encoder.encode(value, f"{depth}.{name}") for name, value in _attributes(layer)}
            for depth, layer in enumerate(layers)
        ]
        encoder.refuse_overlaps()
    except _CannotSaveError:
        return None
    text = json.dumps({"layers": [type(layer).__name__ for layer in layers], "values": found})
    arrays = {"json": np.frombuffer(text.encode(), dtype=np.uint8).copy(), **encoder.arrays}
    if _has_simulator(layers[-1]):
        arrays |= _take_simulator(layers[-1])
    return arrays


def put(env: Any, arrays: dict[str, Array]) -> None:
    """Bring an environment that has been reset, and all its wrappers, to a state that `take` gave."""
    stored = json.loads(np.asarray(arrays["json"], dtype=np.uint8).tobytes())
    layers = list(layers_of(env))
    names = [type(layer).__name__ for layer in layers]
    if names != stored["layers"]:
        raise ValueError(
            f"The state was taken from {' in '.join(stored['layers'][::-1])}, not from {' in '.join(names[::-1])}."
        )
    decoder = _Decoder(arrays)
    for layer, values in zip(layers, stored["values"], strict=True):
        current = vars(layer)
        current.update({name: decoder.decode(value, current.get(name)) for name, value in values.items()})
    if _has_simulator(layers[-1]):
        _put_simulator(layers[-1], arrays)


def layers_of(env: Any) -> Iterator[Any]:
    """The environment as wrapped, layer by layer, the simulator itself last."""
    while True:
        yield env
        if not isinstance(env, gym.Wrapper):
            return
        env = env.env


def _attributes(layer: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(layer).items():
        drawn = type(value).__module__.startswith(_DRAWING)
        simulated = (
            type(value).__module__.startswith(_SIMULATOR) and _has_simulator(layer) and name in ("model", "data")
        )
        if name not in _NOT_STATE and not drawn and not simulated and not isinstance(value, type | ModuleType):
            yield name, value


class _Encoder:
    """Values to JSON, tagged where JSON would lose the type; arrays aside, each once, however often it is named."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._live: dict[int, tuple[str, Array]] = {}
        self._containers: dict[int, Any] = {}

    def encode(self, value: Any, path: str) -> Any:
        """The JSON form of a value found at `path`."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, np.bool_ | np.integer | np.float16 | np.float32 | np.float64 | np.str_):
            return {"scalar": [value.dtype.str, value.item()]}
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(value.bit_generator.state, path)}
        if isinstance(value, gym.spaces.Space):
            return {"space": self.encode(value._np_random, path)}
        if type(value) is tuple:
            return {"tuple": [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if type(value) in (list, dict):
            return self._container(value, path)
        raise _CannotSaveError(path)

    def _container(self, value: list[Any] | dict[Any, Any], path: str) -> Any:
        if id(value) in self._containers:  # two names for one list: they would come back as two lists
            raise _CannotSaveError(path)
        self._containers[id(value)] = value
        if isinstance(value, list):
            return {"list": [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        pairs = enumerate(value.items())
        return {"dict": [[self.encode(k, path), self.encode(v, f"{path}.{i}")] for i, (k, v) in pairs]}

    def _array(self, value: Array, path: str) -> Any:
        if value.dtype.kind in "SU":  # a map drawn in letters, as in FrozenLake
            return {"words": [value.dtype.str, value.astype("U").tolist()]}
        if value.dtype.kind not in "biuf" or type(value) is not np.ndarray:
            raise _CannotSaveError(path)
        if id(value) not in self._live:
            self._live[id(value)] = (path, value)
            self.arrays[path] = np.array(value, order="C")
        return {"array": self._live[id(value)][0], "view": value.base is not None}

    def refuse_overlaps(self) -> None:
        """Arrays that share memory would come back apart."""
        live = [value for _, value in self._live.values()]
        for i, one in enumerate(live):
            if any(np.may_share_memory(one, other) for other in live[:i]):
                raise _CannotSaveError("overlapping arrays")


class _Decoder:
    """The way back; generators, spaces and views are written in place, so that what shares them sees it."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
        self._made: dict[str, Array] = {}

    def decode(self, value: Any, current: Any = None) -> Any:
        """The value of a JSON form; `current` is what stands in its place now."""
        if not isinstance(value, dict):
            return value
        tag, content = next(iter(value.items()))
        if tag == "array":
            return self._array(content, value["view"], current)
        if tag == "scalar":
            return np.dtype(content[0]).type(content[1])
        if tag == "words":
            return np.array(content[1]).astype(content[0])
        if tag == "generator":
            return _generator(self.decode(content), current)
        if tag == "space":
            if content is not None:
                _generator(self.decode(content["generator"]), current.np_random)
            return current
        if tag == "dict":
            return {self.decode(key): self.decode(item) for key, item in content}
        items = [self.decode(item) for item in content]
        return tuple(items) if tag == "tuple" else items

    def _array(self, path: str, view: bool, current: Any) -> Array:
        if path not in self._made:
            stored = self._arrays[path]
            fits = isinstance(current, np.ndarray) and (current.shape, current.dtype) == (stored.shape, stored.dtype)
            if view and fits and current.flags.writeable:
                current[...] = stored
                self._made[path] = current
            else:
                self._made[path] = np.array(stored)
        return self._made[path]


def _generator(state: dict[str, Any], current: Any) -> np.random.Generator:
    """A generator in the given state: the one that is there, if it is of that kind."""
    kind = state["bit_generator"]
    fits = isinstance(current, np.random.Generator) and type(current.bit_generator).__name__ == kind
    generator: np.random.Generator = current if fits else np.random.Generator(getattr(np.random, kind)())
    generator.bit_generator.state = state
    return generator


def _has_simulator(layer: Any) -> bool:
    held = (vars(layer).get("model"), vars(layer).get("data"))
    return all(type(part).__module__.startswith(_SIMULATOR) for part in held)


def _mujoco() -> Any:
    return importlib.import_module("mujoco")  # an extra: only there when an environment brought it in


def _take_simulator(env: Any) -> dict[str, Array]:
    """MuJoCo's integration state, and what it computed from it: environments read positions of the last substep."""
    mujoco = _mujoco()
    kind = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    state = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, state, kind)
    computed = [field.ravel() for field in _fields(env)]
    return {"mujoco.state": state, "mujoco.computed": np.concatenate(computed)}


def _put_simulator(env: Any, arrays: dict[str, Array]) -> None:
    mujoco = _mujoco()
    kind = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_setState(env.model, env.data, np.array(arrays["mujoco.state"]), kind)
    computed, start = arrays["mujoco.computed"], 0
    fields = _fields(env)
    if sum(field.size for field in fields) != computed.size:
        raise ValueError("The state was taken from another MuJoCo model or another version of MuJoCo.")
    for field in fields:
        field[...] = computed[start : start + field.size].reshape(field.shape)
        start += field.size


def _fields(env: Any) -> list[Array]:
    """The simulator's own float arrays, without those that grow and shrink with the contacts of the moment."""
    fresh = _mujoco().MjData(env.model)
    names = [name for name in sorted(dir(fresh)) if not name.startswith("_")]
    pairs = [(getattr(env.data, name), getattr(fresh, name)) for name in names]
    return [
        live
        for live, empty in pairs
        if isinstance(live, np.ndarray) and live.dtype == np.float64 and live.shape == empty.shape and live.size
    ]
