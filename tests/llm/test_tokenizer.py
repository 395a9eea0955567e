"""Tokens: recorded chat templates of `transformers`, and our characters in its format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rewardlab.llm.errors import LlmError
from rewardlab.llm.tokenizer import CharacterTokenizer, FolderTokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "llm" / "tokenizer"
DEMONSTRATION = "<think>sun</think><answer>nus</answer>"


def test_a_conversation_becomes_the_tokens_of_transformers() -> None:
    said = json.loads((GOLDEN / "said.json").read_text())
    tokenizer = FolderTokenizer(GOLDEN)
    assert tokenizer.chat(said["messages"]) == said["ids"]
    text = tokenizer.decode(said["ids"])
    assert text == said["text"]
    assert tokenizer.pad != tokenizer.stops[0]


def copied(folder: Path, **changes: object) -> Path:
    shutil.copytree(GOLDEN, folder, dirs_exist_ok=True)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, **changes}))
    return folder


def test_without_an_end_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LlmError, match="has no token that ends a text"):
        FolderTokenizer(copied(tmp_path, eos_token=None))


def test_without_a_pad_the_end_is_padding(tmp_path: Path) -> None:
    tokenizer = FolderTokenizer(copied(tmp_path, pad_token=None))
    assert tokenizer.pad == tokenizer.stops[0]


def test_a_missing_or_broken_chat_template_is_said(tmp_path: Path) -> None:
    (copied(tmp_path) / "chat_template.jinja").unlink()
    with pytest.raises(LlmError, match=r"has no chat template: set data\.prompt to plain"):
        FolderTokenizer(tmp_path).chat([])
    (tmp_path / "chat_template.jinja").write_text("{% for %}")
    with pytest.raises(LlmError, match="cannot be read"):
        FolderTokenizer(tmp_path).chat([])


def test_a_missing_or_broken_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(LlmError, match=r"has no tokenizer\.json"):
        FolderTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(LlmError, match="cannot be read"):
        FolderTokenizer(tmp_path)


def test_characters_in_the_format_of_transformers_are_the_same_tokens(tmp_path: Path) -> None:
    ours = CharacterTokenizer()
    ours.save(tmp_path)
    theirs = FolderTokenizer(tmp_path)
    assert (theirs.size, theirs.pad, theirs.stops) == (ours.size, ours.pad, ours.stops)
    every = "".join(chr(i) for i in range(32, 127))
    for text in (DEMONSTRATION, every, "a  b", "<thin k>"):
        assert theirs.encode(text) == ours.encode(text)
        assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text)) == text
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "requiz"}]
    assert theirs.chat(messages) == ours.chat(messages)


def test_tags_are_single_tokens() -> None:
    tokenizer = CharacterTokenizer()
    assert len(tokenizer.encode(DEMONSTRATION)) == 4 + 6
    assert tokenizer.encode("é") == tokenizer.encode("?")
