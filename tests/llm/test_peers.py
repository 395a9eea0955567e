"""With the peers' environment at hand (benchmarks/README.md): `transformers` loads what we write and says the same."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewardlab.llm import model as decoder
from rewardlab.llm.policy import Policy, save_policy, tiny_config
from rewardlab.llm.sample import Sampling, generate
from rewardlab.llm.tokenizer import CharacterTokenizer
from rewardlab.maths.truncation import Truncation

TOP = Path(__file__).parents[2]
PEERS = TOP / ".peers-llm" / "bin" / "python"
SCRIPT = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
messages = [{"role": "user", "content": "requiz"}]
ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
row = torch.tensor([ids])
with torch.no_grad():
    logits = model(row).logits[0].tolist()
    greedy = model.generate(row, do_sample=False, max_new_tokens=20)[0, len(ids):].tolist()
text = tokenizer.decode(tokenizer("<think>a b</think>", add_special_tokens=False).input_ids, skip_special_tokens=True)
print(json.dumps({"ids": ids, "logits": logits, "greedy": greedy, "text": text}))
"""


@pytest.mark.skipif(not PEERS.exists(), reason="the peers' environment is not here")
@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
def test_transformers_loads_what_we_save(tmp_path: Path, family: str) -> None:
    plain = replace(tiny_config(), query_key_norm=False, tie_word_embeddings=False)
    shape = {
        "qwen3": tiny_config(),
        "qwen2": replace(plain, model_type="qwen2", attention_bias=True),
        "llama": replace(plain, model_type="llama", attention_bias=True, output_bias=True, mlp_bias=True),
    }[family]
    policy = Policy(decoder.create(shape, jax.random.key(1)), CharacterTokenizer())
    noisy = jax.tree.map(lambda x: x + 0.05 * jax.random.normal(jax.random.key(x.size), x.shape), policy.model)
    save_policy(tmp_path, Policy(noisy, policy.tokenizer))
    done = subprocess.run([str(PEERS), "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.strip().splitlines()[-1])
    ids = policy.tokenizer.chat([{"role": "user", "content": "requiz"}])
    assert said["ids"] == ids
    if family == "qwen3":  # builtin models are; for the others `transformers` puts a decoder of its own in the place
        assert said["text"] == "<think>a b</think>"
    ours = noisy.logits(noisy(jnp.asarray([ids]), jnp.zeros(1, jnp.int32)))[0]
    np.testing.assert_allclose(ours, said["logits"], atol=1e-4, rtol=1e-4)
    greedy = generate(noisy, Sampling(Truncation(0.0), 20, stops=(3,), pad=0), [ids], 1, jax.random.key(0))
    assert greedy.tokens[0, : len(said["greedy"])].tolist() == said["greedy"]
