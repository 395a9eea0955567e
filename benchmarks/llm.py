"""Completions and GRPO steps on one CPU core, side by side with `transformers` generate and TRL's GRPOTrainer.

    python benchmarks/llm.py                              # about ten minutes; the peers' environment: README.md
    python benchmarks/llm.py --sizes 1M --repeats 1       # only these are measured; the file keeps its other rows

Random weights of Qwen3's architecture with 103 characters; 8 prompts of 48 tokens × 8 completions of 64 tokens at
T = 0.6, top-k 20, top-p 0.95. A step is completions, rewards and one update; TRL's as it comes (bf16, gradient
checkpointing), and tuned for a CPU (float32, nothing computed twice). The same numbers of everything on both
sides (peers/llm_settings.py), one process after the other on the same core. What counts is CPU-seconds; the median of
repeats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.llm_settings import NEW_TOKENS, PROMPTS, ROLLOUTS, SIZES

HERE = Path(__file__).parent
TOKENS = PROMPTS * ROLLOUTS * NEW_TOKENS
GOALS = {"decode": 2.0, "step": 3.0, "step-tuned": 3.0}


def run(python: str, script: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run([python, str(script), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{script.name} {' '.join(words)} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--tasks", nargs="+", choices=GOALS, default=list(GOALS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers-python", default=".peers-llm/bin/python")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "llm.json")
    options = parser.parse_args()
    from rewardlab.experiment.provenance import provenance
    from rewardlab.llm.tokenizer import CharacterTokenizer

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        CharacterTokenizer().save(Path(folder))
        (Path(folder) / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
        print(f"{'':12}{'':>6}{'peer':>14}{'RewardLab':>12}{'times':>8}{'goal':>6}")
        for task in options.tasks:
            for size in options.sizes:
                words = ("--task", task, "--size", size, "--repeats", str(options.repeats))
                ours = run(sys.executable, HERE / "llm_ours.py", *words)
                theirs = run(options.peers_python, HERE / "peers" / "llm_hf.py", *words, "--folder", folder)
                ratio = theirs["cpu_seconds_median"] / ours["cpu_seconds_median"]
                rows.append({"task": task, "size": size, "ratio": ratio, "ours": ours, "theirs": theirs})
                shown = [
                    TOKENS / r["cpu_seconds_median"] if task == "decode" else r["cpu_seconds_median"]
                    for r in (theirs, ours)
                ]
                unit = {"decode": "tokens/CPU-s", "step": "CPU-s a step"}.get(task, "… TRL tuned")
                figures = [f"{x:,.0f}" if task == "decode" else f"{x:.3f}" for x in shown]
                print(f"{unit:12}{size:>6}{figures[0]:>14}{figures[1]:>12}{ratio:>8.1f}{GOALS[task]:>6.0f}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(options.output.read_text())["rows"] if options.output.exists() else []
    measured = {(r["task"], r["size"]) for r in rows}
    kept = [r for r in before if (r["task"], r["size"]) not in measured]
    record = {"rows": sorted(kept + rows, key=lambda r: (list(GOALS).index(r["task"]), list(SIZES).index(r["size"])))}
    record["rows"] = [r | ({"provenance": provenance(0)} if r in rows else {}) for r in record["rows"]]
    options.output.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
