"""From a config's data to entries, and from an entry to the tokens that ask for its answer."""

from __future__ import annotations

from rewardlab.llm.config import DataConfig
from rewardlab.llm.errors import LlmError
from rewardlab.llm.tasks import Dataset, Entry, make_task
from rewardlab.llm.tokenizer import Tokenizer


def dataset_of(config: DataConfig, seed: int) -> Dataset:
    """The entries that a config describes."""
    tasks = [make_task(spec.name, spec.config) for spec in config.specs]
    return Dataset(tasks, [spec.weight for spec in config.specs], config.size, seed)


def prompt_of(config: DataConfig, tokenizer: Tokenizer, entry: Entry) -> list[int]:
    """chat: the template with the system's words; plain: the question itself; terse: its bare content, as a chat."""
    if config.prompt == "plain":
        return tokenizer.encode(f"{config.system}\n\n{entry.question}\n")
    if config.prompt == "terse":
        if "terse" not in entry.metadata:
            raise LlmError("data.prompt is terse, but an entry has no terse form: use chat or plain")
        return tokenizer.chat([{"role": "user", "content": entry.metadata["terse"]}])
    system = {"role": "system", "content": config.system}
    return tokenizer.chat([system, {"role": "user", "content": entry.question}])
