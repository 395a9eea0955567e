"""List, pull, push: the same on every hub. A folder has its name only once it is whole."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rewardlab.hub.card import dataset_card
from rewardlab.hub.manifest import NAME, SKIPPED, Entry, HubError, check_name, decode, encode, fault, scan
from rewardlab.hub.store import Source, Store

WORKERS = 4  # files at a time: fast enough, and no storm of requests
Say = Callable[[str], None]


@dataclass(frozen=True)
class Listed:
    """A run folder on a hub."""

    name: str
    link: str


def matching(store: Store, pattern: str) -> list[str]:
    """The folders of a pattern: a name, a part of one, or with * and ?."""
    names = store.folders()
    if any(c in pattern for c in "*?["):
        return [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    return [name for name in names if name == pattern] or [name for name in names if pattern in name]


def listing(store: Store, pattern: str = "") -> list[Listed]:
    """What is on a hub; one request for any number of folders."""
    return [Listed(name, store.link(name)) for name in matching(store, pattern)]


def push(store: Store, folder: Path, message: str | None = None) -> int:
    """Send a run folder, its manifest last; the number of files."""
    with snapshot(folder) as still:
        entries = scan(still)
        if not any(name.endswith(("_spec.yaml", "_spec.json")) for name in entries):
            raise HubError(f"{folder} is not a run folder: it holds no spec file, *_spec.yaml")
        store.put(_with_manifest(still, entries, f"data/{folder.name}"), message or f"run {folder.name}")
    return len(entries)


@contextmanager
def snapshot(folder: Path) -> Iterator[Path]:
    """A run folder as it stands at this moment, though it may be written on. Checkpoints first: a resume trims tables
    that are ahead of its checkpoint, and cannot use ones that lag behind."""
    if not folder.is_dir():
        raise HubError(f"there is no run folder {folder}")
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.push-", dir=folder.parent) as temporary:
        still = Path(temporary) / folder.name
        still.mkdir()
        for path in sorted(folder.rglob("*"), key=lambda p: (p.suffix != ".safetensors", p)):
            if path.is_file() and not path.is_symlink() and path.name not in SKIPPED:
                target = still / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # a temporary file that got its name meanwhile
                    if path.suffix == ".safetensors":
                        _link_or_copy(path, target)  # never written in place, so a second name is enough
                    else:
                        shutil.copyfile(path, target)
        yield still


def _link_or_copy(path: Path, target: Path) -> None:
    try:
        target.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:  # a file system that knows no second names
        shutil.copyfile(path, target)


def _with_manifest(folder: Path, entries: dict[str, Entry], place: str) -> dict[str, Source]:
    files: dict[str, Source] = {f"{place}/{name}": folder / name for name in entries}
    return {**files, f"{place}/{NAME}": encode(entries)}


def pull(store: Store, name: str, data: Path, say: Say = lambda _: None) -> Path:
    """Fetch a run folder into `data`. What an interrupted pull left is used; what is damaged is refused."""
    check_name(name, store.url)
    target, partial = data / name, data / f".{name}.partial"
    entries = _entries(store, name)
    if target.exists():
        wrong = {file: why for file, entry in entries.items() if (why := fault(target / file, entry))}
        if not wrong:
            say(f"{name}: here already")
            return target
        file, why = next(iter(wrong.items()))
        raise HubError(f"{target} exists and differs from the hub ({file}: {why}): move it away")
    partial.mkdir(parents=True, exist_ok=True)
    for stale in [p for p in partial.rglob("*") if p.is_file() and p.relative_to(partial).as_posix() not in entries]:
        stale.unlink()  # of another version of the folder
    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(_fetch, store, name, file, entry, partial) for file, entry in entries.items()]:
            done.result()
    partial.rename(target)
    say(f"{name}: {len(entries)} files")
    return target


def _entries(store: Store, name: str) -> dict[str, Entry]:
    """What a folder should hold: by its manifest, or, for one that SLM-Lab published, by the hub's listing."""
    told = store.read(f"data/{name}/{NAME}")
    if told is not None:
        return decode(told, f"{store.url}/data/{name}/{NAME}")
    entries = store.files(f"data/{name}")
    if not any(e.endswith(("_spec.yaml", "_spec.json")) for e in entries):
        raise HubError(f"{store.url} holds no whole run {name}: it was not pushed to its end")
    for file in entries:
        check_name(file, store.url)
    return entries


def _fetch(store: Store, name: str, file: str, entry: Entry, partial: Path) -> None:
    """One file: what is there of it already is continued; one that is wrong at the end is fetched once more."""
    path = partial / file
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        have = path.stat().st_size if path.exists() else 0
        if have > entry.size:
            path.unlink()
            have = 0
        if have < entry.size or not path.exists():
            store.fetch(f"data/{name}/{file}", path, have)
        why = fault(path, entry)
        if why is None:
            return
        path.unlink()
    raise HubError(f"{store.url}/data/{name}/{file} is damaged: {why}; push the run again from where it is whole")


def graduate(
    store: Store, root: Path, sources: Sequence[str], repository: Path = Path(), message: str = ""
) -> list[str]:
    """Publish what lies in `root`/data, the manifest of a release: README, docs with links that lead to this hub, data;
    all in one go. `sources` are the hubs that links may point to now."""
    folders = sorted(path for path in (root / "data").glob("*") if path.is_dir())
    if not folders:
        raise HubError(
            f"{root}/data holds no run folders: pull those to be published with rewardlab pull --data {root}/data"
        )
    files: dict[str, Source] = {}
    for folder in folders:
        files |= _with_manifest(folder, scan(folder), f"data/{folder.name}")
    for page in _pages(repository):
        content = page.read_bytes()
        if page.suffix in (".md", ".json"):
            content = rewritten(content.decode("utf-8"), store, sources, [f.name for f in folders]).encode()
        files[page.relative_to(repository).as_posix()] = content
    readme = repository / "README.md"
    if readme.exists():
        text = rewritten(readme.read_text(encoding="utf-8"), store, sources, [f.name for f in folders])
        files["README.md"] = dataset_card(text).encode()
    store.put(files, message or f"publish {len(folders)} runs")
    return [folder.name for folder in folders]


def _pages(repository: Path) -> Iterator[Path]:
    docs = repository / "docs"
    yield from (p for p in sorted(docs.rglob("*")) if p.is_file() and p.suffix in (".md", ".json", ".png"))


def rewritten(text: str, store: Store, sources: Sequence[str], folders: Sequence[str]) -> str:
    """A page whose links to published folders lead to this hub."""
    for folder in folders:
        for source in sources:
            text = text.replace(f"{source.rstrip('/')}/{folder}", store.link(folder))
        text = re.sub(rf"\]\([^()\s]*benchmarks/runs/{re.escape(folder)}\)", f"]({store.link(folder)})", text)
    return text


def forget_partial(data: Path) -> list[Path]:
    """Throw away what interrupted pulls left."""
    found = sorted(path for path in data.glob(".*.partial") if path.is_dir())
    for path in found:
        shutil.rmtree(path)
    return found
