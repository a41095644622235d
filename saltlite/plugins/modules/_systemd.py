"""systemctl and its words: the mechanics behind `service` where systemd runs the machine.

What belongs here: names of units, running systemctl in a scope of its own, reading what it prints, unit files on disk.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs

BOOTED = "/run/systemd/system"
"""The folder that is there exactly when systemd is the first process (sd_booted(3))."""

TYPES = ("service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer")
"""Types of units that `service` tells of."""

UNIT_FOLDERS = ("lib/systemd/system", "usr/lib/systemd/system", "etc/systemd/system")

MINION = "saltlite-minion.service"

ACTIVE = frozenset({"active", "reloading", "refreshing"})
"""States in which `systemctl is-active` calls a unit active."""

_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,255}", re.ASCII)
_LISTS = frozenset({"Before", "After", "Wants"})


def booted() -> bool:
    """Whether systemd runs this machine."""
    return os.path.isdir(BOOTED)


def unit(name: Any) -> str:
    """The name of a unit, with `.service` where it has no type. Raises SaltInvocationError for what is none."""
    text = _programs.name(name, "unit", without="/")
    if not _UNIT.fullmatch(text):
        raise SaltInvocationError(f"{text!r} is not the name of a unit.")
    return text if text.rpartition(".")[0] and text.rpartition(".")[2] in TYPES else f"{text}.service"


def short(unit_name: str) -> str | None:
    """The name by which `service` tells of a unit; None for a type that it does not tell of."""
    stem, _, kind = unit_name.rpartition(".")
    if not stem or kind not in TYPES:
        return None
    return stem if kind == "service" else unit_name


def is_template(name: str) -> bool:
    """Whether the name is that of a template: units are made of it, and it cannot run itself."""
    return unit(name).partition(".")[0].endswith("@")


def systemctl(arguments: Sequence[str], units: Iterable[str] = (), *, root: str | None = None) -> _programs.Ended:
    """Run systemctl, on the files below `root` where one is given."""
    place = [] if root is None else [f"--root={root}"]
    return _programs.run(["systemctl", "--no-pager", "--no-ask-password", *place, *arguments, "--", *units])


def change(arguments: Sequence[str], unit_name: str, *, scope: bool, root: str | None = None) -> None:
    """Run systemctl on one unit; raises CommandExecutionError with its words when it fails.

    With `scope` it gets a control group of its own, so that it goes on when the minion's is ended meanwhile.
    """
    place = [] if root is None else [f"--root={root}"]
    argv = ["systemctl", "--no-pager", "--no-ask-password", *place, *arguments, "--", unit_name]
    if scope and root is None and booted() and shutil.which("systemd-run"):
        argv = ["systemd-run", "--scope", "--quiet", "--no-ask-password", *argv]
    done = _programs.run(argv)
    if done.retcode:
        raise CommandExecutionError(f"systemctl {arguments[-1]} {unit_name} failed: {done.reason()}")


def own_unit(group_file: str = "/proc/self/cgroup") -> str:
    """The unit in whose control group this process is; empty where it is in none."""
    try:
        with open(group_file, encoding="ascii", errors="replace") as stream:
            parts = [part for line in stream for part in line.strip().split("/") if part.endswith(".service")]
    except OSError:
        return ""
    return parts[-1] if parts else ""


def properties(text: str) -> dict[str, Any]:
    """What `systemctl show` prints of one unit: texts, lists of units, and dicts for programs."""
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
    """Name and state of every unit file, as `list-unit-files` tells them."""
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
    """Whether somebody has put a unit of that name into `/etc`, which systemd may not have read yet."""
    return os.access(os.path.join("/etc/systemd/system", unit_name), os.R_OK)
