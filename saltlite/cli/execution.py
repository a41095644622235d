"""The words of `--module-executors` and `--executor-opts`: YAML, as `[splay, direct_call]` and `{splaytime: 30}`."""

from __future__ import annotations

from saltlite.cli.arguments import parse_value
from saltlite.model.execution import checked_executors, checked_options

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from typing import Any


def parse_executors(text: str) -> list[str]:
    """The names of executors: a list in YAML's flow style, or one name. Raises UsageError."""
    return checked_executors(parse_value(text))


def parse_options(text: str) -> dict[str, Any]:
    """The options for executors: a map in YAML's flow style. Raises UsageError."""
    return checked_options(parse_value(text))
