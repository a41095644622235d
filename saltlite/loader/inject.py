"""Building one module object for one loader, with the dunder names set.

The names are set before the body runs, so that code at module level may read `__grains__`, and once more
after it, because files written for Salt carry placeholders such as `__grains__ = {}` that must not hide the
real thing. A module-level `__opts__` dict is different: by Salt's contract it is laid over the minion's
options.

A module object belongs to exactly one loader: two loaders in one process share no state (but for machine code, see
`saltlite.loader.extension`). It is entered into `sys.modules`, under a name that no `import` finds by itself, because
relative imports, dataclasses and pickle look there; a second loader replaces the entry.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping
from functools import partial
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from saltlite.loader.archive import read_all
from saltlite.loader.dunders import Injected
from saltlite.loader.extension import compiled_path, load_extension
from saltlite.loader.finder import Index, ModuleFile
from saltlite.loader.imports import Interfaces, plugin_builtins
from saltlite.loader.parts import PREFIX, FileParts, FolderParts, Parts, TextParts, load_parts
from saltlite.loader.places import SHIPPED, Form

_SALT_LEVELS = {"garbage": 1, "trace": 5, "profile": 15}
"""Methods that modules expect of their loggers, and the level of each. Contract: Salt's logging."""


def build_module(file: ModuleFile, kind: str, names: Mapping[str, Any], interfaces: Interfaces) -> ModuleType:
    """A fresh module object with the body of `file` run in it and the dunder `names` set.

    `interfaces` are the plug-in files that it may import from `saltlite.interfaces`.

    Raises whatever the body raises (SystemExit included), SyntaxError, ImportError, and OSError when the file is gone.
    """
    name = f"{PREFIX}{file.layer}.{kind.replace('/', '.')}.{file.stem}"
    given = dict(names)
    if file.layer != SHIPPED:
        # What ships imports by no other name, and to copy the builtins is to write to the memory of each of them.
        own_name = file.stem if file.form is Form.ZIP else ""
        given["__builtins__"] = plugin_builtins(own_name, name, interfaces)

    def fill(space: dict[str, Any]) -> None:
        space.update(given)

    _teach_levels()
    if file.form is Form.EXTENSION:
        module = load_extension(name, file.path, fill)
    elif file.form is Form.CYTHON:
        library = compiled_path(file.path, file.stem, str(names["__opts__"].get("cachedir") or ""))
        module = load_extension(name, library, fill)
    else:
        module = load_parts(name, _parts(file), fill)
    own_opts = module.__dict__.get("__opts__")
    fill(module.__dict__)
    if isinstance(own_opts, dict) and own_opts is not names["__opts__"]:
        module.__dict__["__opts__"] = Injected({**names["__opts__"], **own_opts})
    return module


def _parts(file: ModuleFile) -> Parts:
    if file.form is Form.PACKAGE:
        return FolderParts(os.path.dirname(file.path), _cached_code if file.layer == SHIPPED else None)
    if file.form is Form.ZIP:
        return TextParts(os.path.join(file.path, file.stem), read_all(file.path, file.stem))
    return FileParts(file.path, partial(_cached_code, file.path) if file.layer == SHIPPED else None)


def read_shipped(index: Index) -> None:
    """Read the compiled bodies of the shipped files, without running any: processes forked from here on share them."""
    for file in index.files:
        if file.layer == SHIPPED and file.failure is None:
            for path in _texts_of(file):
                _cached_code(path)


def _texts_of(file: ModuleFile) -> list[str]:
    if file.form is not Form.PACKAGE:
        return [file.path]
    folder = os.path.dirname(file.path)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]


@functools.cache
def _cached_code(path: str) -> CodeType:
    """The compiled body of a shipped file, by Python's cache of compiled files; read once.

    Only for shipped files: these change with the installation, which restarts the daemons, and Python's cache notices
    a change by whole seconds and size, while a module that was just synchronised may have changed within one second.
    """
    code = SourceFileLoader(path, path).get_code(path)
    if code is None:
        raise ImportError(f"{path} has no code")
    return code


def _teach_levels() -> None:
    """Give loggers Salt's methods, which a module calls as it is loaded: `log.trace(…)`."""
    for name, level in _SALT_LEVELS.items():
        if not hasattr(logging.Logger, name):
            setattr(logging.Logger, name, _method(level))


def _method(level: int) -> Any:
    def write(self: logging.Logger, message: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            self.log(level, message, *args, **{"stacklevel": 2, **kwargs})

    return write
