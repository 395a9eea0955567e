"""Writes this folder's data with `transformers`: tiny models of each family with random weights, and what they say.

    .peers-llm/bin/python tests/golden/llm/record.py

Run in the peers' environment (benchmarks/README.md); the data are committed, so that CI needs no PyTorch.
"""

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

HERE = Path(__file__).parent
SMALL = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
SMALL |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 32}
THETA = {"rope_type": "default", "rope_theta": 1e6}
FAMILIES = {
    "qwen3": Qwen3Config(**SMALL, head_dim=8, tie_word_embeddings=True, rope_parameters=THETA),
    "qwen2": Qwen2Config(**SMALL, tie_word_embeddings=False, rope_parameters=THETA),
    "llama": LlamaConfig(
        **SMALL, attention_bias=True, mlp_bias=True, tie_word_embeddings=False, rope_parameters=LLAMA3
    ),
}
PROMPTS = [[5, 9, 33, 17, 60, 8, 21], [40, 3, 12], [7, 7, 7, 52, 30]]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MESSAGES = [
    {"role": "system", "content": "Think first."},
    {"role": "user", "content": "Spell requiz backward, größer!"},
]


def family(name: str, config: object) -> None:
    """Weights, logits of padded rows, and greedy continuations."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too: at their start they would hide mistakes
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(HERE / name, max_shard_size="20KB" if name == "llama" else "5GB")
    width = max(map(len, PROMPTS))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in PROMPTS])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in PROMPTS])
    with torch.no_grad():
        logits = [model(torch.tensor([p])).logits[0].numpy() for p in PROMPTS]
    greedy = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=40)
    data = {"prompts": PROMPTS, "greedy": greedy[:, width:].tolist()}
    (HERE / name / "said.json").write_text(json.dumps(data))
    np.savez(HERE / name / "logits.npz", *logits)


def tokenizer() -> None:
    """A small byte-level BPE with a chat template in the manner of Qwen's."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([(HERE / "record.py").read_text()], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(HERE / "tokenizer")
    ids = fast.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    data = {"messages": MESSAGES, "ids": ids, "text": fast.decode(ids, skip_special_tokens=True)}
    (HERE / "tokenizer" / "said.json").write_text(json.dumps(data))


if __name__ == "__main__":
    for name, config in FAMILIES.items():
        family(name, config)
    tokenizer()
