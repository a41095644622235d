"""Apply the lint rules to files and folders, and format the report as text, data or SARIF 2.1.0."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import saltlite
from saltlite.errors import UsageError
from saltlite.lint.rules import (
    CODES,
    Finding,
    Severity,
    check_against,
    check_executor,
    check_interface,
    check_module,
    is_executor,
)
from saltlite.lint.source import SourceInterface, SourceModule, read_interfaces, read_module, read_tree

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
        findings += check_executor(module) if is_executor(module.path) else check_against(module, interfaces)
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
