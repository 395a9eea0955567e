"""The statistics of generated maps beside those of recorded ones, as a table.

python benchmarks/cogs_maps.py
python benchmarks/cogs_maps.py --maps 20 --recorded tests/golden/cogs
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from rewardlab.cogs.conform import read_trace, recorded_map
from rewardlab.cogs.maps.connect import components
from rewardlab.cogs.maps.generate import ARENA, BORDER, MACHINA_1, generate
from rewardlab.cogs.maps.grid import GameMap
from rewardlab.cogs.rules import CODE, EXTRACTORS

HERE = Path(__file__).parent
SITES = {"arena": ARENA, "machina_1": MACHINA_1}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=100)
    parser.add_argument("--recorded", type=Path, default=HERE.parent / "tests" / "golden" / "cogs")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "cogs_maps.json")
    return parser.parse_args()


def describe(game_map: GameMap) -> dict[str, float]:
    """What is counted on a map."""
    counts = game_map.counts()
    inner = game_map.codes[BORDER:-BORDER, BORDER:-BORDER]
    things = np.array([(thing.row, thing.col) for thing in game_map.things() if thing.kind == "junction"])
    gaps = np.abs(things[:, None] - things[None]).max(-1) + 1000 * np.eye(len(things), dtype=int)
    free = components(game_map.codes == CODE["empty"])
    return {
        "walls": counts["wall"],
        "walls inside the border": float(np.sum(inner == CODE["wall"])),
        "junctions": counts["junction"],
        "extractors": sum(counts[name] for name in EXTRACTORS),
        "fewest extractors of an element": min(counts[name] for name in EXTRACTORS),
        "distance to the nearest junction": float(gaps.min(1).mean()),
        "free cells": float(np.sum(game_map.codes == CODE["empty"])),
        "parts of free cells": len(free),
    }


def summary(maps: Iterable[GameMap]) -> dict[str, tuple[float, float, float, float]]:
    """Mean, standard deviation, least and most of each count."""
    rows = [describe(game_map) for game_map in maps]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: (statistics.mean(x), statistics.pstdev(x), min(x), max(x)) for name, x in columns.items()}


def show(values: tuple[float, float, float, float]) -> str:
    mean, deviation, least, most = values
    return f"{mean:.1f} ± {deviation:.1f} ({least:g}–{most:g})"


def main() -> None:
    arguments = parse_arguments()
    results = {}
    for site, spec in SITES.items():
        recorded = [recorded_map(read_trace(path))[0] for path in sorted(arguments.recorded.glob(f"maps_{site}_*"))]
        begun = time.process_time()
        generated = [generate(spec, seed) for seed in range(arguments.maps)]
        milliseconds = 1000 * (time.process_time() - begun) / arguments.maps
        ours, theirs = summary(generated), summary(recorded)
        results[site] = {"generated": ours, "recorded": theirs, "milliseconds_per_map": milliseconds}
        print(f"\n| {site} | {arguments.maps} generated maps | {len(recorded)} recorded maps |\n|---|---|---|")
        for name in ours:
            print(f"| {name} | {show(ours[name])} | {show(theirs[name])} |")
        print(f"\nA map of {site} takes {milliseconds:.0f} ms of one core.")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
