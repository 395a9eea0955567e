"""`transformers` generate, and a step of TRL's GRPOTrainer; run by the peers' interpreter.

    .peers-llm/bin/python benchmarks/peers/llm_hf.py --task decode --size 1M --folder FOLDER

FOLDER holds the character tokenizer in Hugging Face's format; benchmarks/llm.py writes it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from peers import llm_settings as s

s.one_core()
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


def model(size: str) -> Any:
    config = transformers.Qwen3Config(**s.shape(size), pad_token_id=0, bos_token_id=1, eos_token_id=3)
    return transformers.Qwen3ForCausalLM(config)


def decode(options: argparse.Namespace, tokenizer: Any) -> None:
    """64 rows: 8 prompts, each 8 times."""
    speaking = model(options.size).eval()
    texts = [f"<bos>{word}<sep>" for word in s.words(s.PROMPTS) for _ in range(s.ROLLOUTS)]
    ids = tokenizer(texts, return_tensors="pt", add_special_tokens=False).input_ids
    assert ids.shape == (s.PROMPTS * s.ROLLOUTS, s.PROMPT_TOKENS), ids.shape
    mask = torch.ones_like(ids)
    length = {"max_new_tokens": s.NEW_TOKENS, "min_new_tokens": s.NEW_TOKENS}

    def run() -> None:
        made = speaking.generate(ids, attention_mask=mask, do_sample=True, **s.SAMPLING, **length)
        assert made.shape[1] == s.PROMPT_TOKENS + s.NEW_TOKENS

    found = s.measure(run, options.repeats)
    s.report("transformers", options, found, versions={"transformers": transformers.__version__})


def step(options: argparse.Namespace, tokenizer: Any) -> None:
    """Steps of GRPO: 8 prompts × 8 completions, one update. As TRL has it (bf16, gradient checkpointing), or tuned for
    this work: float32, nothing computed twice, as on our side."""
    import trl
    from datasets import Dataset

    tuned: dict[str, Any] = {"bf16": False, "gradient_checkpointing": False} if options.task == "step-tuned" else {}
    times: list[tuple[float, float]] = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append((time.process_time(), time.perf_counter()))

    def rewards(completions: list[Any], **_: Any) -> list[float]:
        return [s.luck(c if isinstance(c, str) else c[0]["content"]) for c in completions]

    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=s.PROMPTS * s.ROLLOUTS,
            num_generations=s.ROLLOUTS,
            max_completion_length=s.NEW_TOKENS,
            max_steps=options.repeats + 2,
            learning_rate=s.LEARNING_RATE,
            beta=0.0,
            loss_type="grpo",
            use_cpu=True,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            generation_kwargs={"min_new_tokens": s.NEW_TOKENS},
            **s.SAMPLING,
            **tuned,
        )
        texts = [f"<bos>{word}<sep>" for word in s.words(s.PROMPTS * (options.repeats + 2))]
        data = Dataset.from_dict({"prompt": texts})
        trainer = trl.GRPOTrainer(
            model=model(options.size),
            reward_funcs=rewards,
            args=settings,
            train_dataset=data,
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    kept = times[1:]  # the first step warms up, and its end is where the second begins
    pairs = list(pairwise(kept))
    cpu, wall = ([b[i] - a[i] for a, b in pairs] for i in (0, 1))
    found = {"cpu_seconds": cpu, "seconds": wall, "warmup_seconds": 0.0}
    versions = {"transformers": transformers.__version__, "trl": trl.__version__, "torch": torch.__version__}
    s.report("trl", options, found, versions=versions)


def main() -> None:
    folder = sys.argv.pop(sys.argv.index("--folder") + 1)
    sys.argv.remove("--folder")
    options = s.arguments()
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    (decode if options.task == "decode" else step)(options, tokenizer)


if __name__ == "__main__":
    main()
