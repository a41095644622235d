"""A report of `saltlite lint` for people, for programs, and as SARIF 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

from typing import Any

import saltlite
from saltlite.lint.findings import CODES, Severity
from saltlite.lint.run import Report


def as_text(report: Report) -> str:
    """One line a finding, and a count."""
    lines = [one.sentence() for one in report.findings]
    counts = ", ".join(f"{report.count(one)} {one}{'' if report.count(one) == 1 else 's'}" for one in Severity)
    files = f"{len(report.files)} file{'' if len(report.files) == 1 else 's'}"
    return "".join(f"{line}\n" for line in [*lines, f"{files}: {counts}"])


def as_data(report: Report) -> dict[str, Any]:
    """`files`, `findings` with path, line, code, severity and text, and how many of each severity."""
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
