"""Docstrings and argument lists of a module file, read from its text: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.loader.finder import ModuleFile, module_tree
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
