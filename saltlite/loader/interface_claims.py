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
            found |= dict.fromkeys(filter(None, [text_of(part, "__modulename__")]))
    return tuple(found)


def text_of(part: ast.ClassDef, name: str) -> str:
    """The text that the class gives to one of its names; "" when it does not, or not literally."""
    for statement in part.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=str() as text)) if found == name:
                return text
    return ""
