"""Checkpoints: any pytree of arrays as one safetensors file that proves its own integrity.

The bytes are a function of the tree alone (sorted header, no times), so equal states give equal files. JAX is imported
where it is needed: reading a header or comparing two files does not wait for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rewardlab.files import RecordError, atomic_writer, record_error

FORMAT = "rewardlab-1"
Meta = dict[str, str | int | float]

_CODES: dict[str, str] = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_ML_DTYPES: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
_DTYPES = {code: np.dtype(_ML_DTYPES.get(name, name)) for name, code in _CODES.items()}
_NO_DIGEST = "0" * 64


@dataclass(frozen=True)
class _Header:
    """What stands before the tensors of a file."""

    raw: bytes  # with the length prefix
    tensors: list[tuple[str, np.dtype[Any], tuple[int, ...]]]  # in the order of the bytes
    metadata: Mapping[str, str]

    @property
    def meta(self) -> Meta:
        return dict(json.loads(self.metadata["meta"]))

    @property
    def generators(self) -> dict[str, str]:
        """The names that hold typed PRNG keys, and their generators."""
        return dict(json.loads(self.metadata["keys"]))


def save_tree(path: Path, tree: Any, meta: Mapping[str, str | int | float] | None = None) -> None:
    """Save every array, PRNG key and Python number of a pytree; other leaves (functions, texts) are code, not state."""
    arrays: dict[str, NDArray[Any]] = {}
    generators: dict[str, str] = {}
    for name, leaf in _named_leaves(tree):
        if name in arrays or name == "__metadata__":
            raise RecordError(f"Two leaves of the tree would both be named {name!r} in {path.name}: rename one.")
        data, generator = _to_array(leaf)
        if str(data.dtype) not in _CODES:
            raise RecordError(f"{name} is {data.dtype}, which {path.name} cannot hold: use one of {', '.join(_CODES)}.")
        arrays[name] = data
        if generator is not None:
            generators[name] = generator
    metadata = {
        "format": FORMAT,
        "sha256": _NO_DIGEST,  # before anything that could contain the same text
        "keys": json.dumps(generators, sort_keys=True),
        "meta": json.dumps(dict(meta or {}), sort_keys=True),
    }
    _write(path, arrays, metadata)


def load_tree(path: Path, template: Any) -> tuple[Any, Meta]:
    """The tree of a file in the structure, dtypes and kinds of arrays of `template`, whose own values are not read."""
    import jax

    arrays, header = _read(path)
    expected = dict(_named_leaves(template))
    _check_fit(path, {name: (a.dtype, a.shape) for name, a in arrays.items()}, header.generators, expected)
    loaded = iter([_from_array(arrays.pop(name), leaf) for name, leaf in expected.items()])
    leaves, structure = jax.tree_util.tree_flatten(template)
    filled = [next(loaded) if _is_state(leaf) else leaf for leaf in leaves]
    return jax.tree_util.tree_unflatten(structure, filled), header.meta


def load_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], Meta]:
    """The named arrays of a file, without a template (PRNG keys as their raw words)."""
    arrays, header = _read(path)
    return arrays, header.meta


def read_meta(path: Path) -> Meta:
    """The meta of a file from its header alone; the tensors are not verified."""
    try:
        with path.open("rb") as file:
            return _read_header(path, file).meta
    except OSError as error:
        raise record_error(path, error, "read") from error


def blank_arrays(path: Path, name: str) -> dict[str, NDArray[Any]]:
    """Arrays, not filled, of what a file holds in the dictionary of a name: a template where only the file knows."""
    try:
        with path.open("rb") as file:
            tensors = _read_header(path, file).tensors
    except OSError as error:
        raise record_error(path, error, "read") from error
    start = f"{name}."
    return {key.removeprefix(start): np.empty(shape, dtype) for key, dtype, shape in tensors if key.startswith(start)}


def _is_state(leaf: Any) -> bool:
    return (hasattr(leaf, "dtype") and hasattr(leaf, "shape")) or isinstance(leaf, bool | int | float)


def _named_leaves(tree: Any) -> Iterable[tuple[str, Any]]:
    """The leaves that are state, under dotted names."""
    import jax

    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if _is_state(leaf):
            yield jax.tree_util.keystr(path, simple=True, separator=".") or "value", leaf


def _is_key(leaf: Any) -> bool:
    import jax

    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_array(leaf: Any) -> tuple[NDArray[Any], str | None]:
    """A leaf as numpy (without a copy where JAX allows it), and the generator if it is a typed PRNG key."""
    import jax

    if _is_key(leaf):
        return np.asarray(jax.random.key_data(leaf)), _generator(leaf)
    array = np.asarray(leaf)
    return array.astype(array.dtype.newbyteorder("<"), copy=False), None


def _from_array(array: NDArray[Any], leaf: Any) -> Any:
    """An array of the file as the kind of leaf that the template has there."""
    import jax

    if isinstance(leaf, bool | int | float):
        return type(leaf)(array.item())
    if isinstance(leaf, np.generic):
        return array[()]
    if isinstance(leaf, np.ndarray):
        return array
    if _is_key(leaf):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=_generator(leaf))
    if getattr(leaf, "weak_type", False) and array.ndim == 0:
        weak = jax.numpy.asarray(array.item())  # as weakly typed as before, or the next call would compile again
        if weak.dtype == leaf.dtype:
            return weak
    return jax.numpy.asarray(array)


def _generator(leaf: Any) -> str:
    """The name of the generator of a typed key; traced, because a ShapeDtypeStruct has no key to ask."""
    import jax

    names: list[str] = []
    jax.eval_shape(lambda key: names.append(str(jax.random.key_impl(key))), leaf)
    return names[0]


def _check_fit(
    path: Path, found: Mapping[str, Any], generators: Mapping[str, str], expected: Mapping[str, Any]
) -> None:
    """One sentence on the first difference between a file and what it is loaded into."""
    import jax

    advice = "was the spec or the version changed since it was saved?"
    for name, leaf in expected.items():
        if name not in found:
            raise RecordError(f"{path} does not fit: it holds no {name}; {advice}")
        if _is_key(leaf):
            if generators.get(name) != _generator(leaf):
                held = f"a PRNG key of {generators[name]}" if name in generators else "no PRNG key"
                raise RecordError(f"{path} does not fit: {name} is {held} there and one of {_generator(leaf)} here.")
            words = jax.eval_shape(jax.random.key_data, leaf)
            dtype, shape = np.dtype(words.dtype), tuple(words.shape)
        elif isinstance(leaf, bool | int | float):
            dtype, shape = np.asarray(leaf).dtype, ()
        else:
            dtype, shape = np.dtype(leaf.dtype), tuple(leaf.shape)
        if found[name] != (dtype, shape):
            there, here = _describe(*found[name]), _describe(dtype, shape)
            raise RecordError(f"{path} does not fit: {name} is {there} there and {here} here; {advice}")
    for name in found:
        if name not in expected:
            raise RecordError(f"{path} does not fit: it holds {name}, which does not exist here; {advice}")


def _describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype} {list(shape)}"


def _encode_header(arrays: Mapping[str, NDArray[Any]], order: list[str], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name in order:
        array = arrays[name]
        code = _CODES[str(array.dtype)]
        entries[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start on 8 bytes, as the format asks
    return len(text).to_bytes(8, "little") + text


def _write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Stream the arrays into the file: no second copy of a large replay is ever in memory."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    blank = _encode_header(arrays, order, metadata)
    digest = hashlib.sha256(blank)
    for name in order:
        digest.update(_raw_bytes(arrays[name]))
    with atomic_writer(path) as file:
        file.write(blank.replace(_NO_DIGEST.encode(), digest.hexdigest().encode(), 1))
        for name in order:
            file.write(_raw_bytes(arrays[name]))


def _raw_bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of an array in row order; through uint8, as memoryviews know no bfloat16."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(
        f"{path} is damaged ({what}): it cannot be used; take another checkpoint, or run the spec again."
    )


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], _Header]:
    """Every tensor of a file, read straight into its own array, and verified."""
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file:
            header = _read_header(path, file)
            stored = header.metadata["sha256"].encode()
            digest = hashlib.sha256(header.raw.replace(stored, _NO_DIGEST.encode(), 1))
            for name, dtype, shape in header.tensors:
                arrays[name] = np.empty(shape, dtype)
                view = _raw_bytes(arrays[name])
                _fill(path, file.readinto, view)
                digest.update(view)
    except OSError as error:
        raise record_error(path, error, "read") from error
    if digest.hexdigest().encode() != stored:
        raise _damaged(path, "its bytes do not match its SHA-256")
    return arrays, header


def _fill(path: Path, readinto: Callable[[memoryview], int], view: memoryview) -> None:
    """Read exactly as many bytes as the view holds (one call may give fewer)."""
    done = 0
    while done < len(view):
        count = readinto(view[done:])
        if not count:
            raise _damaged(path, "it ends too early")
        done += count


def _read_header(path: Path, file: IO[bytes]) -> _Header:
    """Parse and check a header: nothing of the sizes it claims is believed before they add up to the file."""
    size = path.stat().st_size
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > size - 8:
        raise _damaged(path, "it ends too early")
    text = file.read(length)
    try:
        entries = json.loads(text)
        metadata = entries.pop("__metadata__")
        header = _Header(prefix + text, [], metadata)
        if metadata["format"] != FORMAT or len(metadata["sha256"]) != 64 or not isinstance(header.meta, dict):
            raise ValueError
        offset = 0
        for name, entry in entries.items():
            dtype, shape = _DTYPES[entry["dtype"]], tuple(int(n) for n in entry["shape"])
            start, offset_after = entry["data_offsets"]
            if (
                start != offset
                or min(shape, default=0) < 0
                or offset_after - start != math.prod(shape) * dtype.itemsize
            ):
                raise ValueError
            header.tensors.append((name, dtype, shape))
            offset = offset_after
        header.generators  # noqa: B018  parsed here, so that it cannot fail later
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "its header cannot be read") from error
    if 8 + length + offset != size:
        raise _damaged(path, f"it should be {8 + length + offset} bytes long and is {size}")
    return header
