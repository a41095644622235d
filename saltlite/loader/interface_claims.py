"""Virtual names that a module file claims by the interface that it brings, read from its syntax tree."""

from __future__ import annotations

import ast

PACKAGES = ("saltlite.interfaces.", "salt.interfaces.")


def interface_claims(tree: ast.Module) -> tuple[str, ...]:
    """The virtual names of the interfaces that the file imports or declares: what it may be called after one of them.

    The file of an interface is called after its module, or so with `_module` behind it.
    """
    found: dict[str, None] = {}
    for part in tree.body:
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith(PACKAGES):
            found[str(part.module).rpartition(".")[2].removesuffix("_module")] = None
        elif isinstance(part, ast.ClassDef):
            found |= dict.fromkeys(_declared(part))
    return tuple(found)


def _declared(part: ast.ClassDef) -> list[str]:
    return [
        statement.value.value
        for statement in part.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        and any(isinstance(target, ast.Name) and target.id == "__modulename__" for target in statement.targets)
    ]
