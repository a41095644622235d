"""What a check found, and how it is printed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from saltlite.model.printable import printable

WIDTH = 100
_INDENT = " " * 11


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and somebody should look; or it could not be seen."""
    PROBLEM = "problem"
    """Something does not work, or will not after the next start."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one `check`; `fix` is a line that can be pasted into a root shell, "" where none helps."""

    check: str
    severity: Severity
    sentence: str
    fix: str = ""


def ok(check: str, sentence: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, sentence)


def warning(check: str, sentence: str, fix: str = "") -> Finding:
    """Somebody should look."""
    return Finding(check, Severity.WARNING, sentence, fix)


def problem(check: str, sentence: str, fix: str = "") -> Finding:
    """Something does not work."""
    return Finding(check, Severity.PROBLEM, sentence, fix)


def text_of(findings: Sequence[Finding]) -> str:
    """Findings as lines, a fix below its sentence on one line however long it is."""
    lines: list[str] = []
    for finding in findings:
        start = f"  {finding.severity:<9}"
        text = f"{finding.check}: {printable(' '.join(finding.sentence.split()))}"
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=start,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.fix:
            lines.append(f"{_INDENT}fix: {printable(finding.fix)}")
    return "".join(f"{line}\n" for line in lines)


def rows_of(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for `--out json`."""
    return [
        {"check": one.check, "severity": str(one.severity), "sentence": one.sentence, "fix": one.fix}
        for one in findings
    ]
