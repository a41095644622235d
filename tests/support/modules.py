"""Loaders over files that a test writes."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader import salt_names
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, find_type
from saltlite.loader.search_path import MODULES, PLAIN_FORMS, Form, Layer, search_layers

SEED = Path(__file__).parents[1] / "data" / "modules"
"""Listings of the documents that the loader implements, as their readers type them."""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Relative path -> text; a path without an ending is a `.py` file."""
    for name, source in files.items():
        path = folder / (name if "." in name else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    return folder


def loader_over(*folders: Path, opts: Mapping[str, Any] | None = None, **given: Any) -> Loader:
    """A loader over these folders, the one that is asked first at the front, with every form of module enabled."""
    layers = [
        Layer(f"layer{number}", str(folder), given.get("kind", MODULES), PLAIN_FORMS | {Form.ZIP, Form.CYTHON})
        for number, folder in enumerate(folders)
    ]
    return Loader(build_index(layers), opts or {}, given.get("grains", {}), given.get("pillar", {}))


def loader_from(opts: Mapping[str, Any]) -> Loader:
    """A loader as the configuration `opts` makes it, without what comes with saltlite."""
    layers = [layer for layer in search_layers(opts) if layer.name != "shipped"]
    return Loader(build_index(layers), opts, {}, {})


# -- The module `file` as a job calls it.


_LOADER = Loader(build_index(search_layers({})), {}, {}, {})


def run(function: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call `file.<function>`."""
    return call(_LOADER, f"file.{function}", args, kwargs)


def done(function: str, *args: Any, **kwargs: Any) -> Any:
    """What `file.<function>` returns; it has to succeed."""
    outcome = run(function, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def refusal(function: str, *args: Any, **kwargs: Any) -> str:
    """The sentence of `file.<function>`, which has to fail."""
    outcome = run(function, *args, **kwargs)
    assert outcome.retcode == 1, outcome.value
    return str(outcome.value)


# -- Resource types that ship, loaded and called as the minion does it.


class TypeHere:
    """One type with its slots, after `init`. `pillar` may be replaced key by key."""

    def __init__(self, kind: str, cachedir: Path, pillar: Any, opts: Mapping[str, Any] | None = None) -> None:
        given: dict[str, Any] = {"id": "m1", "cachedir": str(cachedir), **(opts or {})}
        self._grains: dict[str, dict[str, Any]] = {}
        self.type = ResourceType(find_type(kind, given), given, {}, {"resources": {kind: pillar}}, minion={})
        self.type.init()

    def has_pillar(self, pillar: Mapping[str, Any]) -> None:
        """Let the type see another pillar."""
        self.type.refresh({}, pillar)

    def ids(self) -> list[str]:
        """What `discover` finds."""
        found: list[str] = self.type.discover()
        return found

    def on(self, resource_id: str) -> Callable[..., Any]:
        """What calls `slot.function` on one resource: `on("web-1")("test.ping")`."""

        def call(function: str, *args: Any, **kwargs: Any) -> Any:
            with self.type.entered(resource_id, self._grains.get(resource_id, {})):
                return self.type.slots[function](*args, **kwargs)

        return call

    def refresh(self, resource_id: str) -> dict[str, Any]:
        """Collect the grains of a resource, which its slots then see."""
        with self.type.entered(resource_id, {}):
            found: dict[str, Any] = self.type.grains()
        self._grains[resource_id] = found
        return found


# -- A small stand-in for an installed Salt, with an extension: what tests put on `sys.path` where there is none.


PACKAGE = {
    "salt/__init__": """
        import logging, sys
        logging.getLogger().addHandler(logging.NullHandler())
        logging.getLogger().setLevel(1)
        sys.excepthook = print
        """,
    "salt/exceptions": """
        class SaltException(Exception): pass
        class CommandExecutionError(SaltException): pass
        class CommandNotFoundError(SaltException): pass
        class SaltInvocationError(SaltException, TypeError): pass
        """,
    "salt/config": """
        class Frozen(dict): pass
        Frozen.copy = lambda self: dict(self)
        DEFAULT_MINION_OPTS = Frozen(hash_type="sha256", renderer="jinja|yaml", id="never", pillarenv=None, autosign=[])
        """,
    "salt/loader/__init__": "",
    "salt/loader/context": """
        import contextvars
        loader_ctxvar = contextvars.ContextVar("loader_ctxvar")
        class Named:
            def __init__(self, name): self.name = name
            def value(self): return loader_ctxvar.get().pack[self.name]
        """,
    "salt/loader/dunder": """
        from salt.loader.context import Named
        __grains__ = Named("__grains__")
        """,
    "salt/modules/__init__": "raise RuntimeError('nobody imports the package')",
    "salt/utils/__init__": "",
    "salt/utils/words": "def twice(text): return text * 2\ndef minion(): return __opts__['id']",
    "salt/utils/decorators": """
        import collections, sys
        class Depends:
            dependency_dict = collections.defaultdict(lambda: collections.defaultdict(dict))
            def __init__(self, *dependencies, **params): self.told = dependencies, params
            def __call__(self, function):
                frame = sys._getframe(1)
                kind, stem = frame.f_globals["__name__"].split(".")[-2:]
                for dependency in self.told[0]:
                    self.dependency_dict[kind][dependency][stem, function.__name__] = frame, self.told[1]
                return function
        depends = Depends
        """,
    "salt/grains/__init__": "",
    "salt/output/__init__": "",
}
"""What is there before a test adds modules of its own."""


@contextmanager
def salt_site(folder: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path` that has PACKAGE and `files`; `salt` and `saltext` are forgotten before and after."""
    monkeypatch.setattr(salt_names, "_served", {})  # what a file imported in an earlier test
    _forget()
    write(folder, {**PACKAGE, **files})
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("salt", "saltext", "zz_ext")]:
        del sys.modules[name]
