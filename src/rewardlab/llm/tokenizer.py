"""Text and tokens: Hugging Face's tokenizer.json with its chat template, or one token per character."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rewardlab.files import read_json, read_text, write_text_atomic
from rewardlab.llm.errors import LlmError

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
Message = Mapping[str, str]


class Tokenizer(Protocol):
    """What training needs of a tokenizer."""

    size: int
    pad: int
    stops: tuple[int, ...]  # a completion ends with one of these
    forbidden: tuple[int, ...]  # never drawn

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, nothing added."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that end or pad."""

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of a conversation, up to where the model speaks."""

    def save(self, folder: Path) -> None:
        """Write the files that `transformers` reads."""


class CharacterTokenizer:
    """One token per printable ASCII character, and one for each tag."""

    SPECIAL = ("<pad>", "<bos>", "<sep>", "<eos>")
    TEMPLATE = "<bos>{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}<sep>"

    def __init__(self) -> None:
        self.names = [*self.SPECIAL, *TAGS, *(chr(i) for i in range(32, 127))]
        self.ids = {name: i for i, name in enumerate(self.names)}
        self.size = len(self.names)
        self.pad, bos, sep, eos = range(4)
        self.stops: tuple[int, ...] = (eos,)
        self.forbidden: tuple[int, ...] = (self.pad, bos, sep)
        self._pieces = re.compile("|".join(re.escape(name) for name in (*self.SPECIAL, *TAGS)) + "|.", re.DOTALL)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; what is no printable ASCII becomes a question mark."""
        return [self.ids.get(piece, self.ids["?"]) for piece in self._pieces.findall(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return "".join(self.names[t] for t in tokens if t >= len(self.SPECIAL))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """What the person says between <bos> and <sep>: so small a model reads no instructions."""
        said = "".join(m["content"] for m in messages if m["role"] == "user")
        return self.encode(f"<bos>{said}<sep>")

    def save(self, folder: Path) -> None:
        """The same tokens in Hugging Face's format."""
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        added = [
            {"id": self.ids[name], "content": name, **plain, "special": name in self.SPECIAL}
            for name in (*self.SPECIAL, *TAGS)
        ]
        split = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
        described = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": split,
            "post_processor": None,
            "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": self.ids, "unk_token": "?"},
        }
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": "<pad>",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "?",
            "padding_side": "left",
            "chat_template": self.TEMPLATE,
            "clean_up_tokenization_spaces": False,
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomic(folder / "tokenizer.json", json.dumps(described, indent=1))
        write_text_atomic(folder / "tokenizer_config.json", json.dumps(settings, indent=1))
        generation = {"eos_token_id": list(self.stops), "pad_token_id": self.pad, "bos_token_id": self.ids["<bos>"]}
        write_text_atomic(folder / "generation_config.json", json.dumps(generation, indent=1))


class FolderTokenizer:
    """The tokenizer of a Hugging Face folder."""

    FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")

    def __init__(self, folder: Path) -> None:
        try:
            from tokenizers import Tokenizer as Fast
        except ImportError as error:
            raise LlmError('tokenizer.json needs the package tokenizers: pip install "rewardlab[llm]"') from error
        if not (folder / "tokenizer.json").is_file():
            raise LlmError(f"{folder} has no tokenizer.json")
        self.folder = folder
        try:
            self._fast = Fast.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the package raises nothing more specific
            raise LlmError(f"{folder / 'tokenizer.json'} cannot be read: {error}") from error
        self._settings = self._json("tokenizer_config.json")
        self.size = self._fast.get_vocab_size(with_added_tokens=True)
        self.stops = self._stops()
        named = self._id(self._settings.get("pad_token"))
        self.pad = self.stops[0] if named is None else named  # masks go by length, so pad may be what ends a text
        self.forbidden: tuple[int, ...] = ()
        self._template: Any = None

    def _json(self, name: str) -> dict[str, Any]:
        return dict(read_json(self.folder / name)) if (self.folder / name).is_file() else {}

    def _id(self, token: Any) -> int | None:
        found = self._fast.token_to_id(token["content"] if isinstance(token, Mapping) else token) if token else None
        return None if found is None else int(found)

    def _stops(self) -> tuple[int, ...]:
        """Everything that ends a text: of the tokenizer, and of generation_config.json or config.json."""
        named = self._id(self._settings.get("eos_token"))
        told = self._json("generation_config.json").get("eos_token_id") or self._json("config.json").get("eos_token_id")
        listed = told if isinstance(told, list) else [told]
        stops = tuple(dict.fromkeys(t for t in (named, *listed) if t is not None))
        if not stops:
            raise LlmError(
                f"the tokenizer of {self.folder} has no token that ends a text: name eos_token in tokenizer_config.json"
            )
        return stops

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self._fast.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; special ones are left out."""
        kept = [t for t in tokens if t not in self.stops and t != self.pad]
        return str(self._fast.decode(kept, skip_special_tokens=True))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """The conversation through the folder's own template."""
        self._template = self._template or self._compile()
        tokens = {name: self._text(self._settings.get(name)) for name in ("bos_token", "eos_token", "pad_token")}
        text = self._template.render(
            messages=list(messages), add_generation_prompt=True, enable_thinking=True, tools=None, **tokens
        )
        return self.encode(text)

    @staticmethod
    def _text(token: Any) -> str:
        return str(token["content"]) if isinstance(token, Mapping) else (token or "")

    def _compile(self) -> Any:
        beside = self.folder / "chat_template.jinja"
        source = read_text(beside) if beside.is_file() else self._settings.get("chat_template")
        if isinstance(source, list):  # several by name
            source = next((t["template"] for t in source if t["name"] == "default"), None)
        if not source:
            raise LlmError(f"the tokenizer of {self.folder} has no chat template: set data.prompt to plain")
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise LlmError('a chat template needs the package jinja2: pip install "rewardlab[llm]"') from error
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        try:
            return environment.from_string(source)
        except TemplateError as error:
            raise LlmError(f"the chat template of {self.folder} cannot be read: {error}") from error

    def save(self, folder: Path) -> None:
        """Copy the files as they are."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.FILES:
            if (self.folder / name).is_file():
                write_text_atomic(folder / name, read_text(self.folder / name))


def _refuse(message: str) -> None:
    raise LlmError(f"the chat template refuses: {message}")
