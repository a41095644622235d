"""Building one module object for one loader, with the dunder names set.

The names are set before the body runs, so that code at module level may read `__grains__`, and once more
after it, because files written for Salt carry placeholders such as `__grains__ = {}` that must not hide the
real thing. A module-level `__opts__` dict is different: by Salt's contract it is laid over the minion's
options.

A module object belongs to exactly one loader: two loaders in one process share no state. It is entered into
`sys.modules`, under a name that no `import` finds by itself, because dataclasses and pickle look classes up
there; a second loader replaces the entry, and neither of them reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from saltlite.loader.finder import SHIPPED, ModuleFile


def build_module(file: ModuleFile, names: Mapping[str, Any]) -> ModuleType:
    """A fresh module object with the body of `file` run in it and the dunder `names` set.

    Raises whatever the body raises (SystemExit included), SyntaxError, and OSError when the file is gone.
    """
    module = ModuleType(f"saltlite.loaded.{file.layer}.{file.stem}")
    space = module.__dict__
    space["__file__"] = file.path
    space.update(names)
    known = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        exec(_code(file, module.__name__), space)  # noqa: S102 - running module files is what the loader is for
    except BaseException:
        sys.modules.pop(module.__name__)
        if known is not None:
            sys.modules[module.__name__] = known
        raise
    own_opts = space.get("__opts__")
    space.update(names)
    if isinstance(own_opts, dict) and own_opts is not names["__opts__"]:
        space["__opts__"] = {**names["__opts__"], **own_opts}
    return module


def _code(file: ModuleFile, name: str) -> CodeType | Any:
    """The compiled body.

    Only shipped files use Python's cache of compiled files: it notices a change by whole seconds and size,
    and a module that was just synchronised may have changed within one second without changing its size.
    """
    if file.layer == SHIPPED:
        return SourceFileLoader(name, file.path).get_code(name)
    with open(file.path, "rb") as stream:
        return compile(stream.read(), file.path, "exec", dont_inherit=True)
