"""
Append returns and events to a file, one JSON object a line.

The settings are in ``returner_config: {json_file: {...}}`` of the master:

``path``
    Required, absolute. The master's ``user`` must be able to create files beside it, as in the master's ``data_dir``.
    Under systemd the unit must be allowed to write to the folder.
``max_size``
    MiB after which a new file begins; default 100.
``keep``
    How many older files are kept as ``path.1`` (the newest), ``path.2`` ...; default 5.
``fsync``
    ``always`` (default): lines are on disk before they count as delivered. ``never`` leaves that to the system.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.returners._plain import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __opts__

MIB = 1024 * 1024
_TAIL = 64 * 1024


def returner(ret: dict[str, Any]) -> None:
    """Append one return.

    CLI Example: ``saltlite '*' test.ping --return json_file``
    """
    return_many([ret])


def return_many(rets: Sequence[dict[str, Any]]) -> None:
    """Append these returns, with one sync for all of them.

    CLI Example: ``saltlite '*' test.ping --return json_file``
    """
    _append(rets)


def event_return(events: Sequence[dict[str, Any]]) -> None:
    """Append these events.

    CLI Example: ``saltlite-run event.send app/released``
    """
    _append(events)


def _append(records: Sequence[dict[str, Any]]) -> None:
    settings = __opts__["returner_config"].get("json_file") or {}
    path = str(settings.get("path") or "")
    if not os.path.isabs(path):
        raise CommandExecutionError("returner_config: json_file needs an absolute path")
    lines = b"".join(json.dumps(plain(record), ensure_ascii=False).encode() + b"\n" for record in records)
    try:
        _rotate(path, int(settings.get("max_size", 100)) * MIB, int(settings.get("keep", 5)))
        _write(path, lines, sync=settings.get("fsync", "always") != "never")
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be written: {error.strerror}") from error


def _write(path: str, lines: bytes, *, sync: bool) -> None:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        before = _drop_torn_line(fd)
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if sync:
                os.fsync(fd)
        except OSError:
            # The whole batch is sent again, so a partial write would be duplicated.
            with contextlib.suppress(OSError):
                os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)


def _drop_torn_line(fd: int) -> int:
    """Cut off an incomplete last line of a writer that died; return the new length."""
    size = os.fstat(fd).st_size
    end = size
    while end:
        begin = max(0, end - _TAIL)
        found = os.pread(fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    if end != size:
        os.ftruncate(fd, end)
    return end


def _rotate(path: str, most: int, keep: int) -> None:
    try:
        if os.stat(path).st_size < most:
            return
    except FileNotFoundError:
        return
    for number in range(keep - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}.{number}", f"{path}.{number + 1}")
    if keep > 0:
        os.rename(path, f"{path}.1")
    else:
        os.unlink(path)
