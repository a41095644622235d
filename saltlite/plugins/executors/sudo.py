"""Run the function as the user ``sudo_user``, with the program sudo.

A process of that user loads and calls the function with the grains and the pillar of this minion. The call is passed on
stdin, so no argument appears on a command line. All options come from the configuration; callers can set none. In that
process ``salt://`` is not available, and modules load only from folders that the user can read.

A minion that runs as root needs nothing else. Another user needs a rule in sudoers(5) that lets it run the minion's
Python as ``sudo_user`` without a password. ``sudo_user`` must be able to read this Python and saltlite.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       sudo
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

import saltlite
from saltlite.decorators import note
from saltlite.errors import CommandExecutionError
from saltlite.model.execution import RETURNED_NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __context__, __grains__, __opts__, __pillar__
    from saltlite.plugins.executors import Function, Values

SAFE_OPTS: dict[str, type] = {}
FOR_RESOURCES = False

END_GRACE_S = 1.0
"""Seconds to wait for the process to end after SIGTERM."""
ERRORS_SHOWN = 1000
"""Characters of stderr in an error message."""


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if not __opts__.get("sudo_user"):
        return False, "option sudo_user of this minion is not set"
    if shutil.which("sudo") is None:
        return False, "there is no program sudo on this minion"
    return True


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> Any:
    """Have the user call the function; return the result and pass on its return code and notes."""
    if isinstance(func, str):
        return None
    user = str(opts["sudo_user"])
    if _is_me(user):
        value = func(*args, **kwargs)
        return RETURNED_NONE if value is None else value
    report = _report_of(user, _packed(opts, data, args, kwargs))
    for sentence in report["warnings"]:
        note(sentence)
    if report["retcode"]:
        __context__["retcode"] = report["retcode"]
    return RETURNED_NONE if report["value"] is None else report["value"]


def _is_me(user: str) -> bool:
    try:
        return pwd.getpwnam(user).pw_uid == os.geteuid()
    except KeyError:
        raise CommandExecutionError(f"The user {user!r} of the option sudo_user does not exist.") from None


def _packed(opts: Values, data: Values, args: Sequence[Any], kwargs: Values) -> bytes:
    order = {
        "opts": dict(opts),
        "grains": dict(__grains__),
        "pillar": dict(__pillar__),
        "fun": data["fun"],
        "args": list(args),
        "kwargs": dict(kwargs),
        "jid": data["jid"],
        "user": data["user"],
    }
    packed: bytes = msgpack.packb(order, default=str)
    return packed


def _report_of(user: str, order: bytes) -> dict[str, Any]:
    """Return the answer of the user's process."""
    program = os.path.join(os.path.dirname(saltlite.__file__), "minion", "jobs", "stdinjob.py")
    argv = ["sudo", "-n", "-H", "-u", user, "--", sys.executable, "-I", program]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", close_fds=True
    )
    try:
        out, errors = process.communicate(order)
    finally:
        if process.poll() is None:
            _end(process)
    try:
        report = msgpack.unpackb(out, strict_map_key=False)
        return {"value": report["value"], "retcode": int(report["retcode"]), "warnings": list(report["warnings"])}
    except (ValueError, TypeError, KeyError, msgpack.UnpackException):
        text = errors.decode(errors="replace").strip()[-ERRORS_SHOWN:]
        raise CommandExecutionError(
            f"{user} could not call {os.path.basename(sys.executable)} by sudo (exit status {process.returncode})"
            + (f": {text}" if text else "")
        ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End sudo, which passes SIGTERM on to its child."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(END_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
