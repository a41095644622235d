"""The execution of a job's functions: the requested chain of executors, and their options."""

from __future__ import annotations

import re

from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

DIRECT = "direct_call"
"""The executor that only calls the function: the default."""

SUDO = "sudo"
"""The executor that lets another user call the function."""

SHIPPED_EXECUTORS = frozenset({"audit", DIRECT, "dry", "nice", "splay", SUDO, "timeout"})
"""The executors that ship. They take no function that the minion does not have; another one might."""

CUSTOM_PREFIX = "executors."
"""A minion reports `executors.NAME` for each executor that does not ship."""

UNAVAILABLE_PREFIX = "module_executors."
"""A minion reports `module_executors.NAME` for each configured executor that it does not have: it can run no job."""

EXECUTORS_MAX = 16
"""Executors of one chain."""

EXECUTOR_NAME_MAX = 64
"""Characters of an executor's name."""

OPTIONS_MAX = 32
"""Options that may be given to the executors of one job."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


class Execution:
    """What was asked for: the executors to use in place of a minion's own (none: its own), and their options."""

    __slots__ = ("executors", "options")

    def __init__(self, executors: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> None:
        self.executors = list(executors)
        self.options = dict(options or {})


DIRECTLY = Execution()
"""Nothing was asked for."""


class ReturnedNone:
    """The type of RETURNED_NONE."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "RETURNED_NONE"


RETURNED_NONE = ReturnedNone()
"""What an executor returns for a function that has returned None: the chain ends, and None is the result."""


class CallEnded(BaseException):
    """An executor ends the function that it is in the middle of; the text is what the caller gets.

    Functions that catch every Exception do not catch it.
    """


def checked_executors(value: object) -> list[str]:
    """The names of a chain: of a list, or of one name. Empty where nothing is asked for (None, "" and []).

    Raises UsageError for anything else.
    """
    names = [] if value is None or value == "" else [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"Wrong executors specification: {str(value)[:80]}. String or non-empty list expected")
    if len(names) > EXECUTORS_MAX:
        raise UsageError(f"a chain has at most {EXECUTORS_MAX} executors, not {len(names)}")
    for name in names:
        if len(name) > EXECUTOR_NAME_MAX or not _NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is not the name of an executor: use letters, digits and _, as in splay")
    return list(names)


def checked_options(value: object) -> dict[str, Any]:
    """The options for executors: a map from names to values; None gives no options. Raises UsageError."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) and name for name in value):
        raise UsageError(f"options for executors are a map, as in {{splaytime: 30}}, not {str(value)[:80]}")
    if len(value) > OPTIONS_MAX:
        raise UsageError(f"executors take at most {OPTIONS_MAX} options at once, not {len(value)}")
    return dict(value)


def is_direct(opts: Mapping[str, Any], asked: Execution) -> bool:
    """Whether a function is only called, so that no executor need be loaded. `opts` is the minion's configuration."""
    if asked.options or opts.get("sudo_user"):
        return False
    configured = opts.get("module_executors") or [DIRECT]
    return configured == [DIRECT] and asked.executors in ([], configured)
