"""`salt.utils.systemd`: whether systemd runs here, and what it can do.

`context` may be a module's `__context__`, which then keeps the answer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
from collections.abc import Callable
from typing import Any, TypeVar

from saltlite.errors import SaltInvocationError
from saltlite.salt.utils.json import find_json
from saltlite.salt.utils.path import which

log = logging.getLogger(__name__)

_SCOPES_SINCE = 205
_SUFFIX = ".service"
_NO_BUS = "Failed to get D-Bus connection: No such file or directory"
Answer = TypeVar("Answer")


def _kept(context: Any, name: str, find: Callable[[], Answer]) -> Answer:
    """What the context has of that name, or what `find` returns. Raises SaltInvocationError for another context."""
    if context is not None and not hasattr(context, "setdefault"):
        raise SaltInvocationError("context must be a dictionary if passed")
    key = f"salt.utils.systemd.{name}"
    if context is not None and key in context:
        known: Answer = context[key]
        return known
    found = find()
    if context is not None and found is not None:
        context[key] = found
    return found


def booted(context: Any = None) -> bool:
    """Whether systemd started this system."""
    return _kept(context, "booted", lambda: os.path.exists("/run/systemd/system"))


def offline(context: Any = None) -> Any:
    """The path of systemctl where systemd did not start this system, as in a chroot; false else."""
    return _kept(context, "offline", lambda: not booted(context) and which("systemctl"))


def status(context: Any = None) -> bool:
    """Whether systemctl reaches systemd."""
    return _kept(context, "status", lambda: _NO_BUS not in _systemctl("status").stderr)


def version(context: Any = None) -> int | None:
    """The version of systemd, or None."""
    return _kept(context, "version", _version)


def _version() -> int | None:
    try:
        text = _systemctl("--version").stdout
    except OSError as error:
        log.error("Unable to determine systemd version: %s", error)
        return None
    found = re.search(r"\w+ ([0-9]+)", text.partition("\n")[0])
    if found is None:
        log.error("Unable to determine systemd version from systemctl --version, output follows:\n%s", text)
        return None
    return int(found[1])


def _systemctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, errors="replace", check=False)


def has_scope(context: Any = None) -> bool:
    """Whether `systemd-run --scope` works here."""
    if not booted(context):
        return False
    known = version(context)
    return known is not None and status(context) and known >= _SCOPES_SINCE


def pid_to_service(pid: int) -> str | None:
    """The name of the service that a process belongs to, or None."""
    with contextlib.suppress(ValueError, OSError):
        done = _systemctl("--output", "json", "status", str(pid))
        name = find_json(done.stdout).get("_SYSTEMD_UNIT") if done.returncode == 0 else None
        return name.removesuffix(_SUFFIX) if name and name.endswith(_SUFFIX) else None
    return None
