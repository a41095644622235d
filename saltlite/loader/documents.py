"""Docstrings and argument lists of a module file, read from its text: nothing is imported."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.loader import scan
from saltlite.loader.index import ModuleFile, is_own_folder, module_tree, read_remembered, stamp_of, write_remembered
from saltlite.loader.scan import module_constants, shown_names, top_functions


@dataclass(frozen=True, slots=True)
class Description:
    """One function as `sys.doc` and `sys.argspec` show it.

    Keyword-only arguments stand in `args` behind the others. `defaults` belong to the last of `args`, or
    None when there are none; a default that is no literal is given as its source text. `varargs` and
    `kwargs` are the names of `*args` and `**kwargs`, or None.
    """

    doc: str | None
    args: tuple[str, ...]
    defaults: tuple[Any, ...] | None
    varargs: str | None
    kwargs: str | None


@dataclass(frozen=True, slots=True)
class Documents:
    """What a module file says of itself: its own docstring, and its public functions by the name that callers type."""

    doc: str | None
    functions: Mapping[str, Description]


def read_documents(file: ModuleFile) -> Documents:
    """Both of it, by reading the file once. Raises as `read_descriptions`."""
    tree = module_tree(file)
    return Documents(ast.get_docstring(tree), _descriptions(tree))


def read_descriptions(file: ModuleFile) -> dict[str, Description]:
    """Every public function of the file by the name that callers type.

    Raises SyntaxError, OSError or ArchiveError when the file changed since it was indexed and cannot be read any more.
    """
    return _descriptions(module_tree(file))


def read_docstring(file: ModuleFile) -> str | None:
    """The docstring of the module itself. Raises as `read_descriptions`."""
    return ast.get_docstring(module_tree(file))


def _descriptions(tree: ast.Module) -> dict[str, Description]:
    defined = dict(top_functions(tree))
    shown = shown_names(module_constants(tree), defined)
    return {shown[name]: _describe(defined[name]) for name in shown}


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


def remembered_documents(file: ModuleFile, cachedir: str, kind: str) -> Documents:
    """The documents of a module file, which `cachedir` may remember; it remembers them for the next one.

    Raises as `read_documents`.
    """
    if not is_own_folder(cachedir):
        return read_documents(file)
    path = os.path.join(cachedir, "index", f"{kind}.docs", file.stem)
    stamp = [*stamp_of(__file__, scan.__file__), file.path, file.mtime_ns, file.size]
    found = read_remembered(path, stamp, _documents)
    if found is None:
        found = read_documents(file)
        with contextlib.suppress(OSError, ValueError):  # a docstring may hold what is no text: half of a surrogate pair
            write_remembered(path, stamp, found.doc, {name: _row(one) for name, one in found.functions.items()})
    return found


def _row(found: Description) -> list[Any]:
    # As a text where msgpack would give back something else than was put in, such as a tuple for a list.
    plain = found.defaults is None or all(isinstance(one, str | int | float | None) for one in found.defaults)
    defaults = found.defaults if plain and not _is_large(found.defaults) else repr(found.defaults)
    return [found.doc, found.args, defaults, found.varargs, found.kwargs]


def _is_large(defaults: tuple[Any, ...] | None) -> bool:
    """Whether a number among them is none that msgpack has."""
    return any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in defaults or ())


def _documents(doc: str | None, rows: Mapping[str, tuple[Any, ...]]) -> Documents:
    return Documents(doc, {name: _description(*row) for name, row in rows.items()})


def _description(doc: str | None, args: tuple[str, ...], defaults: Any, *further: Any) -> Description:
    varargs, kwargs = further
    known = ast.literal_eval(defaults) if isinstance(defaults, str) else defaults
    return Description(doc, args, known, varargs, kwargs)
