"""`saltlite demo`."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Placeholder until the next commit."""
    return len(argv)
