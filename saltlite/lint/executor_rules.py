"""Rules about one file of executors, which is known by its folder."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from saltlite.lint.findings import Finding
from saltlite.lint.source import SourceModule

FOLDERS = frozenset({"executors", "_executors"})


def is_executor(path: str) -> bool:
    """Whether the file stands where executors are looked for."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.basename(os.path.dirname(folder) if name == "__init__.py" else folder) in FOLDERS


def check_executor(module: SourceModule) -> Iterator[Finding]:
    """What the loader would not take, and what callers would be surprised by."""
    execute = module.functions.get("execute")
    if execute is None:
        yield Finding(module.path, 1, "SMI018", "there is no function execute(opts, data, func, args, kwargs)")
        return
    try:
        execute.signature.bind("opts", "data", "func", "args", "kwargs")
    except TypeError:
        text = "execute is called with five arguments: opts, data, func, args, kwargs"
        yield Finding(module.path, execute.line, "SMI018", text)
    if not any(_declares(part) for part in module.tree.body):
        text = "without SAFE_OPTS = {name: type} every option that a caller gives reaches it"
        yield Finding(module.path, execute.line, "SMI019", text)


def _declares(part: ast.stmt) -> bool:
    targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == "SAFE_OPTS" for target in targets)
