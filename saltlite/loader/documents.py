"""Docstrings and argument lists of module files, read from their text without importing them.

`cached_documents` keeps them in `cachedir`, one file a module. They are not part of the index, which every minion
holds in memory: only people ask for them, mostly for one module.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.loader import scan
from saltlite.loader.index import ModuleFile, cache_stamp, is_own_folder, module_tree, read_cache, write_cache
from saltlite.loader.scan import module_constants, shown_names, top_functions


@dataclass(frozen=True, slots=True)
class Description:
    """One function as `sys.doc` and `sys.argspec` show it.

    `args` ends with the keyword-only arguments. `defaults` belong to the last of `args`; one that is not a literal is
    its source text. `varargs` and `kwargs` are the names of `*args` and `**kwargs`, or None.
    """

    doc: str | None
    args: tuple[str, ...]
    defaults: tuple[Any, ...] | None
    varargs: str | None
    kwargs: str | None


@dataclass(frozen=True, slots=True)
class Documents:
    """The docstring of a module file, and its public functions by the name that callers type."""

    doc: str | None
    functions: Mapping[str, Description]


def read_documents(file: ModuleFile) -> Documents:
    """Read the file once. Raises SyntaxError, OSError and ArchiveError if it changed and cannot be read any more."""
    tree = module_tree(file)
    defined = dict(top_functions(tree))
    shown = shown_names(module_constants(tree), defined)
    return Documents(ast.get_docstring(tree), {shown[name]: _describe(defined[name]) for name in shown})


def _describe(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Description:
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    defaults = [_value(default) for default in arguments.defaults]
    defaults += [_value(default) for default in arguments.kw_defaults if default is not None]
    return Description(
        doc=None if isinstance(function, ast.Lambda) else ast.get_docstring(function),
        args=tuple(positional + keyword_only),
        defaults=tuple(defaults) or None,
        varargs=arguments.vararg.arg if arguments.vararg else None,
        kwargs=arguments.kwarg.arg if arguments.kwarg else None,
    )


def _value(default: ast.expr) -> Any:
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(default)


def cached_documents(file: ModuleFile, cachedir: str, kind: str) -> Documents:
    """The documents of a module file, read from `cachedir` or written to it. Raises as `read_documents`."""
    if not is_own_folder(cachedir):
        return read_documents(file)
    path = os.path.join(cachedir, "index", f"{kind}.docs", file.stem)
    stamp = [*cache_stamp(__file__, scan.__file__), file.path, file.mtime_ns, file.size]
    found = read_cache(path, stamp, _documents)
    if found is None:
        found = read_documents(file)
        with contextlib.suppress(OSError, ValueError):  # a docstring may hold half of a surrogate pair
            write_cache(path, stamp, found.doc, {name: _row(one) for name, one in found.functions.items()})
    return found


def _row(found: Description) -> list[Any]:
    # As text where msgpack would not restore the type, such as a tuple for a list.
    plain = found.defaults is None or all(isinstance(one, str | int | float | None) for one in found.defaults)
    defaults = found.defaults if plain and not _is_large(found.defaults) else repr(found.defaults)
    return [found.doc, found.args, defaults, found.varargs, found.kwargs]


def _is_large(defaults: tuple[Any, ...] | None) -> bool:
    """Whether a number is too large for msgpack."""
    return any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in defaults or ())


def _documents(doc: str | None, rows: Mapping[str, tuple[Any, ...]]) -> Documents:
    return Documents(doc, {name: _description(*row) for name, row in rows.items()})


def _description(doc: str | None, args: tuple[str, ...], defaults: Any, *further: Any) -> Description:
    varargs, kwargs = further
    known = ast.literal_eval(defaults) if isinstance(defaults, str) else defaults
    return Description(doc, args, known, varargs, kwargs)
