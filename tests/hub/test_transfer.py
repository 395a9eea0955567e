"""The same promises on every hub: what was pushed comes back to the bit, or not at all."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.commands import command, environment
from tests.hub.hub_server import TOKEN, HubServer

from rewardlab.hub.manifest import HubError, digest, scan
from rewardlab.hub.store import Access, Store, open_store
from rewardlab.hub.transfer import graduate, listing, matching, pull, push

# huggingface_hub's own, on its own HTTP client
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

RUN = "ppo_cartpole_2026_01_31_120000"


def make_run(root: Path, name: str = RUN, size: int = 300_000) -> Path:
    folder = root / name
    for part in ("info", "model", "graph", "log"):
        (folder / part).mkdir(parents=True)
    (folder / "ppo_cartpole_t0_spec.yaml").write_text("ppo_cartpole: {}\n")
    (folder / "info" / "table.csv").write_text("frame\n500\n")
    weights = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    (folder / "model" / "weights.safetensors").write_bytes(weights.tobytes())
    (folder / "log" / "empty.log").write_bytes(b"")
    (folder / "log" / "lock").touch()
    (folder / "graph" / "plotly.min.js").write_text("a library, not a result")
    return folder


def test_push_list_pull(store: Store, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "here")
    assert push(store, folder) == 4  # the lock and the library stay
    push(store, make_run(tmp_path / "here", "dqn_cartpole_2026_01_31_120000", 10))
    assert [row.name for row in listing(store)] == ["dqn_cartpole_2026_01_31_120000", RUN]
    assert matching(store, "ppo") == [RUN]
    assert matching(store, "*_cartpole_2026*") == ["dqn_cartpole_2026_01_31_120000", RUN]
    back = pull(store, RUN, tmp_path / "there")
    assert back == tmp_path / "there" / RUN
    assert scan(back) == scan(folder)
    assert pull(store, RUN, tmp_path / "there") == back  # once more: nothing to do


def test_a_hub_with_nothing_on_it_lists_nothing(store: Store, tmp_path: Path) -> None:
    assert listing(store) == []
    with pytest.raises(HubError, match="no whole run"):
        pull(store, RUN, tmp_path)


def test_a_damaged_object_is_refused(store: Store, damage: Callable[[str, bytes], None], tmp_path: Path) -> None:
    folder = make_run(tmp_path / "here")
    push(store, folder)
    data = bytearray((folder / "model" / "weights.safetensors").read_bytes())
    data[1000] ^= 1  # one bit
    damage(f"data/{RUN}/model/weights.safetensors", bytes(data))
    with pytest.raises(HubError, match=r"weights\.safetensors is damaged: its bytes do not match its SHA-256"):
        pull(store, RUN, tmp_path / "there")
    assert not (tmp_path / "there" / RUN).exists()


def test_a_run_that_was_not_pushed_to_its_end_is_none(
    store: Store, damage: Callable[[str, bytes], None], tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "here")
    store.put({f"data/{RUN}/model/weights.safetensors": folder / "model" / "weights.safetensors"}, "cut short")
    with pytest.raises(HubError, match="not pushed to its end"):
        pull(store, RUN, tmp_path / "there")


def test_a_pull_goes_on_where_it_stopped(store: Store, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "here")
    push(store, folder)
    partial = tmp_path / "there" / f".{RUN}.partial" / "model"
    partial.mkdir(parents=True)
    (partial / "weights.safetensors").write_bytes((folder / "model" / "weights.safetensors").read_bytes()[:200_000])
    (partial / "stale.bin").write_bytes(b"of another version")
    seen: list[int] = []
    original = store.fetch

    def fetch(key: str, path: Path, offset: int) -> None:
        seen.append(offset)
        original(key, path, offset)

    store.fetch = fetch  # type: ignore[method-assign]
    assert scan(pull(store, RUN, tmp_path / "there")) == scan(folder)
    assert sorted(seen) == [0, 0, 0, 200_000]


def test_what_half_arrived_and_is_wrong_is_fetched_again(store: Store, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "here")
    push(store, folder)
    partial = tmp_path / "there" / f".{RUN}.partial" / "model"
    partial.mkdir(parents=True)
    (partial / "weights.safetensors").write_bytes(b"x" * 200_000)
    assert scan(pull(store, RUN, tmp_path / "there")) == scan(folder)


def test_a_folder_that_differs_is_not_overwritten(store: Store, tmp_path: Path) -> None:
    push(store, make_run(tmp_path / "here"))
    mine = make_run(tmp_path / "there")
    (mine / "info" / "table.csv").write_text("frame\n501\n")
    with pytest.raises(HubError, match=r"differs from the hub \(info/table.csv: its bytes"):
        pull(store, RUN, tmp_path / "there")
    assert (mine / "info" / "table.csv").read_text() == "frame\n501\n"


def test_a_manifest_cannot_reach_outside_its_folder(
    store: Store, damage: Callable[[str, bytes], None], tmp_path: Path
) -> None:
    push(store, make_run(tmp_path / "here"))
    evil = b'{"format": "rewardlab-hub-1", "files": {"../../evil": {"size": 1, "sha256": "0"}}}'
    damage(f"data/{RUN}/manifest.json", evil)
    with pytest.raises(HubError, match="outside the folder"):
        pull(store, RUN, tmp_path / "there")


def test_a_push_that_is_repeated_sends_what_changed(s3_store: Store, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "here")
    push(s3_store, folder)
    sent: list[str] = []
    client = s3_store.client  # type: ignore[attr-defined]
    client.meta.events.register("before-call.s3.PutObject", lambda params, **_: sent.append(params["url_path"]))
    (folder / "info" / "table.csv").write_text("frame\n500\n1000\n")
    push(s3_store, folder)
    assert [path.rpartition("/")[2] for path in sent] == ["table.csv", "manifest.json"]


def test_a_file_that_comes_alone_is_asked_for_once_and_never_listed(s3_store: Store, tmp_path: Path) -> None:
    asked: list[str] = []
    client = s3_store.client  # type: ignore[attr-defined]
    client.meta.events.register("before-call.s3", lambda model, **_: asked.append(model.name))
    file = tmp_path / "bundle.zip"
    file.write_bytes(b"content")
    for content in (None, None, b"other"):
        if content is not None:
            file.write_bytes(content)
        s3_store.put({"bundles/one.zip": file}, "a bundle")
    assert asked == ["HeadObject", "PutObject", "HeadObject", "HeadObject", "PutObject"]
    assert s3_store.read("bundles/one.zip") == b"other"


def test_s3_refuses_other_keys(s3_store: Store, s3_server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(HubError, match="refuses to list: SignatureDoesNotMatch"):
        listing(open_store("s3://bucket", Access(endpoint=s3_server[0])))


def test_a_push_to_hugging_face_is_one_commit_with_a_card(
    hf_store: Store, hub_server: HubServer, tmp_path: Path
) -> None:
    push(hf_store, make_run(tmp_path / "here"))
    assert hub_server.commits == [f"run {RUN}"]
    assert hub_server.files["README.md"].startswith(b"---\nlicense: apache-2.0\n")
    assert f"data/{RUN}/model/weights.safetensors" in hub_server.lfs
    (tmp_path / "here" / RUN / "info" / "table.csv").write_text("frame\n500\n1000\n")
    push(hf_store, tmp_path / "here" / RUN)
    assert len(hub_server.commits) == 2
    assert len([r for r in hub_server.requests if r.startswith("PUT")]) == 1  # the weights were there already


def test_hugging_face_is_read_without_a_token_and_written_with_one(
    hf_store: Store, hub_server: HubServer, tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "here")
    push(hf_store, folder)
    reader = open_store("hf://user/repo", Access(endpoint=hub_server.endpoint))
    assert scan(pull(reader, RUN, tmp_path / "there")) == scan(folder)
    with pytest.raises(HubError, match="set HF_TOKEN"):
        push(reader, folder)
    with pytest.raises(HubError, match=r"refuses to write \(HTTP 401\): set HF_TOKEN"):
        push(open_store("hf://user/repo", Access("hf_wrong", hub_server.endpoint)), folder)


def test_a_pull_from_hugging_face_asks_once_per_file(hf_store: Store, hub_server: HubServer, tmp_path: Path) -> None:
    push(hf_store, make_run(tmp_path / "here"))
    hub_server.requests.clear()
    pull(hf_store, RUN, tmp_path / "there")
    assert len(hub_server.requests) == 5  # the manifest and its four files


def test_what_slm_lab_published_is_pulled_without_a_manifest(
    hf_store: Store, hub_server: HubServer, tmp_path: Path
) -> None:
    name = "ppo_cartpole_arc_2026_02_11_144029"
    hub_server.files[f"data/{name}/ppo_cartpole_arc_t0_spec.json"] = b"{}"
    hub_server.files[f"data/{name}/info/ppo_cartpole_arc_t0_s0_session_df_train.csv"] = b"frame\n1\n"
    assert [row.name for row in listing(hf_store)] == [name]
    assert len(scan(pull(hf_store, name, tmp_path))) == 2


@pytest.mark.slow
def test_a_pull_that_is_killed_goes_on(hub_server: HubServer, tmp_path: Path) -> None:
    store = open_store("hf://user/repo", Access(TOKEN, hub_server.endpoint))
    folder = make_run(tmp_path / "here", size=2_000_000)
    push(store, folder)
    hub_server.pause = 0.02  # 2 MB take 2.4 s
    words = command("pull", RUN, "--data", str(tmp_path / "there"), "--hub", "hf://user/repo")
    around = environment(tmp_path) | {"HF_ENDPOINT": hub_server.endpoint}
    process = subprocess.Popen(words, env=around, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part = tmp_path / "there" / f".{RUN}.partial" / "model" / "weights.safetensors"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (part.exists() and part.stat().st_size > 200_000):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrived = part.stat().st_size
    assert 200_000 < arrived < 2_000_000
    assert not (tmp_path / "there" / RUN).exists()
    hub_server.pause, hub_server.sent = 0.0, 0
    assert subprocess.run(words, env=around, cwd=tmp_path, check=False).returncode == 0
    assert scan(tmp_path / "there" / RUN) == scan(folder)
    # what had arrived was not sent again; a block or two were still on their way to the killed one
    assert hub_server.sent < 2_000_000 - arrived + 4 * 16384


def test_graduation_publishes_data_readme_and_docs_at_once(
    hf_store: Store, hub_server: HubServer, tmp_path: Path
) -> None:
    make_run(tmp_path / "hf_data" / "data")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# The board\n")
    old = "https://huggingface.co/datasets/user/repo-dev/tree/main/data"
    (tmp_path / "docs" / "BENCHMARKS.md").write_text(
        f"[run]({old}/{RUN}) [kept](../benchmarks/runs/{RUN}) [b]({old}/x)\n"
    )
    assert graduate(hf_store, tmp_path / "hf_data", [old], tmp_path) == [RUN]
    assert hub_server.commits == ["publish 1 runs"]
    new = f"{hub_server.endpoint}/datasets/user/repo/tree/main/data/{RUN}"
    page = hub_server.files["docs/BENCHMARKS.md"].decode()
    assert page == f"[run]({new}) [kept]({new}) [b]({old}/x)\n"  # what is not published keeps its link
    assert hub_server.files["README.md"].endswith(b"# The board\n")
    assert (
        digest(tmp_path / "hf_data" / "data" / RUN / "info" / "table.csv")
        in hub_server.files[f"data/{RUN}/manifest.json"].decode()
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [("here", "the form is file://"), ("ftp://x", "ftp:// is no hub"), ("hf://repo", "the form is hf://USER/REPO")],
)
def test_a_url_that_is_no_hub(url: str, told: str) -> None:
    with pytest.raises(HubError, match=told):
        open_store(url)


@pytest.mark.live_hf
def test_the_real_hugging_face_is_read_without_a_token(tmp_path: Path) -> None:
    store = open_store("hf://SLM-Lab/benchmark")
    names = matching(store, "ppo_cartpole")
    assert names
    assert any(name.endswith(".csv") for name in scan(pull(store, names[0], tmp_path)))
