"""Show which modules and functions this minion has, their documentation and their arguments.

Files without ``__virtual__`` and ``__init__`` are read, not imported, so that asking costs little.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

__virtualname__ = "sys"


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


def doc(*args: str) -> dict[str, str | None]:
    """
    The documentation of functions: all of them, those of a module, one function, or those that a glob
    matches.

    CLI Example::

        saltlite '*' sys.doc
        saltlite '*' sys.doc pkg
        saltlite '*' sys.doc pkg.install
        saltlite '*' sys.doc 'grains.*'
    """
    return {name: found.doc for name in _matching(args) if (found := __salt__.describe(name))}


def list_functions(*args: str) -> list[str]:
    """
    The functions of this minion, or those of some modules, or those that a glob matches.

    CLI Example::

        saltlite '*' sys.list_functions
        saltlite '*' sys.list_functions sys pkg
        saltlite '*' sys.list_functions 'sys.list_*'
    """
    return _matching(args)


def list_modules(*args: str) -> list[str]:
    """
    The modules of this minion, or those that a glob matches.

    CLI Example::

        saltlite '*' sys.list_modules
        saltlite '*' sys.list_modules 's*'
    """
    modules = __salt__.modules()
    return [name for name in modules if not args or any(fnmatch.fnmatchcase(name, glob) for glob in args)]


def argspec(module: str = "") -> dict[str, dict[str, Any]]:
    """
    The arguments of functions: of all, of a module, of one function, or of those that a glob matches.

    ``varargs`` and ``kwargs`` are True where the function takes any further arguments.

    CLI Example::

        saltlite '*' sys.argspec pkg.install
        saltlite '*' sys.argspec sys
        saltlite '*' sys.argspec 'pkg.list_*'
    """
    return {
        name: {
            "args": list(found.args),
            "defaults": None if found.defaults is None else list(found.defaults),
            "varargs": True if found.varargs else None,
            "kwargs": True if found.kwargs else None,
        }
        for name in _matching((module,) if module else ())
        if (found := __salt__.describe(name))
    }


def providers(*args: str) -> dict[str, list[dict[str, Any]]]:
    """
    The files that could provide a module, in the order in which they are asked, and why one is not chosen.

    CLI Example::

        saltlite '*' sys.providers
        saltlite '*' sys.providers pkg
    """
    return {
        module: [
            {
                "file": candidate.stem,
                "path": candidate.path,
                "layer": candidate.layer,
                "chosen": candidate.chosen,
                "reason": candidate.reason,
            }
            for candidate in __salt__.candidates(module)
        ]
        for module in args or __salt__.modules()
    }


def _matching(wanted: tuple[str, ...]) -> list[str]:
    """Functions that one of the names or globs means, sorted; a module's name means all its functions."""
    if not wanted:
        return [f"{module}.{function}" for module in __salt__.modules() for function in __salt__.functions(module)]
    found: set[str] = set()
    for name in wanted:
        module, _, function = str(name).partition(".")
        modules = [module]
        if any(sign in module for sign in "*?["):
            modules = [each for each in __salt__.modules() if fnmatch.fnmatchcase(each, module)]
        for each in modules:
            known = __salt__.functions(each)
            found.update(f"{each}.{one}" for one in known if fnmatch.fnmatchcase(one, function or "*"))
    return sorted(found)
