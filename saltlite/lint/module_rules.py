"""Rules about one module file, whatever its interface."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from saltlite.lint.findings import Finding
from saltlite.lint.source import FunctionDefinition, SourceModule

FIELDS = ("maintainer", "maturity", "depends", "platform")
"""Fields that a module's docstring may have, each `:name: text` on a line of its own."""

_FIELD = re.compile(r"^\s*:(\w+)(:?)(\s*)(.*)$", re.MULTILINE)
_LOGGERS = {"log", "logger", "logging", "LOG"}
_LEVELS = {"debug", "info", "warning", "warn", "error", "critical", "exception"}
_SHELLS = {"system", "popen", "getoutput", "getstatusoutput"}
_MUTABLE = (ast.List, ast.Dict, ast.Set)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_module(module: SourceModule) -> Iterator[Finding]:
    """What is wrong with the file by itself."""
    yield from _names(module)
    yield from _documentation(module)
    yield from _while_loading(module)
    yield from _defaults(module)
    yield from _shells(module)


def _names(module: SourceModule) -> Iterator[Finding]:
    virtual = _top(module.tree, "__virtual__")
    declared = module.constants.get("__virtualname__")
    if virtual is None:
        if isinstance(declared, str) and declared != module.stem:
            line = _line_of(module.tree, "__virtualname__")
            text = f"the module is offered as {module.stem!r}: add `def __virtual__(): return __virtualname__`"
            yield Finding(module.path, line, "SMI016", text)
        return
    returns = [part for part in _own_parts(virtual) if isinstance(part, ast.Return)]
    for part in returns:
        name = part.value.value if isinstance(part.value, ast.Constant) else None
        if isinstance(name, str) and isinstance(declared, str) and name != declared:
            text = f"__virtual__ returns {name!r}, and the module is offered as __virtualname__ says: {declared!r}"
            yield Finding(module.path, part.lineno, "SMI002", text)
    nothing = [part for part in returns if part.value is None or _is_none(part.value)]
    if nothing or not _ends(virtual.body):
        line = nothing[0].lineno if nothing else virtual.lineno
        text = "a module whose __virtual__ returns None is not offered: return False with a reason, or a name"
        yield Finding(module.path, line, "SMI017", text)


def _documentation(module: SourceModule) -> Iterator[Finding]:
    doc = ast.get_docstring(module.tree)
    if not doc:
        yield Finding(module.path, 1, "SMI010", "the module has no docstring")
    for match in _FIELD.finditer(doc or ""):
        name, colon, space, text = match.groups()
        if name not in FIELDS:
            continue
        if not colon or (text and not space):
            yield Finding(module.path, 1, "SMI010", f"the field is written `:{name}: text`")
        elif not text and name in ("depends", "platform"):
            yield Finding(module.path, 1, "SMI010", f"the field {name} is empty: list what is meant, with commas")
    for function in module.functions.values():
        if not function.doc:
            yield Finding(function.path or module.path, function.line, "SMI010", f"{function.name} has no docstring")


def _while_loading(module: SourceModule) -> Iterator[Finding]:
    parts = list(_body_parts(module.tree))
    virtual = _top(module.tree, "__virtual__")
    for part in [*parts, *(_own_parts(virtual) if virtual else ())]:
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=logger), attr=level)):
                if logger in _LOGGERS and level in _LEVELS:
                    text = "the body and __virtual__ run again and again: log in the functions, or with log.trace"
                    yield Finding(module.path, part.lineno, "SMI011", text)
    for part in parts:
        if isinstance(part, ast.Name) and part.id == "__salt__":
            text = "other modules may not be there yet: use __salt__ in the functions"
            yield Finding(module.path, part.lineno, "SMI013", text)


def _defaults(module: SourceModule) -> Iterator[Finding]:
    for part in ast.walk(module.tree):
        if isinstance(part, _FUNCTIONS):
            for default in [*part.args.defaults, *filter(None, part.args.kw_defaults)]:
                if isinstance(default, _MUTABLE):
                    text = f"the default of {part.name} is one object for all calls: use None, and make it in the body"
                    yield Finding(module.path, default.lineno, "SMI014", text)


def _shells(module: SourceModule) -> Iterator[Finding]:
    for part in ast.walk(module.tree):
        if not isinstance(part, ast.Call) or not part.args:
            continue
        literal = isinstance(part.args[0], ast.Constant)
        name = part.func.attr if isinstance(part.func, ast.Attribute) else ""
        shell = any(
            keyword.arg in ("shell", "python_shell") and isinstance(keyword.value, ast.Constant) and keyword.value.value
            for keyword in part.keywords
        )
        if not literal and (shell or name in _SHELLS):
            text = "give a list of arguments without a shell: what a caller types could be a command of its own"
            yield Finding(module.path, part.lineno, "SMI015", text)


def _top(tree: ast.Module, name: str) -> FunctionDefinition | None:
    found = [part for part in tree.body if isinstance(part, _FUNCTIONS) and part.name == name]
    return found[-1] if found else None


def _line_of(tree: ast.Module, name: str) -> int:
    for part in tree.body:
        if isinstance(part, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in part.targets):
            return part.lineno
    return 1


def _body_parts(tree: ast.Module) -> Iterator[ast.AST]:
    """Every part that runs when the module is loaded."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        part = pending.pop(0)
        if isinstance(part, (*_FUNCTIONS, ast.Lambda)) or _is_type_checking(part):
            continue
        yield part
        pending.extend(ast.iter_child_nodes(part))


def _own_parts(function: FunctionDefinition) -> Iterator[ast.AST]:
    """The parts of a function without those of functions inside it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        part = pending.pop(0)
        yield part
        if not isinstance(part, (*_FUNCTIONS, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(part))


def _is_type_checking(part: ast.AST) -> bool:
    return isinstance(part, ast.If) and ast.unparse(part.test).endswith("TYPE_CHECKING")


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _ends(body: list[ast.stmt]) -> bool:
    """Whether the end of these statements is never reached."""
    last = body[-1]
    match last:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=inner, orelse=otherwise):
            return bool(otherwise) and _ends(inner) and _ends(otherwise)
        case ast.Try(body=inner, handlers=handlers, orelse=otherwise, finalbody=final):
            whole = _ends(inner) or (bool(otherwise) and _ends(otherwise))
            return (bool(final) and _ends(final)) or (whole and all(_ends(one.body) for one in handlers))
        case ast.With(body=inner):
            return _ends(inner)
        case ast.While(test=ast.Constant(value=True)):
            return True
        case ast.Match(cases=cases):
            return any(isinstance(one.pattern, ast.MatchAs) and one.pattern.pattern is None for one in cases) and all(
                _ends(one.body) for one in cases
            )
    return False
