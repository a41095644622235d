"""A small stand-in for an installed Salt, with an extension: what tests put on `sys.path` where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.loading import write

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
    _forget()
    write(folder, {**PACKAGE, **files})
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("salt", "saltext", "zz_ext")]:
        del sys.modules[name]
