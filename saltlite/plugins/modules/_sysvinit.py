"""Init scripts and the links that start them: the mechanics behind `service` without systemd.

What belongs here: which scripts there are, which a run level starts, running one action of one script.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Callable, Iterable
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _programs

SCRIPTS = "etc/init.d"

_NOT_SERVICES = re.compile(r"README|functions|skeleton|rcS?|.*\.(?:dpkg-\w+|rpm\w+|bak|sh~)|.*~|\..*")
_START = re.compile(r"S\d\d(.+)", re.ASCII)
_GLOB = re.compile(r"[*?]|\[.+\]")
_ACTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def service_name(name: Any) -> str:
    """The name as text, or SaltInvocationError for what cannot be the name of an init script."""
    return _programs.name(name, "service", without="/")


def scripts(root: str | None = None) -> list[str]:
    """The names of all init scripts that can be run, sorted."""
    folder = os.path.join(root or "/", SCRIPTS)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandExecutionError(f"{folder} cannot be read: {error.strerror}.") from error
    return sorted(one for one in names if not _NOT_SERVICES.fullmatch(one) and _is_script(os.path.join(folder, one)))


def runlevel(otherwise: str) -> str:
    """The run level of this machine; `otherwise` where nothing knows it, as in containers."""
    try:
        words = _programs.run(["runlevel"]).stdout.split()
    except CommandNotFoundError:
        return otherwise
    return words[1] if len(words) == 2 and words[1] in {"S", *"0123456"} else otherwise


def started(level: str, root: str | None = None) -> set[str]:
    """The names of the scripts that the run level starts, and those started before it."""
    found: set[str] = set()
    for folder in ("etc/rcS.d", f"etc/rc{level}.d", f"etc/rc.d/rc{level}.d"):
        path = os.path.join(root or "/", folder)
        if os.path.isdir(path):
            found.update(match[1] for each in os.listdir(path) if (match := _START.fullmatch(each)))
    return found


def act(name: Any, action: str) -> bool:
    """Run one action of an init script; CommandExecutionError with its words when it fails."""
    service = service_name(name)
    if not _ACTION.fullmatch(action):
        raise SaltInvocationError(f"{action!r} is not the action of an init script.")
    done = _run(service, action)
    if done.retcode:
        raise CommandExecutionError(f"Service '{service}' failed to {action}: {done.reason()}")
    return True


def statuses(name: Any, every: Callable[[], Iterable[str]]) -> bool | dict[str, bool]:
    """Whether the service runs, as its own script tells; by name for a glob, which `every` has the names for."""
    if not is_glob(name):
        return _run(service_name(name), "status").retcode == 0
    found = fnmatch.filter(every(), str(name))
    return {one: _run(one, "status").retcode == 0 for one in found}


def is_glob(name: Any) -> bool:
    """Whether the name stands for several."""
    return _GLOB.search(str(name)) is not None


def _run(service: str, action: str) -> _programs.Ended:
    program = shutil.which("service")
    if program is not None:
        return _programs.run([program, service, action])
    script = os.path.join("/", SCRIPTS, service)
    if not _is_script(script):
        raise CommandExecutionError(f"There is no service '{service}' on this minion")
    return _programs.run([script, action])


def _is_script(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
