"""What `saltlite lint` finds, and its codes. A code never changes its meaning, and none is used again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is. Errors fail the command."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


CODES: dict[str, tuple[Severity, str]] = {
    "SMI000": (Severity.ERROR, "the file cannot be parsed"),
    "SMI001": (Severity.NOTE, "the virtual name has no interface"),
    "SMI002": (Severity.ERROR, "__virtual__ returns another name than __virtualname__"),
    "SMI003": (Severity.ERROR, "the interface describes another module"),
    "SMI004": (Severity.WARNING, "functions of the interface are missing"),
    "SMI005": (Severity.WARNING, "the function is no part of the interface"),
    "SMI006": (Severity.ERROR, "a call that is valid for the interface fails here"),
    "SMI007": (Severity.NOTE, "the function is not called on some platforms"),
    "SMI008": (Severity.WARNING, "the signature differs from the interface"),
    "SMI009": (Severity.WARNING, "there is no such grain"),
    "SMI010": (Severity.WARNING, "documentation is missing or its fields cannot be read"),
    "SMI011": (Severity.WARNING, "the module logs while it is loaded"),
    "SMI012": (Severity.ERROR, "the decorators contradict each other"),
    "SMI013": (Severity.WARNING, "__salt__ is used while the module is loaded"),
    "SMI014": (Severity.WARNING, "a default is changed for all later calls"),
    "SMI015": (Severity.WARNING, "a shell gets what callers give"),
    "SMI016": (Severity.WARNING, "__virtualname__ without __virtual__ has no effect"),
    "SMI017": (Severity.WARNING, "__virtual__ may return None"),
    "SMI018": (Severity.ERROR, "the file is no executor"),
    "SMI019": (Severity.WARNING, "the executor does not say which options callers may give"),
}
"""Code -> its severity, and what it says of a file."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One finding at one line of a file."""

    path: str
    line: int
    code: str
    text: str

    @property
    def severity(self) -> Severity:
        """That of its code."""
        return CODES[self.code][0]

    def sentence(self) -> str:
        """`file:line: SMI006 error: …`."""
        return f"{self.path}:{self.line}: {self.code} {self.severity}: {self.text}"


def codes_table() -> str:
    """The codes as lines of a help text."""
    return "\n".join(f"  {code}  {severity:<8} {meaning}" for code, (severity, meaning) in CODES.items())
