"""From a policy as written on a command line to the zip that is uploaded: the spec, and the files that it needs."""

from __future__ import annotations

import importlib.util
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardlab.arena.match.bundles import own_class
from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.policies.bundle import SPEC_FILE, write_bundle
from rewardlab.cogs.policies.make import find_class
from rewardlab.cogs.policies.spec import PolicyRequest, parse_policy

LEFT_OUT = ("__pycache__", ".git", ".DS_Store")
EPOCH = (2026, 1, 1, 0, 0, 0)  # of all files: the same policy gives the same zip


def pack(
    text: str,
    target: Path,
    arguments: Mapping[str, Any] | None = None,
    extra: Sequence[Path] = (),
    setup_script: Path | None = None,
) -> Path:
    """Write the bundle of a policy to the zip `target`."""
    folder = target.with_suffix("")
    folder.mkdir(parents=True)
    request = parse_policy(text)
    request = replace(
        request, spec=replace(request.spec, init_kwargs={**request.spec.init_kwargs, **(arguments or {})})
    )
    data, script = _gather(request, folder)
    for path in (*extra, *([setup_script] if setup_script else [])):
        _copy(path, folder / path.resolve().name)
    if setup_script is not None:
        script = setup_script.resolve().name
    write_bundle(folder, replace(request.spec, data_path=data), script)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = zipfile.ZipInfo(path.relative_to(folder).as_posix(), EPOCH)
                member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                packed.writestr(member, path.read_bytes())
    shutil.rmtree(folder)
    return target


def arguments_of(texts: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; values are JSON where they can be, else texts."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise CogsError(f"The argument {text!r} is not of the form KEY=VALUE.")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _gather(request: PolicyRequest, folder: Path) -> tuple[str | None, str | None]:
    """The files of a policy into the folder; where its weights and its script are in it."""
    if (bundle := request.bundle) is not None:
        for place in bundle.root.iterdir():
            if place.name != SPEC_FILE:
                _copy(place, folder / place.name)
        data, script = request.spec.data_path, bundle.setup_script
        return _relative(data, bundle.root), _relative(script, bundle.root)
    if own_class(request.spec.class_path) is None:
        for place in _source(request.spec.class_path):
            _copy(place, folder / place.name)
    if request.spec.data_path is None:
        return None, None
    file = Path(request.spec.data_path)
    _copy(file, folder / file.name)
    return file.name, None


def _source(class_path: str) -> Iterator[Path]:
    """The file of a class's module, or the whole package that it is in. Nothing of it is run to find it."""
    module = class_path.rpartition(".")[0]
    if not module:
        find_class(class_path)  # no short name that is known: it says the nearest
    top = module.split(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError) as error:
        raise CogsError(f"Policy class {class_path!r} cannot be found: {error}.") from error
    if found is None or found.origin is None:
        raise CogsError(f"Policy class {class_path!r} cannot be found: there is no module {top!r} here.")
    origin = Path(found.origin)
    yield origin.parent if origin.name == "__init__.py" else origin


def _relative(path: str | None, root: Path) -> str | None:
    return None if path is None else Path(path).resolve().relative_to(root.resolve()).as_posix()


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise CogsError(f"There is no {source} to put into the bundle.")
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    elif source.name not in LEFT_OUT:
        shutil.copyfile(source, target)
