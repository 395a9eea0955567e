"""From a name to a policy: the built-in ones, those of other packages, and classes by their path."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from rewardlab.cogs.errors import CogsError, unknown
from rewardlab.cogs.policies.api import MultiAgentPolicy, PolicyEnvInterface, PolicyRegistryMeta
from rewardlab.cogs.policies.spec import PolicyRequest, parse_policy

GROUP = "rewardlab.policies"
BUILT_IN = "rewardlab.cogs.policies.roster"


def policy_names() -> dict[str, str]:
    """Every policy that can be called by name, and what it is in one line."""
    importlib.import_module(BUILT_IN)
    names = {name: _first_line(cls) for name, cls in PolicyRegistryMeta.registry.items()}
    names |= {name: f"from {point.value}" for name, point in _third_party().items() if name not in names}
    return dict(sorted(names.items()))


def find_class(name: str, root: Path | None = None) -> type[MultiAgentPolicy]:
    """The class of a policy: a short name, an entry point, or `module.Class` (in a bundle's folder first)."""
    module, _, attribute = name.rpartition(".")
    if not module:  # a class by its path needs none of the built-in ones, which bring JAX
        importlib.import_module(BUILT_IN)
        if name in PolicyRegistryMeta.registry:
            return PolicyRegistryMeta.registry[name]
    points = _third_party()
    if name in points:
        return _checked(name, _loaded(points[name]))
    if not module:
        raise unknown("policy", name, policy_names())
    with _importable(root):
        try:
            found = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise CogsError(f"Policy class {name!r} cannot be loaded: {error}.") from error
        except AttributeError as error:
            raise CogsError(f"Policy class {name!r} is not there: {error}.") from error
        except Exception as error:  # the module is a stranger's: whatever it raises is said, not shown as ours
            raise CogsError(f"Policy module {module!r} fails when imported: {type(error).__name__}: {error}") from error
    return _checked(name, found)


def make_policy(request: PolicyRequest | str, info: PolicyEnvInterface, device: str = "cpu") -> MultiAgentPolicy:
    """The policy that a person asked for, with its weights."""
    request = parse_policy(request) if isinstance(request, str) else request
    spec, root = request.spec, request.bundle.root if request.bundle else None
    cls = find_class(spec.class_path, root)
    arguments = dict(spec.init_kwargs)
    parameters = inspect.signature(cls).parameters
    if "device" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        arguments.setdefault("device", device)
    try:
        policy = cls(info, **arguments)
    except TypeError as error:
        raise CogsError(f"Policy {request.text!r} cannot be made: {error}.") from error
    if spec.data_path is not None:
        policy.load_policy_data(spec.data_path)
    return policy


def _checked(name: str, found: Any) -> type[MultiAgentPolicy]:
    if not (isinstance(found, type) and issubclass(found, MultiAgentPolicy)):
        raise CogsError(f"{name!r} is no policy: a class that derives from MultiAgentPolicy is needed.")
    return found


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # a stranger's package
        raise CogsError(f"Policy {point.name!r} ({point.value}) cannot be loaded: {error}") from error


def _third_party() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or cls.__name__).splitlines()[0]


@contextmanager
def _importable(root: Path | None) -> Iterator[None]:
    """Modules of a bundle's folder come first, and are forgotten after: two bundles may both have a `policy.py`."""
    if root is None:
        yield
        return
    own = {place.stem for place in root.iterdir() if place.is_dir() or place.suffix == ".py"}
    hidden = {name: module for name, module in sys.modules.items() if name.split(".")[0] in own - {"rewardlab"}}
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(root.resolve()))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(root.resolve()))
        for name in [name for name in sys.modules if name.split(".")[0] in own - {"rewardlab"}]:
            del sys.modules[name]
        sys.modules.update(hidden)
