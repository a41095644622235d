"""A package read as one text: what its `__init__.py` takes from files beside it is as if it were written there.

A large module is a folder whose `__init__.py` says `from .part import fun` for functions that its `__all__` (or
`__load__`) lists. Behind that import the definitions of these functions are put, with the TypedDicts of the part; what
the `__risk__` of a part says of them is joined with the module's own. Nothing else of a part is the module's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from saltlite.loader.parameters import declared_risks, typed_dicts
from saltlite.loader.scan import module_constants, parse_module, top_functions

ReadPart = Callable[[str], tuple[bytes, str] | None]
"""The name of a part, such as `lines` -> its text and its path; None when there is no such file."""


def joined_tree(tree: ast.Module, read: ReadPart) -> ast.Module:
    """`tree` of an `__init__.py` with the definitions that it takes from its parts. Raises SyntaxError and OSError."""
    constants = module_constants(tree)
    listed = constants.get("__load__", constants.get("__all__"))
    if not isinstance(listed, list | tuple):
        return tree  # then functions of a part are no functions of the module
    wanted = {str(name) for name in listed}
    body: list[ast.stmt] = []
    risks: dict[str, str] = {}
    for statement in tree.body:
        body.append(statement)
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module:
            found = read(statement.module)
            if found is not None:
                part = parse_module(*found)
                names = {alias.name: alias.asname or alias.name for alias in statement.names}
                body += _taken(part, {name: shown for name, shown in names.items() if shown in wanted})
                said = declared_risks(module_constants(part))
                risks |= {names[name]: risk for name, risk in said.items() if name in names}
    if risks:
        body.append(_risk_statement(risks | declared_risks(constants)))
    return ast.Module(body, tree.type_ignores)


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
