"""What `rewardlab bench run` does: launch what the board lacks, harvest what is done, publish, commit; until nothing is
left to try."""

from __future__ import annotations

import json as encoder
import re
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.boards import work
from rewardlab.boards.audit import audit
from rewardlab.boards.benchmark import keep, read_result
from rewardlab.boards.work import Attempt
from rewardlab.cli.hub import hub_url, open_hub
from rewardlab.cli.lab import say
from rewardlab.cli.remote import make_job, secrets
from rewardlab.files import RecordError
from rewardlab.hub.manifest import HubError
from rewardlab.hub.transfer import pull
from rewardlab.remote.job import RemoteError
from rewardlab.remote.ledger import make_runner

AT_ONCE = {"local": 1, "ssh": 1, "ray": 8, "dstack": 30}  # a trial takes a whole small machine
PAUSE = 5.0
RUNNING = re.compile(r"SLM-Lab: Running \S+ in \S*?([^/\s]+)/\s*$", re.MULTILINE)
CLASSIC = "Classic Control"  # needs no GPU


def run(
    only: Sequence[str],
    runner: str,
    where: dict[str, Any],
    jobs: int,
    data: Path,
    runs: Path,
    output: Path,
    commit: bool,
    plan: bool,
    json: bool,
) -> None:
    """The work loop."""
    if plan:
        show_plan(runs, only, json)
        return
    options = {**where, **secrets()}
    if runner == "local":
        options["folder"] = str((data / "remote" / "local").resolve())
    limit = jobs or AT_ONCE.get(runner, 1)
    while True:
        ledger = work.read_ledger(runs)
        for row in list(ledger["active"]):
            state = make_runner(row["runner"], options).state(row["handle"])
            if state.over:
                ledger["active"].remove(row)
                row["outcome"] = harvest(row, str(state), options, data, runs)
                ledger["completed"].append(row)
                say(f"{row['spec']} on {row['env']}: {row['outcome']}")
                work.write_ledger(runs, ledger)
                work.publish(runs, output, output.with_name("benchmarks.json"))
                if commit:
                    commit_board(row, runs, output)
        launched = launch(ledger, limit, only, runner, options, runs)
        if not ledger["active"] and not launched:
            break
        time.sleep(PAUSE)
    left = [f"{t.algorithm} on {t.env}" for t in work.missing(runs, only) if work.attempts(t)]
    say("nothing is left to try" + (f"; still missing: {', '.join(left)}" if left else ""))


def show_plan(runs: Path, only: Sequence[str], json: bool) -> None:
    """What would be run next for each missing row."""
    ledger = work.read_ledger(runs)
    rows = []
    for target in work.missing(runs, only):
        attempt = work.next_attempt(target, ledger)
        spec = None if attempt is None else " ".join([attempt.spec_name, attempt.mode, *attempt.settings])
        rows.append({"env": target.env, "algorithm": target.algorithm, "next": spec})
    if json:
        print(encoder.dumps(rows, indent=2))
        return
    from rewardlab.cli.tables import table

    cells = [[r["env"], r["algorithm"], r["next"] or "no spec is left to try"] for r in rows]
    table("Missing rows", ["environment", "algorithm", "next"], cells)


def launch(
    ledger: dict[str, Any], limit: int, only: Sequence[str], runner: str, options: dict[str, Any], runs: Path
) -> bool:
    """Submit what is missing, as many as there is room for."""
    launched = False
    for target in work.missing(runs, only):
        if len(ledger["active"]) >= limit:
            break
        if any(row["env"] == target.env and row["algorithm"] == target.algorithm for row in ledger["active"]):
            continue
        attempt = work.next_attempt(target, ledger)
        if attempt is None:
            continue
        ledger["active"].append(submit(attempt, runner, options))
        work.write_ledger(runs, ledger)
        launched = True
    return launched


def submit(attempt: Attempt, runner: str, options: dict[str, Any]) -> dict[str, Any]:
    """One attempt as a job, and its row in the ledger."""
    name = re.sub(r"[^a-z0-9]+", "-", f"bench-{attempt.key}".lower()).strip("-")
    gpu = attempt.target.category != CLASSIC and runner != "local"
    words = [attempt.spec_name, attempt.mode]
    job = make_job(words, attempt.settings, name, gpu, runner, None, hub_url())
    handle = make_runner(runner, options).submit(job)
    say(f"{attempt.spec_name} on {attempt.target.env}: {attempt.mode}, submitted to {runner}")
    return {
        **{"key": attempt.key, "spec": attempt.spec_name, "env": attempt.target.env, "mode": attempt.mode},
        **{"algorithm": attempt.target.algorithm, "runner": runner, "handle": handle},
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def harvest(row: dict[str, Any], state: str, options: dict[str, Any], data: Path, runs: Path) -> str:
    """What became of a run, in words; one that passes the audit is on the board then."""
    try:
        runner = make_runner(row["runner"], options)
        found = RUNNING.findall(runner.logs(row["handle"]))
        if not state.startswith("done") or not found:
            return f"{state}: rewardlab remote logs tells more"
        store = open_hub()
        path = pull(store, found[-1], data, say)
        if row["mode"] == "search":
            return f"searched: {path.name} holds the best spec; write it into specs/ and run it"
        problems = audit(path)
        if problems:
            return f"refused: {problems[0]}"
        link = store.link(path.name)
        keep(path, runs, link if link.startswith("http") else None)
        result = read_result(path)
        return "no row" if result is None else f"{result.status} {result.score:.2f}"
    except (RecordError, HubError, RemoteError) as error:
        return f"not harvested: {error}"


def commit_board(row: dict[str, Any], runs: Path, output: Path) -> None:
    """The board's own files, committed here and never pushed."""
    own = (runs, work.ledger_path(runs), output, output.with_name("benchmarks.json"), output.parent / "plots")
    paths = [str(p) for p in own if p.is_file() or any(p.glob("*"))]  # git knows no empty folders
    message = f"docs: {row['env']} benchmark, {row['spec']} {row['outcome'].split(':')[0]}"
    for words in (["add", "--", *paths], ["commit", "--quiet", "-m", message, "--", *paths]):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
            say(f"note: not committed: {reason[-1] if reason else 'git gave no reason'}")
            return
