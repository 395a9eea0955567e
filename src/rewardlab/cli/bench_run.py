"""What `rewardlab bench run` does: launch what the board lacks, harvest what is done, publish, commit; until nothing is
left to try."""

from __future__ import annotations

import json as encoder
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardlab.boards import work
from rewardlab.boards.audit import audit
from rewardlab.boards.benchmark import keep, read_result
from rewardlab.boards.work import Attempt
from rewardlab.cli.hub import hub_url, open_hub
from rewardlab.cli.lab import say
from rewardlab.cli.remote import again, check_reach, make_job, secrets
from rewardlab.files import RecordError
from rewardlab.hub.manifest import HubError
from rewardlab.hub.transfer import pull
from rewardlab.remote.job import Job, RemoteError, Runner, State
from rewardlab.remote.ledger import make_runner

AT_ONCE = {"local": 1, "ssh": 1, "ray": 8, "dstack": 30}  # a trial takes a whole small machine
PAUSE = 5.0
RUNNING = re.compile(r"SLM-Lab: Running \S+ in \S*?([^/\s]+)/\s*$", re.MULTILINE)
CLASSIC = "Classic Control"  # needs no GPU


Row = dict[str, Any]  # of the ledger: an attempt that is under way or over


@dataclass
class WorkLoop:
    """Keeps as many attempts running as there is room for. Whatever it does stands in the ledger first, so that it can
    be killed at any moment and started again."""

    only: Sequence[str]
    runner: str
    where: Mapping[str, Any]
    program: str | None
    hub: str | None
    jobs: int
    data: Path
    runs: Path
    output: Path
    commit: bool
    away: set[str] = field(default_factory=set)  # attempts whose machine does not answer, which was said

    def run(self) -> None:
        """Until nothing is left to try."""
        self.ledger = work.read_ledger(self.runs)
        self.hub = hub_url(self.hub)
        work.check_parts(self.only)
        make_runner(self.runner, {**self.place, **secrets()})  # one that cannot be made says so before anything is run
        check_reach(self.hub, self.runner)
        if self.ledger["completed"]:
            self.publish("docs: benchmarks")  # what was cut short between writing and committing
        while True:
            for row in list(self.ledger["active"]):
                self.look(row)
            self.launch()
            if not self.ledger["active"]:
                break
            time.sleep(PAUSE)
        left = [f"{t.algorithm} on {t.env}" for t in work.missing(self.runs, self.only) if work.attempts(t)]
        say("nothing is left to try" + (f"; still missing: {', '.join(left)}" if left else ""))

    @property
    def place(self) -> dict[str, Any]:
        """Where new attempts are submitted."""
        local = {"folder": str((self.data / "remote" / "local").resolve())} if self.runner == "local" else {}
        return {**self.where, **local}

    def made(self, row: Row) -> Runner:
        """Who runs an attempt: where it was submitted, with the secrets of now."""
        return make_runner(row["runner"], {**row["where"], **secrets()})

    def look(self, row: Row) -> None:
        """How an attempt stands; one that is over is harvested."""
        try:
            state = self.made(row).state(row["handle"])
        except RemoteError as error:  # a network that is away for a while ends nothing
            if row["key"] not in self.away:
                say(f"note: {row['spec']} on {row['env']}: {error}")
            self.away.add(row["key"])
            return
        self.away.discard(row["key"])
        if not state.over:
            return
        if state.status == "lost" and not row.get("launched"):  # killed before it was submitted
            self.ledger["active"].remove(row)
        elif state.status == "lost" and not row.get("again"):
            say(f"{row['spec']} on {row['env']}: lost; it goes on from what the hub holds")
            self.submit(row, again(row), again=True)
        else:
            self.finish(row, state)

    def finish(self, row: Row, state: State) -> None:
        """Harvest, write down, publish, commit."""
        row["outcome"] = self.harvest(row, str(state))
        self.ledger["active"].remove(row)
        kept = ("key", "spec", "env", "mode", "algorithm", "runner", "since", "outcome")
        self.ledger["completed"].append({key: row[key] for key in kept})
        say(f"{row['spec']} on {row['env']}: {row['outcome']}")
        work.write_ledger(self.runs, self.ledger)
        self.publish(f"docs: {row['env']} benchmark, {row['spec']} {row['outcome'].split(':')[0]}")

    def publish(self, message: str) -> None:
        """The table, its JSON and plots; committed, if anything changed."""
        work.publish(self.runs, self.output, self.output.with_name("benchmarks.json"))
        if self.commit:
            commit_board(message, self.runs, self.output)

    def launch(self) -> None:
        """Submit what is missing, as many as there is room for."""
        limit = self.jobs or AT_ONCE.get(self.runner, 1)
        for target in work.missing(self.runs, self.only):
            if len(self.ledger["active"]) >= limit:
                return
            if any((row["env"], row["algorithm"]) == (target.env, target.algorithm) for row in self.ledger["active"]):
                continue
            attempt = work.next_attempt(target, self.ledger)
            if attempt is not None:
                self.begin(attempt)

    def begin(self, attempt: Attempt) -> None:
        """One attempt as a job, and its row in the ledger."""
        now = datetime.now(UTC)
        name = re.sub(r"[^a-z0-9]+", "-", f"bench-{attempt.key}-{now:%m%d-%H%M%S}".lower()).strip("-")
        gpu = attempt.target.category != CLASSIC and self.runner != "local"
        words = [attempt.spec_name, attempt.mode]
        job = make_job(words, attempt.settings, name, gpu, self.runner, self.program, self.hub)
        row: Row = {"key": attempt.key, "spec": attempt.spec_name, "env": attempt.target.env, "mode": attempt.mode}
        row |= {"algorithm": attempt.target.algorithm, "runner": self.runner, "where": self.place, "name": name}
        row |= {"since": now.isoformat(timespec="seconds")}
        row |= {"words": list(job.words), "program": job.program, "files": dict(job.files), "gpu": gpu}
        self.ledger["active"].append(row)
        self.submit(row, job)
        say(f"{attempt.spec_name} on {attempt.target.env}: {attempt.mode}, submitted to {self.runner}")

    def submit(self, row: Row, job: Job, **more: Any) -> None:
        """Start a job; where it will be found is written down before."""
        runner = self.made(row)
        row["handle"] = runner.expected(job)
        work.write_ledger(self.runs, self.ledger)
        row |= {"handle": runner.submit(job), "launched": True, **more}
        work.write_ledger(self.runs, self.ledger)

    def harvest(self, row: Row, state: str) -> str:
        """What became of an attempt, in words; one that passes the audit is on the board then."""
        try:
            log = self.made(row).logs(row["handle"])
            found = RUNNING.findall(log)
            if not state.startswith("done") or not found:
                return f"{state}: {last_words(log)}"
            store = open_hub(self.hub)
            path = pull(store, found[-1], self.data, say)
            if row["mode"] == "search":
                return f"searched: {path.name} holds the best spec; write it into specs/ and run it"
            problems = audit(path)
            if problems:
                return f"refused: {problems[0]}"
            link = store.link(path.name)
            keep(path, self.runs, link if link.startswith("http") else None)
            result = read_result(path)
            return "no row" if result is None else f"{result.status} {result.score:.2f}"
        except (RecordError, HubError, RemoteError) as error:
            return f"not harvested: {error}"


def last_words(log: str) -> str:
    """The last line that a job said."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def show_plan(runs: Path, only: Sequence[str], json: bool) -> None:
    """What would be run next for each missing row."""
    work.check_parts(only)
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


def commit_board(message: str, runs: Path, output: Path) -> None:
    """The board's own files, committed here and never pushed; nothing where nothing changed."""
    own = (runs, work.ledger_path(runs), output, output.with_name("benchmarks.json"), output.parent / "plots")
    paths = [str(p) for p in own if p.is_file() or any(p.glob("*"))]  # git knows no empty folders
    if not paths:
        return
    changed = subprocess.run(["git", "status", "--porcelain", "--", *paths], capture_output=True, check=False)
    if changed.returncode == 0 and not changed.stdout:
        return
    for words in (["add", "--", *paths], ["commit", "--quiet", "-m", message, "--", *paths]):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
            say(f"note: not committed: {reason[-1] if reason else 'git gave no reason'}")
            return
