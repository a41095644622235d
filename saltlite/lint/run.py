"""`saltlite lint`: the rules with their codes, their application to files, and the report as text, data or SARIF 2.1.0.

A code never changes its meaning, and a removed one is not used again.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import saltlite
from saltlite.errors import UsageError
from saltlite.interfaces import Platforms
from saltlite.interfaces.smi.contract import DifferenceLevel, compare
from saltlite.lint.source import (
    FunctionDefinition,
    SourceFunction,
    SourceInterface,
    SourceModule,
    read_interfaces,
    read_module,
    read_tree,
)


class Severity(StrEnum):
    """Errors fail the command."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


CODES: dict[str, tuple[Severity, str]] = {
    "SMI000": (Severity.ERROR, "the file cannot be parsed"),
    "SMI001": (Severity.NOTE, "the virtual name has no interface"),
    "SMI002": (Severity.ERROR, "__virtual__ returns another name than __virtualname__"),
    "SMI003": (Severity.ERROR, "the interface describes another module"),
    "SMI004": (Severity.WARNING, "functions of the interface are missing"),
    "SMI005": (Severity.WARNING, "the function is not part of the interface"),
    "SMI006": (Severity.ERROR, "a call that is valid for the interface fails here"),
    "SMI007": (Severity.NOTE, "the function is not called on some platforms"),
    "SMI008": (Severity.WARNING, "the signature differs from the interface"),
    "SMI009": (Severity.WARNING, "there is no such grain"),
    "SMI010": (Severity.WARNING, "documentation is missing or its fields cannot be read"),
    "SMI011": (Severity.WARNING, "the module logs while it is loaded"),
    "SMI012": (Severity.ERROR, "the decorators contradict each other"),
    "SMI013": (Severity.WARNING, "__salt__ is used while the module is loaded"),
    "SMI014": (Severity.WARNING, "a default is changed for all later calls"),
    "SMI015": (Severity.WARNING, "a shell gets the caller's input"),
    "SMI016": (Severity.WARNING, "__virtualname__ without __virtual__ has no effect"),
    "SMI017": (Severity.WARNING, "__virtual__ may return None"),
    "SMI018": (Severity.ERROR, "the file is not an executor"),
    "SMI019": (Severity.WARNING, "the executor does not declare which options callers may pass"),
    "SMI020": (Severity.ERROR, "the file is not a resource type"),
}
"""Code -> its severity and meaning."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One finding at one line of a file."""

    path: str
    line: int
    code: str
    text: str

    @property
    def severity(self) -> Severity:
        """The severity of its code."""
        return CODES[self.code][0]

    def sentence(self) -> str:
        """`file:line: SMI006 error: …`."""
        return f"{self.path}:{self.line}: {self.code} {self.severity}: {self.text}"


def codes_table() -> str:
    """The codes as lines of a help text."""
    return "\n".join(f"  {code}  {severity:<8} {meaning}" for code, (severity, meaning) in CODES.items())


FIELDS = ("maintainer", "maturity", "depends", "platform")
"""Fields of a module's docstring, each `:name: text` on its own line."""

_FIELD = re.compile(r"^\s*:(\w+)(:?)(\s*)(.*)$", re.MULTILINE)
RESOURCE_FUNCTIONS = {"init": 1, "initialized": 0, "discover": 1, "grains": 0}
"""What a resource type must have -> the number of arguments of its calls."""
_LOGGERS = {"log", "logger", "logging", "LOG"}
_LEVELS = {"debug", "info", "warning", "warn", "error", "critical", "exception"}
_SHELLS = {"system", "popen", "getoutput", "getstatusoutput"}
_MUTABLE = (ast.List, ast.Dict, ast.Set)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_module(module: SourceModule) -> Iterator[Finding]:
    """Problems of a module file, whatever its interface."""
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
            yield Finding(module.path, 1, "SMI010", f"the field {name} is empty: list its items, separated by commas")
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
            text = "other modules may not be loaded yet: use __salt__ in the functions"
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
            text = "pass a list of arguments without a shell: a caller's input could contain a command"
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
    """The parts of a function, without those of nested functions."""
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
    """Whether the end of these statements is unreachable."""
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


FOLDERS = frozenset({"executors", "_executors"})


def is_executor(path: str) -> bool:
    """Whether the file is in a folder of executors."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.basename(os.path.dirname(folder) if name == "__init__.py" else folder) in FOLDERS


def is_resource_type(path: str) -> bool:
    """Whether the file is the connection module of a resource type."""
    folder, name = os.path.split(os.path.abspath(path))
    return name == "__init__.py" and os.path.basename(os.path.dirname(folder)) in {"resources", "_resources"}


def check_resource_type(module: SourceModule) -> Iterator[Finding]:
    """What the loader needs of a connection module: these functions, callable with these arguments."""
    for name, count in RESOURCE_FUNCTIONS.items():
        function = module.functions.get(name)
        if function is None:
            arguments = "opts" if count else ""
            yield Finding(module.path, 1, "SMI020", f"there is no function {name}({arguments})")
            continue
        try:
            function.signature.bind(*["opts"] * count)
        except TypeError:
            text = f"{name} is called with {'one argument: opts' if count else 'no argument'}"
            yield Finding(module.path, function.line, "SMI020", text)


def check_executor(module: SourceModule) -> Iterator[Finding]:
    """Problems of an executor for the loader and its callers."""
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
        text = "without SAFE_OPTS = {name: type} it gets every option that a caller passes"
        yield Finding(module.path, execute.line, "SMI019", text)


def _declares(part: ast.stmt) -> bool:
    targets = part.targets if isinstance(part, ast.Assign) else [part.target] if isinstance(part, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == "SAFE_OPTS" for target in targets)


GRAINS = frozenset(
    """
    biosreleasedate biosversion boardname cpu_flags cpu_model cpuarch cwd_server disks dns domain efi
    efi-secure-boot fqdn fqdn_ip4 fqdn_ip6 fqdns gid gpus groupname host hostname hwaddr_interfaces id init
    ip4_gw ip4_interfaces ip6_gw ip6_interfaces ip_gw ip_interfaces ipv4 ipv6 kernel kernelparams kernelrelease
    kernelversion locale_info localhost lsb_distrib_codename lsb_distrib_description lsb_distrib_id
    lsb_distrib_release lvm machine_id manufacturer master mdadm mem_total nodename num_cpus num_gpus os
    os_family osarch oscodename osfamily osfinger osfullname osmajorrelease osrelease osrelease_info path pid
    productname ps pythonexecutable pythonpath pythonversion role roles saltlite_version saltpath saltversion
    saltversioninfo selinux serialnumber server_id shell ssds swap_total systemd systempath timezone uid
    username uuid virtual virtual_subtype virtualized zfs_support
    """.split()  # noqa: SIM905 - a hundred names are easier to read like this
)
"""Grains that minions have or that operators usually set; of a nested one the first part counts."""


def check_interface(interface: SourceInterface) -> Iterator[Finding]:
    """Problems of a declaration alone."""
    if not interface.module and not interface.extends and not interface.name.startswith("_"):
        text = f"{interface.name} has no __modulename__ that is a plain text: say which virtual module it describes"
        yield Finding(interface.path, interface.line, "SMI003", text)
    for name, declared in interface.functions.items():
        line = declared.function.line
        if not declared.function.doc:
            yield Finding(interface.path, line, "SMI010", f"{name} has no docstring")
        for grain in {**declared.supported, **declared.not_applicable}:
            if grain.partition(":")[0] not in GRAINS:
                text = f"{name} asks for the grain {grain!r}, which minions do not have by default"
                yield Finding(interface.path, line, "SMI009", text)
        for grain in declared.supported.keys() & declared.not_applicable.keys():
            both = {one.casefold() for one in declared.supported[grain]} & {
                one.casefold() for one in declared.not_applicable[grain]
            }
            if both:
                text = f"{name} is supported and not applicable where {grain} is {', '.join(sorted(both))}"
                yield Finding(interface.path, line, "SMI012", text)
        if name in interface.reserved:
            text = f"{name} was removed from the interface and may not return with another meaning"
            yield Finding(interface.path, line, "SMI012", text)


def check_against(module: SourceModule, interfaces: Mapping[str, Sequence[SourceInterface]]) -> Iterator[Finding]:
    """How a module implements the interfaces of the names that it may answer to.

    `interfaces`: virtual name -> its interface and its extensions.
    """
    names = [name for name in module.claims if name in interfaces]
    if not names:
        if module.claims and module.claims != (module.stem,):
            text = f"{', '.join(module.claims)} has no interface: callers cannot know what every platform has"
            yield Finding(module.path, 1, "SMI001", text)
        return
    for name in names:
        yield from _against(module, interfaces[name])


def _against(module: SourceModule, parts: Sequence[SourceInterface]) -> Iterator[Finding]:
    declared = {fun: one for part in parts for fun, one in part.functions.items()}
    title = f"the interface {parts[0].module} {parts[0].version}"
    missing = sorted(fun for fun, one in declared.items() if fun not in module.functions and not one.supported)
    if missing:
        yield Finding(module.path, 1, "SMI004", f"{title} has {', '.join(missing)}, and the module does not")
    for fun, function in module.functions.items():
        if fun not in declared:
            yield Finding(
                function.path or module.path,
                function.line,
                "SMI005",
                f"{fun} is not part of {title}: callers get a warning",
            )
            continue
        for one in compare(declared[fun].function.signature, function.signature):
            if one.level is not DifferenceLevel.OK:
                code = "SMI006" if one.level is DifferenceLevel.ERROR else "SMI008"
                yield Finding(_file(module, function), function.line, code, f"{fun}: {one.text()} ({title})")
        if declared[fun].not_applicable:
            places = Platforms(declared[fun].not_applicable).text()
            yield Finding(
                function.path or module.path, function.line, "SMI007", f"{fun} is not called where {places} ({title})"
            )


def _file(module: SourceModule, function: SourceFunction) -> str:
    return function.path or module.path


_NOQA = re.compile(r"#\s*noqa:\s*([A-Z0-9, ]+)")

SHIPPED = os.path.join(os.path.dirname(saltlite.__file__), "interfaces")


@dataclass(frozen=True, slots=True)
class Report:
    """The files, and the findings sorted by place."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        """The number of findings of this severity."""
        return sum(one.severity is severity for one in self.findings)


def lint(paths: Sequence[str]) -> Report:
    """Check files, and every `.py` file below folders. Raises UsageError for a path that cannot be read.

    A finding is skipped where its line says `# noqa: SMI005`.
    """
    files = [file for path in paths for file in _files(path)]
    classes: dict[str, SourceInterface] = {one.name: one for one in shipped_interfaces()}
    findings: list[Finding] = []
    modules: list[SourceModule] = []
    for file in files:
        try:
            tree = read_tree(file)
        except SyntaxError as error:
            findings.append(Finding(file, error.lineno or 1, "SMI000", error.msg))
            continue
        declared = read_interfaces(file, tree, classes)
        for interface in declared:
            findings += check_interface(interface)
        classes |= {one.name: one for one in declared}
        module = read_module(file, _stem(file), tree)
        if not declared or module.functions:
            modules.append(module)
    interfaces = by_module(list(classes.values()))
    for module in modules:
        findings += check_module(module)
        if is_executor(module.path):
            findings += check_executor(module)
        elif is_resource_type(module.path):
            findings += check_resource_type(module)
        else:
            findings += check_against(module, interfaces)
    return Report(tuple(files), tuple(sorted(one for one in set(findings) if not _is_allowed(one))))


def shipped_interfaces() -> list[SourceInterface]:
    """The interfaces that come with saltlite."""
    found: list[SourceInterface] = []
    for name in sorted(os.listdir(SHIPPED)):
        if name.endswith(".py") and not name.startswith("_"):
            path = os.path.join(SHIPPED, name)
            found += read_interfaces(path, read_tree(path), {})
    return found


def by_module(interfaces: Sequence[SourceInterface]) -> dict[str, list[SourceInterface]]:
    """Virtual name -> its interface and its extensions. A later interface replaces an earlier one."""
    found: dict[str, list[SourceInterface]] = {}
    for one in interfaces:
        if one.extends:
            found.setdefault(one.extends, []).append(one)
        elif one.module:
            found[one.module] = [one, *(other for other in found.get(one.module, ()) if other.extends)]
    return {name: parts for name, parts in found.items() if not parts[0].extends}


def _files(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    if not os.path.isdir(path):
        raise UsageError(f"there is no file or folder {path}")
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            if name.endswith(".py") and (name == "__init__.py" or not name.startswith("_")):
                yield os.path.join(folder, name)


def _stem(file: str) -> str:
    folder, name = os.path.split(file)
    return os.path.basename(os.path.abspath(folder)) if name == "__init__.py" else name.removesuffix(".py")


def _is_allowed(finding: Finding) -> bool:
    try:
        with open(finding.path, encoding="utf-8", errors="replace") as stream:
            line = stream.read().splitlines()[finding.line - 1 : finding.line]
    except OSError:
        return False
    match = _NOQA.search(line[0]) if line else None
    return match is not None and finding.code in re.split(r"[, ]+", match[1])


def as_text(report: Report) -> str:
    """One line per finding, and the counts."""
    lines = [one.sentence() for one in report.findings]
    counts = ", ".join(f"{report.count(one)} {one}{'' if report.count(one) == 1 else 's'}" for one in Severity)
    files = f"{len(report.files)} file{'' if len(report.files) == 1 else 's'}"
    return "".join(f"{line}\n" for line in [*lines, f"{files}: {counts}"])


def as_data(report: Report) -> dict[str, Any]:
    """`files`, `findings` with path, line, code, severity and text, and the counts by severity."""
    findings = [
        {"path": one.path, "line": one.line, "code": one.code, "severity": str(one.severity), "text": one.text}
        for one in report.findings
    ]
    counts = {f"{severity}s": report.count(severity) for severity in Severity}
    return {"files": list(report.files), "findings": findings, **counts}


def as_sarif(report: Report) -> dict[str, Any]:
    """The report as SARIF."""
    rules = [{"id": code, "shortDescription": {"text": meaning}} for code, (_severity, meaning) in CODES.items()]
    results = [
        {
            "ruleId": one.code,
            "level": str(one.severity),
            "message": {"text": one.text},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": one.path},
                        "region": {"startLine": max(one.line, 1)},
                    }
                }
            ],
        }
        for one in report.findings
    ]
    driver = {"name": "saltlite", "version": saltlite.__version__, "rules": rules}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
