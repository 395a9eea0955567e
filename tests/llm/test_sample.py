"""The sampler: the trainer's log-probabilities, completions that do not depend on who else is in the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.llm import learn
from rewardlab.llm.config import from_dict
from rewardlab.llm.errors import LlmError
from rewardlab.llm.learn import Experience
from rewardlab.llm.model import Model
from rewardlab.llm.sample import Rollouts, Sampling, bucket, generate, pad_left
from rewardlab.llm.weights import load_model
from rewardlab.maths.truncation import Truncation

GOLDEN = Path(__file__).parents[1] / "golden" / "llm"
PROMPTS = [[5, 9, 33, 17], [40, 3, 12, 8, 8, 21, 50, 4, 19], [7], [11, 12]]
BOOK = Truncation(0.6, 20, 0.95)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(GOLDEN / "qwen3")


def sampling(how: Truncation, new: int = 24) -> Sampling:
    return Sampling(how, new, stops=(2, 3, 4, 6), pad=0, forbidden=(0, 1), chunk=4)


def draw(model: Model, how: Truncation, rollouts: int = 4, seed: int = 0) -> Rollouts:
    return generate(model, sampling(how), PROMPTS, rollouts, jax.random.key(seed))


@pytest.mark.parametrize("how", [BOOK, Truncation(1.0), Truncation(0.9, 0, 0.8, 0.05)])
def test_the_trainer_gives_every_drawn_token_the_samplers_probability(model: Model, how: Truncation) -> None:
    made = draw(model, how)
    raw: dict[str, Any] = {"data": {"specs": [{"name": "builtin:spell_backward"}]}, "loss": "grpo"}
    raw |= {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p, "min_p": how.min_p}
    settings = learn.settings_of(from_dict(raw), (0, 1), "float32", remat=False)
    experience = Experience(made, made.log_prob, np.zeros_like(made.log_prob))
    rows = np.arange(len(made.tokens))
    batch = learn.cut_out(experience, rows, [0.0] * len(rows), len(rows), made.tokens.shape[1])
    again = np.asarray(learn.score(model, batch, settings))
    inside = experience.mask > 0
    assert inside.sum() > 100
    assert np.abs(again - made.log_prob)[inside].max() < 1e-4


def test_a_completion_is_the_same_alone_and_in_a_crowd(model: Model) -> None:
    crowd = draw(model, BOOK)
    assert (crowd.length <= 12).sum() >= 8  # half of the rows have left by then, and the batch was made smaller
    without = generate(
        model,
        Sampling(BOOK, 24, stops=(2, 3, 4, 6), pad=0, forbidden=(0, 1), chunk=24),
        PROMPTS,
        4,
        jax.random.key(0),
    )
    np.testing.assert_array_equal(crowd.tokens, without.tokens)
    np.testing.assert_allclose(crowd.log_prob, without.log_prob, atol=1e-5)


def test_what_ends_a_text_is_its_last_token_and_counts(model: Model) -> None:
    made = draw(model, Truncation(1.0))
    for tokens, length, finished in zip(made.tokens, made.length, made.finished, strict=True):
        stops = [i for i, t in enumerate(tokens.tolist()) if t in (2, 3, 4, 6)]
        assert finished == bool(stops)
        assert length == (stops[0] + 1 if stops else 24)
        assert (tokens[length:] == 0).all()


def test_forbidden_tokens_are_never_drawn(model: Model) -> None:
    made = draw(model, Truncation(1.0), seed=7)
    inside = np.arange(made.tokens.shape[1]) < made.length[:, None]
    assert not np.isin(made.tokens[inside], (0, 1)).any()


def test_log_probabilities_are_those_of_a_single_forward_pass(model: Model) -> None:
    """The cache, the padding and the chunks against the plain definition."""
    made = draw(model, Truncation(1.0), rollouts=1)
    read = jax.jit(lambda row: model.logits(model(row, jnp.zeros(1, jnp.int32))))
    for i, prompt in enumerate(PROMPTS):
        said = made.tokens[i, : made.length[i]].tolist()
        row = jnp.asarray([prompt + said])
        logits = np.array(read(row))[0]
        logits[:, [0, 1]] = -np.inf
        plain = jax.nn.log_softmax(logits, axis=-1)
        told = [plain[len(prompt) - 1 + t, token] for t, token in enumerate(said)]
        np.testing.assert_allclose(made.log_prob[i, : len(said)], told, atol=1e-4)


def test_steady_state_compiles_nothing(model: Model) -> None:
    from rewardlab.llm import sample

    draw(model, BOOK, seed=1)
    before = sample.advance._cache_size()  # type: ignore[attr-defined]
    for seed in range(2, 5):
        draw(model, BOOK, seed=seed)
    assert sample.advance._cache_size() <= before + 1  # type: ignore[attr-defined]


def test_buckets() -> None:
    assert [bucket(n) for n in (1, 8, 9, 13, 17, 25, 33, 49, 700)] == [8, 8, 12, 16, 24, 32, 48, 64, 768]
    rows, padding = pad_left([[1, 2, 3], [4]], 9)
    assert rows.tolist() == [[9] * 5 + [1, 2, 3], [9] * 7 + [4]]
    assert padding.tolist() == [5, 7]


def test_nothing_to_complete_is_an_error(model: Model) -> None:
    with pytest.raises(LlmError, match="nothing to complete"):
        generate(model, sampling(BOOK), [[]], 1, jax.random.key(0))
    with pytest.raises(LlmError, match="more than the model's 256"):
        generate(model, sampling(BOOK, 400), [[5]], 1, jax.random.key(0))
