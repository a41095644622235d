"""systemctl and init scripts, as the providers of `service` use them.

The first part names units, runs systemctl and reads its output and the unit files; the second lists init scripts and
runlevel links, and runs an action of a script.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _programs

BOOTED = "/run/systemd/system"
"""This folder exists exactly if systemd is the init process (sd_booted(3))."""

TYPES = ("service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer")
"""Types of units that `service` manages."""

UNIT_FOLDERS = ("lib/systemd/system", "usr/lib/systemd/system", "etc/systemd/system")

MINION = "saltlite-minion.service"

ACTIVE = frozenset({"active", "reloading", "refreshing"})
"""States in which `systemctl is-active` calls a unit active."""

_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,255}", re.ASCII)
_LISTS = frozenset({"Before", "After", "Wants"})


def booted() -> bool:
    """Whether this machine was booted with systemd."""
    return os.path.isdir(BOOTED)


def unit(name: Any) -> str:
    """The name of a unit, `.service` if it has no type. Raises SaltInvocationError for an invalid name."""
    text = _programs.name(name, "unit", without="/")
    if not _UNIT.fullmatch(text):
        raise SaltInvocationError(f"{text!r} is not the name of a unit.")
    return text if text.rpartition(".")[0] and text.rpartition(".")[2] in TYPES else f"{text}.service"


def short(unit_name: str) -> str | None:
    """The name that `service` uses for a unit; None for types of units that it does not manage."""
    stem, _, kind = unit_name.rpartition(".")
    if not stem or kind not in TYPES:
        return None
    return stem if kind == "service" else unit_name


def is_template(name: str) -> bool:
    """Whether the name is that of a template, which cannot run itself."""
    return unit(name).partition(".")[0].endswith("@")


def systemctl(arguments: Sequence[str], units: Iterable[str] = (), *, root: str | None = None) -> _programs.Ended:
    """Run systemctl, on the unit files below `root` if it is given."""
    return _programs.run(_systemctl(arguments, units, root))


def change(arguments: Sequence[str], unit_name: str, *, scope: bool, root: str | None = None) -> None:
    """Run systemctl on one unit. Raises CommandExecutionError with its reason if it fails.

    With `scope` it gets its own control group, so that it continues if the minion's group is killed.
    """
    argv = _systemctl(arguments, [unit_name], root)
    if scope and root is None and booted() and shutil.which("systemd-run"):
        argv = ["systemd-run", "--scope", "--quiet", "--no-ask-password", *argv]
    done = _programs.run(argv)
    if done.retcode:
        raise CommandExecutionError(f"systemctl {arguments[-1]} {unit_name} failed: {done.reason()}")


def _systemctl(arguments: Sequence[str], units: Iterable[str], root: str | None) -> list[str]:
    place = [] if root is None else [f"--root={root}"]
    return ["systemctl", "--no-pager", "--no-ask-password", *place, *arguments, "--", *units]


def own_unit(group_file: str = "/proc/self/cgroup") -> str:
    """The unit whose control group contains this process; an empty string if there is none."""
    try:
        with open(group_file, encoding="ascii", errors="replace") as stream:
            parts = [part for line in stream for part in line.strip().split("/") if part.endswith(".service")]
    except OSError:
        return ""
    return parts[-1] if parts else ""


def properties(text: str) -> dict[str, Any]:
    """The output of `systemctl show` for one unit: strings, lists of units, and dicts for programs."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if not equals:
            continue
        if value.startswith("{"):
            pairs = (part.partition("=") for part in value.strip("{} ").split(" ; "))
            found[key] = {name.strip(): given.strip() for name, _, given in pairs}
        else:
            found[key] = value.split() if key in _LISTS else value
    return found


def unit_file_states(root: str | None) -> Iterator[tuple[str, str]]:
    """Name and state of every unit file, from `list-unit-files`."""
    done = systemctl(["--full", "--no-legend", "list-unit-files"], root=root)
    if done.retcode:
        raise CommandExecutionError(f"The unit files cannot be listed: {done.reason()}")
    for line in done.stdout.splitlines():
        words = line.split()
        name = short(words[0]) if len(words) >= 2 else None
        if name is not None:
            yield name, words[1]


def unit_files(root: str | None) -> set[str]:
    """The names of all units that have a file."""
    found: set[str] = set()
    for folder in UNIT_FOLDERS:
        path = os.path.join(root or "/", folder)
        # On a merged system `/lib` is a link: the files are listed once.
        if os.path.isdir(path) and not os.path.islink(path):
            found.update(name for each in os.listdir(path) if (name := short(each)) is not None)
    return found


def missing_unit_is_in_etc(unit_name: str) -> bool:
    """Whether `/etc` has a file for a unit, which systemd may not have read yet."""
    return os.access(os.path.join("/etc/systemd/system", unit_name), os.R_OK)


# --- init scripts


SCRIPTS = "etc/init.d"

_NOT_SERVICES = re.compile(r"README|functions|skeleton|rcS?|.*\.(?:dpkg-\w+|rpm\w+|bak|sh~)|.*~|\..*")
_START = re.compile(r"S\d\d(.+)", re.ASCII)
_GLOB = re.compile(r"[*?]|\[.+\]")
_ACTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def service_name(name: Any) -> str:
    """The name of an init script. Raises SaltInvocationError if it is invalid."""
    return _programs.name(name, "service", without="/")


def scripts(root: str | None = None) -> list[str]:
    """The names of all executable init scripts, sorted."""
    folder = os.path.join(root or "/", SCRIPTS)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CommandExecutionError(f"{folder} cannot be read: {error.strerror}.") from error
    return sorted(one for one in names if not _NOT_SERVICES.fullmatch(one) and _is_script(os.path.join(folder, one)))


def runlevel(otherwise: str) -> str:
    """The current runlevel; `otherwise` if it is unknown, as in containers."""
    try:
        words = _programs.run(["runlevel"]).stdout.split()
    except CommandNotFoundError:
        return otherwise
    return words[1] if len(words) == 2 and words[1] in {"S", *"0123456"} else otherwise


def started(level: str, root: str | None = None) -> set[str]:
    """The names of the scripts that the runlevel starts, including those of rcS."""
    found: set[str] = set()
    for folder in ("etc/rcS.d", f"etc/rc{level}.d", f"etc/rc.d/rc{level}.d"):
        path = os.path.join(root or "/", folder)
        if os.path.isdir(path):
            found.update(match[1] for each in os.listdir(path) if (match := _START.fullmatch(each)))
    return found


def act(name: Any, action: str) -> bool:
    """Run an action of an init script. Raises CommandExecutionError with its reason if it fails."""
    service = service_name(name)
    if not _ACTION.fullmatch(action):
        raise SaltInvocationError(f"{action!r} is not the action of an init script.")
    done = _run(service, action)
    if done.retcode:
        raise CommandExecutionError(f"Service '{service}' failed to {action}: {done.reason()}")
    return True


def statuses(name: Any, every: Callable[[], Iterable[str]]) -> bool | dict[str, bool]:
    """Whether a service runs, according to its init script; by name for a glob over the names from `every`."""
    if not is_glob(name):
        return _run(service_name(name), "status").retcode == 0
    found = fnmatch.filter(every(), str(name))
    return {one: _run(one, "status").retcode == 0 for one in found}


def is_glob(name: Any) -> bool:
    """Whether the name is a glob."""
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
