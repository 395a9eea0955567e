"""PyTorch's `.pt` files, read for their weights alone and without PyTorch: nothing that a file names is ever run.

A file is a zip archive: a pickle that says how tensors are made, and the bytes of each storage beside it. Of the
pickle, the few words that tensors and mappings need are understood; any other is refused
(https://pytorch.org/docs/stable/notes/serialization.html).
"""

from __future__ import annotations

import collections
import pickle
import zipfile
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rewardlab.files import RecordError

Tensors = dict[str, NDArray[Any]]
STORAGES: dict[str, Any] = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _Dtype:
    """Stands for a storage class."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)


def _tensor(
    storage: NDArray[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> NDArray[Any]:
    """A view of a storage, checked to lie inside it, as an array of its own."""
    last = (
        offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if min(size, default=1) else offset
    )
    if min((offset, *size, *stride), default=0) < 0 or last >= max(len(storage), 1):
        raise pickle.UnpicklingError("a tensor reaches outside its storage")
    strides = tuple(step * storage.itemsize for step in stride)
    return np.array(np.lib.stride_tricks.as_strided(storage[offset:], size, strides))


def _parameter(tensor: NDArray[Any], *_: Any) -> NDArray[Any]:
    return tensor


class _Reader(pickle.Unpickler):
    """Understands tensors, storages and ordered mappings, and nothing else."""

    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(file)
        self.archive, self.folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the file stands for."""
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _parameter
        if module == "torch" and name in STORAGES:
            return _Dtype(STORAGES[name])
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no weight")

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """The bytes of a storage."""
        kind, dtype, key, _, count = pid
        if kind != "storage" or not isinstance(dtype, _Dtype):
            raise pickle.UnpicklingError("it holds something that is no storage")
        data = np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), dtype.dtype)
        if len(data) < count:
            raise pickle.UnpicklingError(f"the storage {key} is cut short")
        return data


def read_torch(path: Path) -> Tensors:
    """Every tensor of a file by its dotted name."""
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith("/data.pkl")]
            with archive.open(name) as file:
                content = _Reader(file, archive, name.removesuffix("/data.pkl")).load()
    except FileNotFoundError as error:
        raise RecordError(f"There is no file {path}.") from error
    except (
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        ValueError,
        KeyError,
        EOFError,
        TypeError,
        AttributeError,
    ) as error:
        raise RecordError(f"{path} is no file of PyTorch weights: {error}.") from error
    found: Tensors = {}
    _collect(content, "", found)
    return found


def _collect(value: Any, where: str, found: Tensors) -> None:
    """Tensors below a value, under dotted names."""
    if isinstance(value, np.ndarray):
        found[where or "value"] = value
    elif isinstance(value, dict):
        for key, inner in value.items():
            _collect(inner, f"{where}.{key}" if where else str(key), found)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            _collect(inner, f"{where}.{i}" if where else str(i), found)
