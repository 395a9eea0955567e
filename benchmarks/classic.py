"""RewardLab beside Stable-Baselines3, sbx, a CleanRL-style and a PureJaxRL-style program: one run, the same work.

    python benchmarks/classic.py --peers-python .peers/bin/python
    python benchmarks/classic.py --tasks ppo_cartpole --repeats 1 --scale 0.1      (a quick look)

Contestants take turns inside every repeat, so that a slow minute of the machine hits all of them; medians are reported.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matmul_bound import share_of_bound
from peers.contestants import ALL_TASKS, BENCHMARKS, CONTESTANTS, MEASURED_SHARE, Contestant
from peers.race import ContestantError, run_one_program, run_processes
from peers.settings import FULL_FRAMES

Results = dict[str, dict[str, dict[str, Any]]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--tasks", nargs="+", choices=ALL_TASKS, default=list(ALL_TASKS))
    parser.add_argument("--contestants", nargs="+", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full frames, for a quick look")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="RewardLab's interpreter")
    parser.add_argument("--peers-python", type=Path, default=Path(".peers/bin/python"), help="the peers' interpreter")
    parser.add_argument("--output", type=Path, default=BENCHMARKS / "results/classic.json")
    return parser.parse_args()


def frames_measured(contestant: Contestant, task: str, scale: float) -> int:
    return max(1, round(FULL_FRAMES[task] * MEASURED_SHARE.get((contestant.name, task), 1.0) * scale))


def run_contestant(
    contestant: Contestant, task: str, sessions: int, repeat: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    python = arguments.peers_python if contestant.in_peers_environment else arguments.python
    frames = frames_measured(contestant, task, arguments.scale)
    command = [str(python), str(contestant.script), "--task", task, "--frames", str(frames), *contestant.options]
    first_seed = repeat * sessions
    if contestant.one_program:
        return run_one_program([*command, "--sessions", str(sessions), "--seed", str(first_seed)])
    commands = [[*command, "--seed", str(first_seed + session)] for session in range(sessions)]
    return run_processes(commands)


def run_all(contestants: list[Contestant], arguments: argparse.Namespace) -> Results:
    """{task: {contestant: {"1" or "4" sessions: {"repeats": […]}}}}."""
    results: Results = {task: {} for task in arguments.tasks}
    turns = [
        (task, contestant, sessions)
        for task in arguments.tasks
        for contestant in contestants
        for sessions in contestant.sessions
        if task in contestant.tasks
    ]
    for repeat in range(arguments.repeats):
        for task, contestant, sessions in turns:
            cells = results[task].setdefault(contestant.name, {})
            cell = cells.setdefault(str(sessions), {"repeats": [], "errors": []})
            try:
                cell["repeats"].append(run_contestant(contestant, task, sessions, repeat, arguments))
                said = f"{cell['repeats'][-1]['fps']:,.0f} frames/s"
            except ContestantError as failure:
                cell["errors"].append(str(failure))
                said = f"failed: {failure}"
            print(f"repeat {repeat + 1}: {task} {contestant.name} ×{sessions}: {said}", file=sys.stderr, flush=True)
    return results


def add_medians(results: Results, scale: float, bound_gflops: float | None) -> None:
    by_name = {contestant.name: contestant for contestant in CONTESTANTS}
    for task, rows in results.items():
        for name, cells in rows.items():
            for cell in cells.values():
                cell["frames_asked"] = frames_measured(by_name[name], task, scale)
                cell["frames_full"] = FULL_FRAMES[task]
                for quantity in ("fps", "updates_per_second", "warmup_seconds"):
                    numbers = [repeat[quantity] for repeat in cell["repeats"]]
                    cell[quantity] = statistics.median(numbers) if numbers else None
                updates = cell["updates_per_second"]
                known = updates is not None and bound_gflops is not None
                cell["share_of_matmul_bound"] = share_of_bound(task, updates, bound_gflops) if known else None


def ratios_to_ours(results: Results) -> dict[str, dict[str, float]]:
    """RewardLab's frames per second over each contestant's, all four sessions together."""
    ratios = {}
    for task, rows in results.items():
        fps = {name: cells["4"]["fps"] for name, cells in rows.items() if cells["4"]["fps"]}
        ours = fps.pop("rewardlab", None)
        ratios[task] = {name: ours / theirs for name, theirs in fps.items()} if ours else {}
    return ratios


def measure_matmul_bound(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """In RewardLab's environment where that has JAX, else in the peers'."""
    for python in (arguments.python, arguments.peers_python):
        command = [str(python), str(BENCHMARKS / "matmul_bound.py"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False) if python.exists() else None
        if done is not None and done.returncode == 0:
            return json.loads(done.stdout)
    print("the matrix-product bound could not be measured", file=sys.stderr)
    return None


def best_bound(bounds: dict[str, Any] | None) -> float | None:
    return max(row["bound"] for row in bounds["cores"].values()) if bounds else None


def machine() -> dict[str, Any]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions(results: Results) -> dict[str, Any]:
    lines = [
        line
        for rows in results.values()
        for cells in rows.values()
        for cell in cells.values()
        for repeat in cell["repeats"]
        for line in repeat["processes"]
    ]
    return {line["peer"]: line["versions"] for line in lines}


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def print_table(results: Results, ratios: dict[str, dict[str, float]], missing: dict[str, str]) -> None:
    header = ("contestant", "fps alone", "fps ×4", "updates/s ×4", "matmul share", "warm-up s", "rewardlab is")
    for task, rows in results.items():
        print(f"\n{task}\n{header[0]:<20}" + "".join(f"{title:>14}" for title in header[1:]))
        for name, cells in rows.items():
            four, alone = cells["4"], cells.get("1", {"fps": None})
            share, ratio = four["share_of_matmul_bound"], ratios[task].get(name)
            texts = [number(alone["fps"]), number(four["fps"]), number(four["updates_per_second"])]
            texts += ["–" if share is None else f"{share:.0%}", number(four["warmup_seconds"])]
            texts += ["–" if ratio is None else f"{ratio:.2f}×"]
            print(f"{name:<20}" + "".join(f"{text:>14}" for text in texts))
    for name, reason in missing.items():
        print(f"\nmissing: {name}: {reason}")


def write_json(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"\nwritten: {path}", file=sys.stderr)


def main() -> None:
    arguments = parse_arguments()
    chosen = [contestant for contestant in CONTESTANTS if contestant.name in arguments.contestants]
    missing = {contestant.name: contestant.missing(arguments.peers_python) for contestant in chosen}
    missing = {name: reason for name, reason in missing.items() if reason}
    before = machine()
    bounds = measure_matmul_bound(arguments)
    results = run_all([contestant for contestant in chosen if contestant.name not in missing], arguments)
    add_medians(results, arguments.scale, best_bound(bounds))
    ratios = ratios_to_ours(results)
    print_table(results, ratios, missing)
    record = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": before,
        "versions": versions(results),
        "scale": arguments.scale,
        "note": "fps is what counts: slow contestants are measured on fewer frames (frames_asked beside frames_full)",
        "matmul_bound": bounds,
        "ratios_of_rewardlab_fps": ratios,
        "missing": missing,
        "tasks": results,
    }
    write_json(arguments.output, record)


if __name__ == "__main__":
    main()
