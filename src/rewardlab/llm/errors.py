"""The one error of this room."""

from __future__ import annotations


class LlmError(Exception):
    """What cannot work with a model, a tokenizer or a task, said in one sentence."""
