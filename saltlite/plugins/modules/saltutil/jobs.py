"""The jobs that run on this minion, and what it keeps of those that have ended."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.ids import parse_jid
from saltlite.model.keptreturn import FOLDER, HEADER_BYTES, SUFFIX, digest_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

RECORD_BYTES_MAX = 64 * 1024
"""A larger file in the folder is not the minion's."""

KEPT_PART_MAX = 4 * 1024 * 1024
"""Bytes of a kept return in one answer, at most."""

_ANSWER_BYTES = 16 * 1024
"""What an answer takes beside the bytes of a kept return."""


__risk__ = {"kill_all_jobs": "kill-jobs", "term_all_jobs": "kill-jobs"}


def running() -> list[dict[str, Any]]:
    """
    The jobs that run now, without the one that asks: ``jid``, ``fun``, ``user``, ``pid`` and ``started``.

    CLI Example::

        saltlite '*' saltutil.running
    """
    folder = _folder()
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        record = _read(os.path.join(folder, name))
        if record and record["pid"] != os.getpid() and _leads_a_group(record["pid"]):
            found.append(record)
    return found


def is_running(fun: str) -> list[dict[str, Any]]:
    """
    The running jobs that have that function among theirs; globs work.

    CLI Example::

        saltlite '*' saltutil.is_running state.highstate
        saltlite '*' saltutil.is_running 'pkg.*'
    """
    return [
        record
        for record in running()
        if any(fnmatch.fnmatchcase(name, str(fun)) for name in str(record["fun"]).split(","))
    ]


def find_job(jid: str) -> dict[str, Any]:
    """
    The running job with that jid, or an empty dict.

    CLI Example::

        saltlite '*' saltutil.find_job 20260131235959123456
    """
    wanted = _jid(jid)
    return next((record for record in running() if record["jid"] == wanted), {})


def signal_job(jid: str, sig: int | str) -> str:
    """
    Send a signal to the processes of a running job; an empty answer says that it does not run.

    CLI Example::

        saltlite '*' saltutil.signal_job 20260131235959123456 15
    """
    number = _signal_number(sig)
    record = find_job(jid)
    if not record:
        return ""
    strays = _outside_the_group(record["pid"])
    try:
        os.killpg(record["pid"], number)
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    except ProcessLookupError:
        return ""
    except PermissionError as error:
        text = f"This minion may not signal job {jid} at pid {record['pid']}: it runs as another user."
        raise CommandExecutionError(text) from error
    return f"Signal {number} sent to job {record['jid']} at pid {record['pid']}"


def term_job(jid: str) -> str:
    """
    End a running job with SIGTERM.

    CLI Example::

        saltlite '*' saltutil.term_job 20260131235959123456
    """
    return signal_job(jid, signal.SIGTERM)


def kill_job(jid: str) -> str:
    """
    End a running job with SIGKILL.

    CLI Example::

        saltlite '*' saltutil.kill_job 20260131235959123456
    """
    return signal_job(jid, signal.SIGKILL)


def term_all_jobs() -> list[str]:
    """
    End all running jobs but this one with SIGTERM; what ``term_job`` says of each.

    CLI Example::

        saltlite '*' saltutil.term_all_jobs
    """
    return [signal_job(record["jid"], signal.SIGTERM) for record in running()]


def kill_all_jobs() -> list[str]:
    """
    End all running jobs but this one with SIGKILL; what ``kill_job`` says of each.

    CLI Example::

        saltlite '*' saltutil.kill_all_jobs
    """
    return [signal_job(record["jid"], signal.SIGKILL) for record in running()]


def kept_return(jid: str, offset: int = 0, size: int = KEPT_PART_MAX) -> dict[str, Any]:
    """
    A part of a return that was too large to travel, for ``saltlite job fetch``: ``data`` from ``offset`` on, at most
    ``size`` bytes, with the ``size`` of all of it and its ``sha256`` in hexadecimal digits. All parts together are the
    return, encoded with msgpack. Whoever may run this function can read the returns of other people's jobs.

    CLI Example::

        saltlite '*' saltutil.kept_return 20260131235959123456 0 1024
    """
    if not isinstance(offset, int) or not isinstance(size, int) or offset < 0 or size < 1:
        raise SaltInvocationError("offset and size are whole numbers of bytes, from 0 and from 1 on.")
    wanted = _jid(jid)
    path = os.path.join(_data_dir(), FOLDER, wanted + SUFFIX)
    part = min(size, KEPT_PART_MAX, int(__opts__.get("return_max", KEPT_PART_MAX)) - _ANSWER_BYTES)
    try:
        with open(path, "rb") as stream:
            digest = digest_of(stream.read(HEADER_BYTES))
            total = os.fstat(stream.fileno()).st_size - HEADER_BYTES
            data = os.pread(stream.fileno(), part, HEADER_BYTES + offset)
    except FileNotFoundError as error:
        raise CommandExecutionError(
            f"This minion keeps no return of job {wanted}: it was not too large to travel, or it made room for "
            "later ones (kept_returns_max)."
        ) from error
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"The kept return {path} cannot be read: {error}") from error
    return {"size": total, "sha256": digest.hex(), "data": data}


def _folder() -> str:
    return os.path.join(_data_dir(), "running")


def _data_dir() -> str:
    if "data_dir" not in __opts__:
        raise CommandExecutionError("This call has no minion behind it, so there are no running jobs to look at.")
    return str(__opts__["data_dir"])


def _outside_the_group(leader: int) -> list[int]:
    """The descendants of that process which have left its group."""
    found, ahead = [], [leader]
    while ahead:
        for pid in _children(ahead.pop()):
            ahead.append(pid)
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) != leader:
                    found.append(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                found += map(int, stream.read().split())
    return found


def _read(path: str) -> dict[str, Any] | None:
    """The record of one job, or None: it may have ended since the listing, or the file is none of ours."""
    try:
        with open(path, "rb") as stream:
            record = json.loads(stream.read(RECORD_BYTES_MAX))
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("pid"), int) or record["pid"] < 2:
        return None
    keys = ("jid", "fun", "user", "pid", "started")
    return {key: record[key] for key in keys} if all(key in record for key in keys) else None


def _leads_a_group(pid: int) -> bool:
    """Whether that process lives and leads its group, as a job's does; a reused pid almost never does."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getpgid(pid) == pid
    return False


def _jid(text: Any) -> str:
    try:
        return parse_jid(str(text))
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _signal_number(sig: int | str) -> int:
    try:
        name = str(sig)
        return int(signal.Signals(int(name)) if name.isdecimal() else signal.Signals["SIG" + name.removeprefix("SIG")])
    except (ValueError, KeyError) as error:
        raise SaltInvocationError(f"{sig!r} is not a signal: 15, TERM and SIGTERM all name one.") from error
