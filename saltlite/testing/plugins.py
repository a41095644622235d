"""Plug-in files in tests of their authors: loaded and called as a minion does it, without daemons.

modules = load_plugins("/srv/salt", grains={"host": "web1"})
assert modules["hello.world"]() == "hello world from web1"
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from saltlite.loader.call import Outcome, call
from saltlite.loader.executors import Executors
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, find_type
from saltlite.loader.search_path import MODULES, search_layers
from saltlite.model.execution import Execution


def load_plugins(
    folder: str | os.PathLike[str],
    kind: str = MODULES,
    *,
    opts: Mapping[str, Any] | None = None,
    grains: Mapping[str, Any] | None = None,
    pillar: Mapping[str, Any] | None = None,
    **dunders: Any,
) -> Loader:
    """The functions of the plug-ins in `_<kind>` or `<kind>` of the folder, and of those that ship.

    `dunders` replaces injected names, such as `__salt__={"test.ping": lambda: True}`. A missing function raises
    FunctionUnavailable, which says why the file was not loaded.
    """
    given = _opts(folder, opts)
    return Loader(build_index(search_layers(given, kind)), given, grains or {}, pillar or {}, more=dunders)


def call_through(loader: Loader, executors: Sequence[str], fun: str, *args: Any, **options: Any) -> Outcome:
    """Call a function through these executors; `options` are those that the caller gives to executors."""
    chain = Executors(loader).chain(Execution(executors, options), remote=False)
    about = {"jid": "20260101000000000000", "fun": fun, "arg": list(args), "user": "root"}
    return call(loader, fun, args, {}, pub=about, chain=chain)


@contextmanager
def resource_type(
    folder: str | os.PathLike[str],
    name: str,
    *,
    opts: Mapping[str, Any] | None = None,
    grains: Mapping[str, Any] | None = None,
    pillar: Mapping[str, Any] | None = None,
) -> Iterator[ResourceType]:
    """The resource type of that name, initialised; it is shut down after the block.

    `entered(ID, GRAINS)` of it makes a resource the current one. Raises TypeUnavailableError with the reason.
    """
    given = _opts(folder, opts)
    loaded = ResourceType(find_type(name, given), given, grains or {}, pillar or {}, minion={})
    loaded.init()
    try:
        yield loaded
    finally:
        loaded.shutdown()


def _opts(folder: str | os.PathLike[str], opts: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"id": "minion", "cachedir": "", "module_dirs": [os.fspath(folder)], **(opts or {})}
