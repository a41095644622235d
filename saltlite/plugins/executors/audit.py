"""Log each call to a file before it runs.

Each call adds one line of JSON to ``audit_file``: time, id, jid, user, function, executors and arguments. With
``audit_arguments`` the arguments are logged except those named like secrets, otherwise their number and the names of
keywords. If the line cannot be written, the function is not called.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.executors._arguments import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.plugins.executors import Function, Values

SAFE_OPTS: dict[str, type] = {}
STAYS = True


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> None:
    """Append the line to the file and pass the call on.

    CLI Example: ``saltlite --module-executors='[audit, direct_call]' '*' test.ping``
    """
    if isinstance(func, str):  # the arguments of a missing function are in `data`
        args, kwargs = data["arg"], {}
    if opts.get("audit_arguments"):
        args, kwargs = shown(func, args, kwargs)
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "id": data["id"],
        "jid": data["jid"],
        "user": data["user"],
        "fun": data["fun"],
        "executors": list(data["module_executors"]),
        **_arguments(args, kwargs, whole=bool(opts.get("audit_arguments"))),
    }
    path = str(opts.get("audit_file") or "")
    if not path:
        raise CommandExecutionError("The executor audit has no file: set the option audit_file of this minion.")
    try:
        _add(path, json.dumps(line, default=str, ensure_ascii=True).encode() + b"\n")
    except OSError as error:
        raise CommandExecutionError(
            f"Nothing was called, because audit_file ({path}) cannot be written: {error.strerror}."
        ) from error


def _arguments(args: Sequence[Any], kwargs: Values, *, whole: bool) -> dict[str, Any]:
    if whole:
        return {"args": list(args), "kwargs": dict(kwargs)}
    return {"args": len(args), "kwargs": sorted(map(str, kwargs))}


def _add(path: str, line: bytes) -> None:
    """Append with one write, so that lines of several processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        written = os.write(file, line)
        if written < len(line):
            raise OSError(28, "No space left on device")
        os.fdatasync(file)
    finally:
        os.close(file)
