"""The decoder against `transformers`: recorded models of each family, the same logits and the same greedy tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.llm.errors import LlmError
from rewardlab.llm.model import Model
from rewardlab.llm.sample import Sampling, generate, pad_left
from rewardlab.llm.weights import load_model, named_tensors, read_config, save_model
from rewardlab.maths.truncation import Truncation

GOLDEN = Path(__file__).parents[1] / "golden" / "llm"
FAMILIES = ("qwen3", "qwen2", "llama")


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / str(request.param)


def said(folder: Path) -> Any:
    return json.loads((folder / "said.json").read_text())


def test_logits_are_those_of_transformers(family: Path) -> None:
    model = load_model(family)
    rows, padding = pad_left(said(family)["prompts"], 0)
    logits = np.asarray(model.logits(model(jnp.asarray(rows), jnp.asarray(padding))))
    recorded = np.load(family / "logits.npz")
    for i, pad in enumerate(padding):
        np.testing.assert_allclose(logits[i, pad:], recorded[f"arr_{i}"], atol=1e-4, rtol=1e-4)


def test_greedy_continuations_are_those_of_transformers(family: Path) -> None:
    data = said(family)
    sampling = Sampling(Truncation(temperature=0.0), 40, stops=(2,), pad=0)
    made = generate(load_model(family), sampling, data["prompts"], 1, jax.random.key(0))
    for ours, theirs in zip(made.tokens, data["greedy"], strict=True):
        assert ours[: len(theirs)].tolist() == theirs


def test_a_scanned_model_is_the_unrolled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(GOLDEN / "qwen3")
    rows, padding = pad_left(said(GOLDEN / "qwen3")["prompts"], 0)
    unrolled = model(jnp.asarray(rows), jnp.asarray(padding))
    monkeypatch.setattr("rewardlab.llm.model.UNROLLED_LAYERS", 1)
    scanned = model(jnp.asarray(rows), jnp.asarray(padding), remat=True)
    np.testing.assert_allclose(scanned, unrolled, atol=1e-5)


def test_what_is_saved_is_loaded_again(family: Path, tmp_path: Path) -> None:
    model = load_model(family)
    save_model(tmp_path, model, shard_bytes=20_000)
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 1
    again = load_model(tmp_path)
    assert again.config == model.config
    for (name, one), (other_name, other) in zip(named_tensors(model), named_tensors(again), strict=True):
        assert name == other_name
        np.testing.assert_array_equal(one, other)


def test_weights_can_be_read_in_another_type() -> None:
    model: Model = load_model(GOLDEN / "qwen3", jnp.bfloat16)
    assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype("bfloat16")}


def rewritten(folder: Path, **changes: Any) -> Path:
    raw = json.loads((GOLDEN / "qwen3" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**raw, **changes}))
    return folder


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2'; there are qwen3, qwen2, llama"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"use_sliding_window": True}, "sliding window"),
        ({"rope_scaling": {"rope_type": "yarn"}, "rope_parameters": None}, "rope scaling 'yarn'"),
    ],
)
def test_what_the_decoder_cannot_do_is_said(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LlmError, match=sentence.replace("(", r"\(")):
        read_config(rewritten(tmp_path, **changes))


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(LlmError, match=r"has no config\.json"):
        load_model(tmp_path)
    with pytest.raises(LlmError, match=r"has no weights: it holds no \*\.safetensors"):
        load_model(rewritten(tmp_path))
    (tmp_path / "model.safetensors").write_bytes((GOLDEN / "qwen3" / "model.safetensors").read_bytes())
    with pytest.raises(LlmError, match=r"hold no model\.layers\.2\.input_layernorm\.weight"):
        load_model(rewritten(tmp_path, num_hidden_layers=3))
    (tmp_path / "model.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(LlmError, match="is damaged or cannot be read"):
        load_model(rewritten(tmp_path))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    for path in (GOLDEN / "llama").iterdir():
        if "00002" not in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(LlmError, match=r"lacks model-00002-of-00003\.safetensors"):
        load_model(tmp_path)
