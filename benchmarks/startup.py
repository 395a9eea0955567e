"""How long a person waits: `rewardlab --help`, and a training run and an episode with an empty and a filled cache.

python benchmarks/startup.py
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = "run ppo_cartpole"
PLAY = "cogs play -p role -r none -s 1000"


def seconds(words: str, folder: str) -> float:
    """The wall-clock time of a whole command, from a folder that holds its cache and its runs."""
    begun = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": folder}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-m", "rewardlab.cli.app", *words.split()]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    taken = time.perf_counter() - begun
    for run in Path(folder).glob("data/*"):  # curves are drawn after the command; the next one must not pay for them
        deadline = time.monotonic() + 60
        while not list(run.glob("graph/*_session_graphs.png")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no curves were drawn: {(run / 'log' / 'plots.log').read_text()}")
            time.sleep(0.1)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "startup.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds("--help", folder)
        rows = {
            "rewardlab --help": min(seconds("--help", folder) for _ in range(5)),
            **{
                f"rewardlab {words}, {cache} cache": min(seconds(words, folder) for _ in range(times))
                for words in (RUN, PLAY)
                for cache, times in (("empty", 1), ("filled", 3))
            },
        }
    for name, taken in rows.items():
        print(f"{name:<66}{taken:>8.2f} s")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
