"""The first minutes of an arena, as the README has them, on a machine that knows nothing yet: how long each step takes.

python benchmarks/arena_first.py

A new folder, a new home without any cache of compiled programs; the server with its one worker and all commands as
processes of their own. Ends when the season has played and both policies are on its leaderboard.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "arena_first.json"
SEASON = "beta-cogsguard"
MATCHES = 2 * 2 + 3 * 5  # alone, two each; the pair, three splits on five maps
STEPS = (
    ("log in", "cogs login --server {url} --token {token}"),
    ("upload and enter", f"cogs upload -p role -n crew --season {SEASON}"),
    ("upload another", "cogs upload -p wombo -n generalist"),
    ("submit it", f"cogs submit generalist --season {SEASON}"),
    ("list the matches", f"cogs matches --season {SEASON} --json"),
)


def played(matches: list[dict[str, Any]]) -> int:
    return sum(match["status"] == "completed" for match in matches)


def main() -> None:
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": f"{folder}/config"}
        environment = {key: value for key, value in environment.items() if not key.startswith(("JAX_", "REWARDLAB_"))}

        def run(line: str) -> str:
            words = [sys.executable, "-m", "rewardlab.cli.app", *line.split()]
            ran = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
            return ran.stdout

        log = Path(folder) / "log"
        begin = time.monotonic()
        with log.open("w") as said:
            words = [sys.executable, "-m", "rewardlab.cli.app", "arena", "serve", "--port", "0"]
            server = subprocess.Popen(words, cwd=folder, env=environment, stderr=said)
        try:
            while "Serving at " not in log.read_text():
                assert server.poll() is None, log.read_text()
                time.sleep(0.02)
            rows["serve, from nothing"] = time.monotonic() - begin
            url, token = re.findall(r"Serving at (\S+)", log.read_text())[0], re.findall(r"rl_\S+", log.read_text())[0]
            for name, line in STEPS:
                start = time.monotonic()
                run(line.format(url=url, token=token))
                rows[name] = time.monotonic() - start
            start = time.monotonic()
            while len(json.loads(run(f"cogs leaderboard --season {SEASON} --json"))) < 2:
                time.sleep(0.2)
            rows["until both are on the leaderboard"] = time.monotonic() - start
            rows["in all"] = time.monotonic() - begin
            while played(json.loads(run(f"cogs matches --season {SEASON} --json --limit 500"))) < MATCHES:
                time.sleep(0.5)
            rows["in all, and every match of the season played"] = time.monotonic() - begin
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    RESULTS.write_text(json.dumps({"seconds": rows, "cpu": platform.machine()}, indent=2) + "\n")
    for name, seconds in rows.items():
        print(f"{name:48}{seconds:8.1f} s")


if __name__ == "__main__":
    main()
