"""`salt.modules`: the functions that saltlite ships, in modules by the names of Salt's files.

They see no grains, pillar and options: a file that has `__salt__` calls them there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_VIRTUAL = {"cmdmod": "cmd", "sysmod": "sys"}
"""Salt's file name -> virtual name, where they differ."""
_SAME = {"cmd._run_quiet": "cmd.run", "cmd._run_all_quiet": "cmd.run_all"}
"""Functions that differ from a public one only in what they log."""


@functools.cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """`module.function` -> function."""
    index: Any = import_module("saltlite.loader.index")
    paths: Any = import_module("saltlite.loader.search_path")
    layer = paths.Layer(paths.SHIPPED, paths.shipped_folder("modules"), installed=True)
    made: Mapping[str, Callable[..., Any]] = import_module("saltlite.loader.loader").Loader(
        index.build_index([layer]), {}, {}, {}
    )
    return made


def has_functions(stem: str) -> bool:
    """Whether any function belongs to Salt's module of that file name."""
    virtual = _VIRTUAL.get(stem, stem)
    return any(name.startswith(f"{virtual}.") for name in functions())


def function_of(stem: str, name: str) -> Callable[..., Any] | None:
    """A function of Salt's module of that file name, or None."""
    full = f"{_VIRTUAL.get(stem, stem)}.{name}"
    return functions().get(_SAME.get(full, full))
