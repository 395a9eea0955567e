"""`rewardlab run-remote` and `rewardlab remote`: runs on other machines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardlab.cli.hub import Hub, hub_url, read_dotenv
from rewardlab.cli.lab import Settings, say

if TYPE_CHECKING:
    from rewardlab.remote.job import Job

JOBS = Path("data/remote")
PASSED = (
    *("HF_TOKEN", "HF_REPO", "HF_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"),
    *("AWS_ENDPOINT_URL", "WANDB_API_KEY", "JAX_PLATFORMS"),
)
OTHERS = ("llm", "recipe")  # commands that run as they stand
LARGEST = 2**20  # bytes of a file that travels with a job
Jobs = Annotated[Path, typer.Option("--jobs-folder", help="Where it is noted what was submitted.")]
Name = Annotated[str, typer.Argument(help="The name that the job was given.")]
remote_app = typer.Typer(help="Runs on other machines.", no_args_is_help=True)


def run_remote(
    what: Annotated[
        list[str],
        typer.Argument(metavar="SPEC_FILE SPEC_NAME MODE", help="As for run; or `-- llm train …`, `-- recipe …`."),
    ],
    name: Annotated[str, typer.Option("--name", "-n", help="What the job is called.")],
    settings: Settings = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="It needs a GPU.")] = False,
    runner: Annotated[str, typer.Option("--runner", help="local, ssh, ray or dstack.")] = "dstack",
    host: Annotated[str | None, typer.Option("--host", help="ssh: USER@HOST.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="ssh: the port.")] = None,
    identity: Annotated[str | None, typer.Option("--identity", help="ssh: the key file.")] = None,
    ssh_option: Annotated[list[str] | None, typer.Option("--ssh-option", help="ssh: a further option, often.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="ray: the dashboard's address.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="dstack: the project.")] = None,
    program: Annotated[str | None, typer.Option("--program", help="How RewardLab is called there.")] = None,
    hub: Hub = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be submitted.")] = False,
    jobs: Jobs = JOBS,
) -> None:
    """Run elsewhere; results go to the hub as the run goes, so that one that is cut off loses nothing."""
    from rewardlab.remote.ledger import Ledger, make_runner

    ledger = Ledger(jobs)
    if name in ledger.names() and not _over(ledger, name):
        from rewardlab.remote.job import RemoteError

        raise RemoteError(f"a job {name} runs already: rewardlab remote logs {name}, or give another name")
    options = {
        "folder": str((jobs / "local").resolve()) if runner == "local" else None,
        **{"host": host, "port": port, "identity": identity, "ssh_options": ssh_option or []},
        **{"address": address, "project": project, "url": os.environ.get("DSTACK_URL")},
    }
    job = make_job(what, settings or [], name, gpu, runner, program, hub)
    if plan:
        print(job.script(), end="")
        return
    made = make_runner(runner, options | secrets())
    check_reach(hub_url(hub), runner)
    handle = made.submit(job)
    ledger.add(job, runner, options, handle)
    say(f"{name}: submitted to {runner}; rewardlab remote logs {name} -f")


def make_job(
    what: Sequence[str],
    settings: Sequence[str],
    name: str,
    gpu: bool,
    runner: str,
    program: str | None,
    hub: str | None,
) -> Job:
    """The job of a command line: the spec travels with it, resolved."""
    from rewardlab.remote.job import Job, RemoteError

    if not name.replace("-", "").replace("_", "").isalnum():
        raise RemoteError(f"a job cannot be named {name!r}: use letters, digits, - and _")
    url = hub_url(hub)
    if url.startswith("file://") and runner == "local":
        url = f"file://{Path(url.removeprefix('file://')).expanduser().resolve()}"
    program = program or (f"{sys.executable} -m rewardlab.cli.app" if runner == "local" else "rewardlab")
    env = {key: os.environ[key] for key in PASSED if key in os.environ}
    if what[0] in OTHERS:
        words, files = shipped(what)
        return Job(name, ("remote", "run", "--hub", url, "--", *words), program, files, env, gpu)
    from rewardlab.cli.run import split
    from rewardlab.spec import load, to_yaml

    words, mode = split(what)
    spec = load(words[0], words[1] if len(words) > 1 else None, settings=settings)
    file = f"{spec.name}.yaml"
    command = ("run", file, spec.name, mode, "--push", "--hub", url)
    return Job(name, command, program, {file: to_yaml(spec)}, env, gpu)


def shipped(what: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """A command line whose files travel with it: each small text of this machine that it names, by its last name."""
    from rewardlab.remote.job import RemoteError

    words, files = list(what), dict[str, str]()
    for i, word in enumerate(words):
        path = Path(word)
        if path.is_file() and path.stat().st_size <= LARGEST:
            if files.setdefault(path.name, path.read_text(encoding="utf-8")) != path.read_text(encoding="utf-8"):
                raise RemoteError(f"two files are named {path.name}: they travel into one folder, so rename one")
            words[i] = path.name
    return words, files


@remote_app.command("run")
def remote_run(
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="A command of ours, such as llm train …")],
    hub: Hub = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what the hub holds of it.")] = False,
    data: Annotated[Path, typer.Option("--data", help="Where the command makes its run folders.")] = Path("data"),
) -> None:
    """What a job does on its machine: run a command here, and send the run folders that it makes to the hub."""
    from rewardlab.cli.app import app
    from rewardlab.cli.follow import all_pushed

    url = hub_url(hub)
    line = resumed(words, url, data) if resume else list(words)
    with all_pushed(data, url):
        code = app(line, standalone_mode=False)
    if code:
        raise typer.Exit(code)


def resumed(words: Sequence[str], url: str, data: Path) -> list[str]:
    """`llm train --config FILE …` as `llm train --resume DIR …`, once the hub has a run of it; others start anew."""
    from rewardlab.cli.run import fetch_unfinished

    line = list(words)
    if line[:2] != ["llm", "train"] or "--config" not in line:
        return line
    at = line.index("--config")
    folder = fetch_unfinished(f"llm_{Path(line[at + 1]).stem}", url, data)
    if folder is None:
        return line
    line[at : at + 2] = ["--resume", str(folder)]
    for option in ("-s", "--set", "--compat"):  # the run keeps its config
        while option in line:
            at = line.index(option)
            del line[at : at + 2]
    return line


def check_reach(url: str, runner: str) -> None:
    """Refuses a hub that another machine would look for in its own working folder."""
    from rewardlab.remote.job import RemoteError

    if runner != "local" and url.startswith("file://") and not Path(url.removeprefix("file://")).is_absolute():
        raise RemoteError(
            f"the hub {url} is a folder of this machine, and the job's machine would write into one of its own: "
            "give --hub s3://… or hf://…, or the absolute path of a folder that both see"
        )


def again(row: Mapping[str, Any]) -> Job:
    """A job that was cut off, from its row in a ledger: it goes on from what the hub holds of it."""
    from rewardlab.remote.job import Job

    words = list(row["words"])
    if words[:2] == ["remote", "run"]:
        words[2:2] = [] if "--resume" in words else ["--resume"]
    else:
        words = ["train@hub" if word == "train" else word for word in words]
    env = {key: os.environ[key] for key in PASSED if key in os.environ}
    return Job(row["name"], tuple(words), row["program"], row["files"], env, row["gpu"])


def secrets() -> dict[str, Any]:
    """What a runner needs and nobody writes down."""
    read_dotenv()
    return {"token": os.environ["DSTACK_TOKEN"]} if "DSTACK_TOKEN" in os.environ else {}


def _over(ledger: Any, name: str) -> bool:
    runner, handle = ledger.runner(name, secrets())
    return bool(runner.state(handle).over)


@remote_app.command("ps")
def remote_ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Those that are over as well.")] = False,
    jobs: Jobs = JOBS,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """The jobs that were submitted from here, and how they stand."""
    from json import dumps

    from rewardlab.remote.job import RemoteError, State
    from rewardlab.remote.ledger import Ledger

    ledger, rows = Ledger(jobs), []
    for name in ledger.names():
        row = ledger.get(name)
        try:
            runner, handle = ledger.runner(name, secrets())
            state = runner.state(handle)
        except RemoteError as error:  # one machine that is away hides no other
            state = State("lost", detail=str(error))
        if every or not state.over:
            told = {"name": name, "runner": row["runner"], "status": state.status, "exit_code": state.exit_code}
            rows.append({**told, "detail": state.detail, "since": row["since"], "command": " ".join(row["words"])})
    if json:
        print(dumps(rows, indent=2))
        return
    from rewardlab.cli.tables import table

    def shown(row: Mapping[str, Any]) -> str:
        code = row["exit_code"]
        return str(row["status"]) if code is None else f"exited ({code})" if row["status"] != "stopped" else "stopped"

    cells = [[r["name"], r["runner"], shown(r), r["since"], f"{r['command']} {r['detail']}".strip()] for r in rows]
    table("Jobs", ["name", "runner", "status", "since", "command"], cells)


@remote_app.command("logs")
def remote_logs(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is over.")] = False,
    jobs: Jobs = JOBS,
) -> None:
    """What a job said."""
    attach(name, follow, jobs)


@remote_app.command("attach")
def remote_attach(name: Name, jobs: Jobs = JOBS) -> None:
    """Follow a job; Ctrl-C lets go of it, it runs on. Ends with the job's exit status."""
    try:
        code = attach(name, True, jobs)
    except KeyboardInterrupt:
        say(f"detached; {name} runs on")
        return
    if code:
        raise typer.Exit(code)


def attach(name: str, follow: bool, jobs: Path, pause: float = 2.0) -> int:
    """Print what is new until the job is over; its exit code."""
    from rewardlab.remote.ledger import Ledger

    runner, handle = Ledger(jobs).runner(name, secrets())
    shown = 0
    while True:
        state = runner.state(handle)
        text = runner.logs(handle)
        print(text[shown:], end="", flush=True)
        shown = len(text)
        if not follow or state.over:
            break
        time.sleep(pause)
    if state.over:
        say(f"{name}: {state}")
    return state.exit_code or (1 if state.status in ("failed", "lost") else 0)


@remote_app.command("stop")
def remote_stop(name: Name, jobs: Jobs = JOBS) -> None:
    """End a job; it saves a checkpoint first."""
    from rewardlab.remote.ledger import Ledger

    runner, handle = Ledger(jobs).runner(name, secrets())
    runner.stop(handle)
    say(f"{name}: {runner.state(handle)}")


@remote_app.command("metrics")
def remote_metrics(
    name: Name, jobs: Jobs = JOBS, json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False
) -> None:
    """How busy a job's machine is; a GPU under 50 % is warned of."""
    from json import dumps

    from rewardlab.remote.job import warnings
    from rewardlab.remote.ledger import Ledger

    ledger = Ledger(jobs)
    runner, handle = ledger.runner(name, secrets())
    found = runner.metrics(handle)
    if json:
        print(dumps(dict(found), indent=2))
    else:
        print("\n".join(f"{key}: {value:g}" for key, value in found.items()) or "nothing was measured")
    for warning in warnings(bool(ledger.get(name)["gpu"]), found):
        say(f"note: {warning}")


@remote_app.command("resume")
def remote_resume(name: Name, jobs: Jobs = JOBS) -> None:
    """Submit a job again that was cut off: it goes on from what the hub holds of it."""
    from rewardlab.remote.job import RemoteError
    from rewardlab.remote.ledger import Ledger, make_runner

    ledger = Ledger(jobs)
    row = ledger.get(name)
    if not _over(ledger, name):
        raise RemoteError(f"{name} runs still: rewardlab remote logs {name} -f")
    job = again(row)
    handle = make_runner(row["runner"], row["options"] | secrets()).submit(job)
    ledger.add(job, row["runner"], row["options"], handle)
    say(f"{name}: submitted again")


def mount(app: typer.Typer) -> None:
    """At the front door."""
    app.command("run-remote")(run_remote)
    app.add_typer(remote_app, name="remote")
