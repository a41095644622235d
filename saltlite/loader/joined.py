"""A package read as one text: what its `__init__.py` takes from files beside it is as if it were written there.

A large module is a folder whose `__init__.py` says which of its files have which functions,

    __parts__ = {"lines": ["line", "comment"], "replacing": ["replace"]}

or imports them, `from .lines import line`, and lists them in `__all__` (or `__load__`). The definitions of these
functions are put there, with the TypedDicts of the part; what the `__risk__` of a part says of them is joined with the
module's own. Nothing else of a part is the module's.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator

from saltlite.loader.offer import parted_names
from saltlite.loader.parameters import declared_risks, typed_dicts
from saltlite.loader.scan import MODULE_BYTES_MAX, module_constants, parse_module, top_functions

MAIN = "__init__.py"

ReadPart = Callable[[str], tuple[bytes, str] | None]
"""The name of a part, such as `lines` -> its text and its path; None when there is no such file."""


def joined_tree(tree: ast.Module, read: ReadPart) -> ast.Module:
    """`tree` of an `__init__.py` with the definitions that it takes from its parts. Raises SyntaxError and OSError."""
    constants = module_constants(tree)
    body = list(tree.body)
    risks: dict[str, str] = {}
    for name, names in named_parts(tree):
        found = read(name)
        if found is not None:
            part = parse_module(*found)
            body += _taken(part, names)
            said = declared_risks(module_constants(part))
            risks |= {names[function]: risk for function, risk in said.items() if function in names}
    if risks:
        body.append(_risk_statement(risks | declared_risks(constants)))
    return ast.Module(body, tree.type_ignores)


def named_parts(tree: ast.Module) -> Iterator[tuple[str, dict[str, str]]]:
    """Part -> the functions that the module has of it, each with the name that the module gives it."""
    constants = module_constants(tree)
    parts: dict[str, dict[str, str]] = {}
    for name, part in parted_names(constants.get("__parts__")):
        parts.setdefault(part, {})[name] = name
    yield from parts.items()
    listed = constants.get("__load__", constants.get("__all__"))
    if not isinstance(listed, list | tuple):
        return  # then functions of a part that is imported are no functions of the module
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module:
            names = {alias.name: alias.asname or alias.name for alias in statement.names}
            yield statement.module, {name: shown for name, shown in names.items() if shown in listed}


def part_text(folder: str, name: str) -> tuple[bytes, str] | None:
    """The text and the path of a part of the package in that folder; None when there is no such file."""
    path = part_path(folder, name)
    try:
        with open(path, "rb") as stream:
            return stream.read(MODULE_BYTES_MAX + 1), path
    except (FileNotFoundError, NotADirectoryError):
        return None


def part_path(folder: str, name: str) -> str:
    """Where the part of that name is."""
    return os.path.join(folder, *name.split(".")) + ".py"


def _taken(part: ast.Module, names: dict[str, str]) -> Iterator[ast.stmt]:
    """The functions of a part by the names that the module gives them, behind the TypedDicts that they may speak of."""
    keys = typed_dicts(part)
    yield from (one for one in part.body if isinstance(one, ast.ClassDef) and one.name in keys)
    for name, function in top_functions(part):
        if name not in names:
            continue
        value: ast.expr = function if isinstance(function, ast.Lambda) else ast.Name(function.name, ast.Load())
        if not isinstance(function, ast.Lambda):
            yield function
        if isinstance(function, ast.Lambda) or function.name != names[name]:
            yield ast.Assign([ast.Name(names[name], ast.Store())], value)


def _risk_statement(risks: dict[str, str]) -> ast.stmt:
    return ast.parse(f"__risk__ = {risks!r}").body[0]
