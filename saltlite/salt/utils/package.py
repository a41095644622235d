"""`salt.utils.package`: how Salt was installed."""

from __future__ import annotations

import sys


def bundled() -> bool:
    """Whether it has its own Python, as Salt's packages have."""
    return hasattr(sys, "RELENV")


def pkg_type() -> str | None:
    """`onedir` with its own Python, else None."""
    return "onedir" if bundled() else None
