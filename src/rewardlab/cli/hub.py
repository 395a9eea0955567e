"""`rewardlab list`, `pull`, `push`: run folders shared on one URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rewardlab.cli.lab import say

if TYPE_CHECKING:
    from rewardlab.hub.store import Store

DEFAULT = "file://hub"
Hub = Annotated[
    str | None,
    typer.Option(
        "--hub", help="file://FOLDER, s3://BUCKET/PREFIX or hf://USER/REPO; REWARDLAB_HUB or HF_REPO by default."
    ),
]
Data = Annotated[Path, typer.Option("--data", help="Where run folders are.")]


def read_dotenv(path: Path = Path(".env")) -> None:
    """KEY=VALUE lines of the working folder's .env, for keys that the environment does not set itself."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        key = key.strip()
        if equals and key.isidentifier():
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            os.environ.setdefault(key, value[1:-1] if quoted else value.partition(" #")[0].strip())


def hub_url(given: str | None = None) -> str:
    """The hub: as given, or REWARDLAB_HUB, or HF_REPO, or a folder beside `data`."""
    read_dotenv()
    repo = os.environ.get("HF_REPO", "")
    from_repo = repo if "://" in repo else f"hf://{repo}" if repo else ""
    return given or os.environ.get("REWARDLAB_HUB") or from_repo or DEFAULT


def open_hub(given: str | None = None) -> Store:
    """The hub, with what the environment says of tokens and endpoints."""
    from rewardlab.hub.store import Access, open_store

    url = hub_url(given)
    endpoint = os.environ.get("AWS_ENDPOINT_URL" if url.startswith("s3:") else "HF_ENDPOINT")
    return open_store(url, Access(os.environ.get("HF_TOKEN"), endpoint))


def list_runs(
    pattern: Annotated[str, typer.Argument(help="A part of a name, or a pattern with * and ?.")] = "",
    hub: Hub = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """The runs on the hub."""
    from json import dumps

    from rewardlab.hub.transfer import listing

    store = open_hub(hub)
    found = listing(store, pattern)
    if json:
        print(dumps([vars(row) for row in found], indent=2))
        return
    for row in found:
        print(row.name)
    say(f"{len(found)} runs on {store.url}")


def pull(
    pattern: Annotated[str, typer.Argument(help="A folder's name, a part of one, or a pattern with * and ?.")],
    data: Data = Path("data"),
    hub: Hub = None,
) -> None:
    """Fetch runs from the hub, verified; an interrupted transfer goes on where it stopped."""
    from rewardlab.hub.manifest import HubError
    from rewardlab.hub.transfer import matching
    from rewardlab.hub.transfer import pull as fetch

    store = open_hub(hub)
    names = matching(store, pattern)
    if not names:
        raise HubError(f"{store.url} holds no run that fits {pattern!r}: rewardlab list shows what is there")
    for name in names:
        print(fetch(store, name, data, say))


def push(
    folders: Annotated[list[Path] | None, typer.Argument(help="Run folders.")] = None,
    hub: Hub = None,
    graduate: Annotated[
        bool, typer.Option("--graduate", help="Publish hf_data/data, README and docs to the public hub, all at once.")
    ] = False,
    root: Annotated[Path, typer.Option("--root", help="The folder that says what graduates.")] = Path("hf_data"),
    to: Annotated[
        str | None, typer.Option("--to", help="The public hub; by default the hub's name without -dev.")
    ] = None,
) -> None:
    """Send runs to the hub, or publish a release of them."""
    from rewardlab.hub import transfer
    from rewardlab.hub.manifest import HubError

    store = open_hub(hub)
    if not graduate:
        if not folders:
            raise HubError("push needs run folders, or --graduate: rewardlab push data/FOLDER")
        for folder in folders:
            say(f"{transfer.push(store, folder)} files: {store.link(folder.name)}")
        return
    if folders:
        raise HubError(f"--graduate publishes what lies in {root}/data: leave out {folders[0]}")
    public = to or store.url.removesuffix("-dev")
    if public == store.url:
        raise HubError(f"{store.url} has no -dev at its end to drop: name the public hub with --to")
    target = open_hub(public)
    names = transfer.graduate(target, root, [store.link("").rstrip("/")])
    say(f"{len(names)} runs published: {target.url}")


def mount(app: typer.Typer) -> None:
    """At the front door."""
    app.command("list")(list_runs)
    app.command("pull")(pull)
    app.command("push")(push)
