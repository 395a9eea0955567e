"""Configs: rlhf-book's load as they stand, the packaged ones are whole, mistakes are one sentence each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewardlab.llm import config as configs
from rewardlab.llm.config import from_dict
from rewardlab.llm.losses import BOOK, LOSSES
from rewardlab.spec import SpecError

PACKAGED = sorted(configs.folder().rglob("*.yaml"))
BOOK_YAML = """
data:
  specs:
    - name: spell_backward
      weight: 1
      config: {min_word_len: 3, max_word_len: 10}
  size: 1000
loss: cispo
model_name: Qwen/Qwen3-1.7B
clip_eps_lo: 0.2
clip_eps_hi: 0.4
beta: 0.0
kl_estimator: kl3
temperature: 0.6
top_p: 0.95
top_k: 20
min_p: 0
max_new_tokens: 512
prompts_per_step: 4
num_rollouts: 8
rollout_batch_size: 8
train_batch_size: 2
batch_acc: 4
lr: 5e-6
max_norm: 1.0
seed: 42
model_device_id: 0
ref_model_device_id: 1
wandb_project: rlhf-book
wandb_run_name: cispo_spell_backward
"""


def raw(**changes: Any) -> dict[str, Any]:
    return {"data": {"specs": [{"name": "builtin:chain_sum"}]}, "loss": "grpo", **changes}


@pytest.mark.parametrize("path", PACKAGED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_packaged_config_loads(path: Path) -> None:
    if path.name == "warmup.yaml":
        return
    config, notes = configs.load(path)
    assert config.loss == path.stem
    assert notes == []
    assert config.model_name == ("Qwen/Qwen3-1.7B" if "qwen3" in path.parent.name else "builtin:tiny")


def test_there_is_one_of_every_loss_for_both_models() -> None:
    names = [str(p.relative_to(configs.folder())) for p in PACKAGED]
    assert set(names) == {"warmup.yaml"} | {f"{w}{loss}.yaml" for loss in LOSSES for w in ("", "qwen3-1.7b/")}


def test_rlhf_books_own_file_loads_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "cispo.yaml").write_text(BOOK_YAML)
    config, notes = configs.load(tmp_path / "cispo.yaml")
    assert (config.lr, config.batch, config.total_steps, config.wandb_project) == (5e-6, 8, 250, "rlhf-book")
    assert config.clip == (1.0, 0.4)  # the paper has no lower bound
    assert sorted(note.split()[0] for note in notes) == ["clip_eps_lo", "ref_model_device_id", "rollout_batch_size"]
    book, _ = configs.load(tmp_path / "cispo.yaml", {"compat": BOOK})
    assert book.clip == (0.2, 0.4)
    assert book.trained_on != book.truncation


def test_their_place_of_a_config_is_found() -> None:
    config, notes = configs.load(Path("policy_gradients/configs/grpo.yaml"))
    assert config.model_name == "Qwen/Qwen3-1.7B"
    assert notes == [
        "there is no policy_gradients/configs/grpo.yaml; using the packaged configs/llm/qwen3-1.7b/grpo.yaml"
    ]
    assert configs.load(Path("configs/llm/rloo.yaml"))[0].model_name == "builtin:tiny"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lerning_rate": 1}, "the key lerning_rate is unknown"),
        ({"prompt_per_step": 1}, "the key prompt_per_step is unknown; did you mean prompts_per_step?"),
        ({"loss": "grop"}, "loss names an unknown loss, 'grop'; did you mean grpo?"),
        ({"kl_estimator": "kl4"}, "kl_estimator names an unknown estimator of the KL, 'kl4'; did you mean"),
        ({"top_p": 1.5}, "top_p is 1.5, expected more than 0 and at most 1"),
        ({"temperature": 0}, "temperature is 0.0, expected more than 0"),
        ({"num_rollouts": 1}, "num_rollouts is 1, expected 2 or more: grpo compares completions of a prompt"),
        ({"loss": "dapo", "beta": 0.1}, "beta is 0.1, expected 0: dapo has no KL term in its paper"),
        ({"lr": "fast"}, "lr is 'fast', expected a number"),
        ({"data": {"specs": []}}, "expected at least one task"),
        ({"data": {"specs": [{"nam": "x"}]}}, "nam is unknown; did you mean"),
        ({"steps": 9000}, "data.size is 3000, expected at least prompts_per_step × steps = 36000"),
        ({"compat": "trl"}, "compat names an unknown original"),
    ],
)
def test_mistakes_are_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as told:
        from_dict(raw(**changes), "a.yaml")
    assert sentence in str(told.value)
    assert str(told.value).startswith("a.yaml: ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("loss: [", "is not valid YAML"),
        ("", "expected a mapping"),
        ("loss: grpo\nloss: ppo", "has the key loss (line 2) twice"),
        ("loss: grpo", "data is missing"),
    ],
)
def test_broken_files_are_told(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(SpecError) as told:
        configs.load(tmp_path / "a.yaml")
    assert sentence in str(told.value)


def test_a_config_that_is_not_there() -> None:
    with pytest.raises(SpecError, match=r"did you mean configs/llm/grpo\.yaml\?"):
        configs.load(Path("configs/llm/grpoo.yaml"))


def test_settings_go_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BOOK_YAML)
    config, _ = configs.load(tmp_path / "a.yaml", {"lr": "1e-3", "data.size": "50"})
    assert (config.lr, config.data.size) == (1e-3, 50)


def test_what_decides_is_in_the_hash_and_what_does_not_is_not() -> None:
    assert from_dict(raw()).hash() == from_dict(raw(wandb_project="x", checkpoint_seconds=1)).hash()
    assert from_dict(raw()).hash() != from_dict(raw(seed=1)).hash()
