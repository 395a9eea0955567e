import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from rewardlab.experiment import checkpoint
from rewardlab.files import RecordError


class State(NamedTuple):
    net: eqx.nn.MLP
    key: Any
    counts: dict[str, Any]
    clock: tuple[int, float, bool, None]


def _state(seed: int = 0) -> State:
    key = jax.random.key(seed)
    return State(
        net=eqx.nn.MLP(3, 2, 8, 1, key=key),
        key=jax.random.split(key, 4),
        counts={"half": jnp.arange(5, dtype=jnp.bfloat16), "rows": np.arange(6)[::2], "none": np.zeros((0, 3), bool)},
        clock=(7 + seed, 0.5, seed == 0, None),
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    if hasattr(a, "dtype"):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and bool(a == b)


def test_a_whole_state_comes_back_bit_by_bit_in_its_own_kinds(tmp_path: Path) -> None:
    path, state = tmp_path / "x.safetensors", _state(0)
    checkpoint.save_tree(path, state, {"frame": 10, "score": 0.1, "env": "CartPole-v1"})
    loaded, meta = checkpoint.load_tree(path, _state(1))
    assert str(jax.tree.structure(loaded)) == str(jax.tree.structure(state))
    assert all(_same(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(loaded), strict=True))
    assert meta == {"frame": 10, "score": 0.1, "env": "CartPole-v1"} == checkpoint.read_meta(path)
    assert jax.random.uniform(loaded.key[0]) == jax.random.uniform(state.key[0])
    loaded.counts["rows"][0] = 9  # a replay on the host must stay writable


def test_shapes_without_values_are_template_enough(tmp_path: Path) -> None:
    tree = {"w": jnp.ones((2, 3)), "key": jax.random.key(1), "weak": jnp.asarray(1.0)}
    checkpoint.save_tree(tmp_path / "x", tree)
    loaded, _ = checkpoint.load_tree(tmp_path / "x", jax.eval_shape(lambda: tree))
    assert all(_same(a, b) for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(loaded), strict=True))
    assert loaded["weak"].weak_type  # else the next jitted call would compile another program


def test_a_bare_array_is_a_tree_too(tmp_path: Path) -> None:
    checkpoint.save_tree(tmp_path / "x", jnp.float32(3))
    assert checkpoint.load_tree(tmp_path / "x", jnp.float32(0))[0] == 3


DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64]
some_arrays = st.one_of(
    *(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)) for dtype in DTYPES),
    hnp.arrays(np.float32, hnp.array_shapes()).map(lambda a: a.astype(ml_dtypes.bfloat16)),
    hnp.arrays(np.float64, (4, 3)).map(np.transpose),
    hnp.arrays(">i4", 3),
)
names = st.text(st.characters(exclude_characters=".", exclude_categories=["Cs"]), min_size=1, max_size=5)
trees = st.recursive(
    some_arrays, lambda t: st.lists(t, max_size=3) | st.dictionaries(names, t, max_size=3), max_leaves=6
)


@given(trees)
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_any_tree_round_trips(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    path = tmp_path_factory.mktemp("t") / "x"
    checkpoint.save_tree(path, tree)
    template = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype.newbyteorder("=")), tree)
    loaded, _ = checkpoint.load_tree(path, template)
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(loaded), strict=True):
        assert a.astype(a.dtype.newbyteorder("="), order="C").tobytes() == b.tobytes()
    first = path.read_bytes()
    checkpoint.save_tree(path, loaded)
    assert path.read_bytes() == first  # equal states are equal files


def test_the_library_of_the_format_reads_the_file_and_aligned(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    tree = {"b": np.array([True]), "d": np.arange(3.0), "h": np.ones((2, 2), np.float16), "é": np.zeros(0, np.int32)}
    checkpoint.save_tree(tmp_path / "x.safetensors", tree, {"frame": 1})
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as file:
        assert set(file.keys()) == set(tree)
        for name, array in tree.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
        assert file.metadata()["format"] == checkpoint.FORMAT
    length = int.from_bytes((tmp_path / "x.safetensors").read_bytes()[:8], "little")
    assert length % 8 == 0


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path, tree = tmp_path / "x.safetensors", {"w": np.arange(4.0), "key": jax.random.key(0)}
    # a meta that looks like the place of the digest must not weaken it
    checkpoint.save_tree(path, tree, {"frame": 1, "zeros": "0" * 64})
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        with pytest.raises(RecordError, match=r"x\.safetensors is damaged"):
            checkpoint.load_tree(path, tree)
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(RecordError, match=r"x\.safetensors is damaged"):
            checkpoint.load_tree(path, tree)
    path.write_bytes(whole + b"\0")
    with pytest.raises(RecordError, match="should be"):
        checkpoint.load_tree(path, tree)


def test_garbage_and_absence_are_said(tmp_path: Path) -> None:
    generator = random.Random(0)
    for _ in range(50):
        (tmp_path / "x").write_bytes(generator.randbytes(generator.randrange(200)))
        with pytest.raises(RecordError, match="is damaged"):
            checkpoint.load_arrays(tmp_path / "x")
    header = b'{"__metadata__":' + b"[" * 100_000
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(RecordError, match="is damaged"):
        checkpoint.read_meta(tmp_path / "x")
    with pytest.raises(RecordError, match="There is no file"):
        checkpoint.load_arrays(tmp_path / "y")


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ({"w": np.ones((2, 4), np.float32)}, r"w is float32 \[2, 3\] there and float32 \[2, 4\] here"),
        ({"w": np.ones((2, 3), np.float64)}, r"w is float32 \[2, 3\] there and float64 \[2, 3\] here"),
        ({"w": np.ones((2, 3), np.float32), "v": np.ones(1)}, "it holds no v"),
        ({}, "it holds w, which does not exist here"),
        ({"w": 1}, r"w is float32 \[2, 3\] there and int64 \[\] here"),
        ({"w": jax.random.key(0)}, "w is no PRNG key there and one of threefry2x32 here"),
    ],
)
def test_a_checkpoint_of_something_else_is_told_by_its_first_difference(
    tmp_path: Path, template: Any, sentence: str
) -> None:
    checkpoint.save_tree(tmp_path / "x", {"w": np.ones((2, 3), np.float32)})
    with pytest.raises(RecordError, match=sentence):
        checkpoint.load_tree(tmp_path / "x", template)


def test_another_generator_of_keys_is_another_state(tmp_path: Path) -> None:
    checkpoint.save_tree(tmp_path / "x", jax.random.key(0, impl="rbg"))
    with pytest.raises(RecordError, match="a PRNG key of rbg there and one of threefry2x32 here"):
        checkpoint.load_tree(tmp_path / "x", jax.random.key(0))


def test_what_the_format_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="huge is object"):
        checkpoint.save_tree(tmp_path / "x", {"huge": 2**70})
    with pytest.raises(RecordError, match=r"both be named 'a\.b'"):
        checkpoint.save_tree(tmp_path / "x", {"a.b": np.ones(1), "a": {"b": np.ones(1)}})
    assert list(tmp_path.iterdir()) == []


def test_arrays_are_read_without_a_template(tmp_path: Path) -> None:
    checkpoint.save_tree(tmp_path / "x", {"a": [jnp.ones(2), 3]}, {"nan": math.nan})
    arrays, meta = checkpoint.load_arrays(tmp_path / "x")
    expected: dict[str, NDArray[Any]] = {"a.0": np.ones(2, np.float32), "a.1": np.asarray(3)}
    assert arrays.keys() == expected.keys()
    assert math.isnan(float(meta["nan"]))
