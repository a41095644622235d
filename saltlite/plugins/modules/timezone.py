"""The time zone of this machine, and whether its hardware clock is in UTC.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       hwclock or timedatectl, to set the hardware clock
:platform:      Linux
"""

from __future__ import annotations

import datetime as dates
import os
import re
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

# The C library keeps the zone that it has read.
__own_process__ = ("set_zone",)

_ZONES = "/usr/share/zoneinfo"
_LOCALTIME = "/etc/localtime"


def get_zone() -> str:
    """The time zone, such as ``Europe/Berlin``.

    CLI Example: ``saltlite '*' timezone.get_zone``
    """
    try:
        link = os.readlink(_machinefiles.place(_LOCALTIME))
    except OSError:
        link = ""
    marker = f"{_ZONES}/"
    if marker in link or "zoneinfo/" in link:
        return link.partition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    words = _machinefiles.read_if_there("/etc/timezone").split()
    return words[0] if words else _zone_by_content()


def get_zonecode() -> str:
    """The current abbreviation of the time zone, such as ``CET``.

    CLI Example: ``saltlite '*' timezone.get_zonecode``
    """
    return _now().strftime("%Z")


def get_offset() -> str:
    """The current offset of the time zone from UTC, such as ``+0100``.

    CLI Example: ``saltlite '*' timezone.get_offset``
    """
    return _now().strftime("%z")


def set_zone(timezone: str, test: bool = False) -> bool:
    """Set the time zone. ``test=True`` only checks that it exists.

    CLI Example: ``saltlite '*' timezone.set_zone Europe/Berlin``
    """
    zone = _checked(timezone)
    if test:
        return True
    place = _machinefiles.place(_LOCALTIME)
    fresh = f"{place}.saltlite-{os.getpid()}"
    try:
        # The new link is renamed over the old one, so a zone is always set.
        os.symlink(f"{_ZONES}/{zone}", fresh)
        os.replace(fresh, place)
    except OSError as error:
        if os.path.lexists(fresh):
            os.unlink(fresh)
        raise CommandExecutionError(f"{_LOCALTIME} cannot be changed: {error.strerror}.") from error
    for path, expression, line in (
        ("/etc/timezone", r"(?s).*", f"{zone}\n"),
        ("/etc/sysconfig/clock", r"(?m)^(ZONE|TIMEZONE)=.*$", rf'\1="{zone}"'),
    ):
        text = _machinefiles.read_if_there(path)
        changed = re.sub(expression, line, text, count=1)
        if text and changed != text:
            _machinefiles.replace(path, changed)
    return True


def zone_compare(timezone: str) -> bool:
    """Whether this machine has that time zone, possibly under another name.

    CLI Example: ``saltlite '*' timezone.zone_compare Europe/Berlin``
    """
    zone = _checked(timezone)
    return zone == get_zone() or _bytes(f"{_ZONES}/{zone}") == _bytes(_LOCALTIME)


def get_hwclock() -> str:
    """The setting of the hardware clock: ``UTC`` or ``localtime``.

    CLI Example: ``saltlite '*' timezone.get_hwclock``
    """
    lines = _machinefiles.read_if_there("/etc/adjtime").splitlines()
    return "localtime" if len(lines) > 2 and lines[2].strip() == "LOCAL" else "UTC"


def set_hwclock(clock: str, test: bool = False) -> bool:
    """Keep the hardware clock in ``UTC`` or ``localtime``.

    CLI Example: ``saltlite '*' timezone.set_hwclock UTC``
    """
    if str(clock).lower() not in {"utc", "localtime"}:
        raise SaltInvocationError("localtime and UTC are the only permitted values")
    local = str(clock).lower() == "localtime"
    if test:
        return True
    if _programs.find("timedatectl") and os.path.isdir(_machinefiles.place("/run/systemd/system")):
        _programs.output(["timedatectl", "set-local-rtc", "true" if local else "false"])
    else:
        _programs.output(["hwclock", "--systohc", "--localtime" if local else "--utc"])
    return True


def _now() -> dates.datetime:
    """Now, by the current zone file: a long-running process may have cached another zone."""
    import zoneinfo

    try:
        with open(_machinefiles.place(_LOCALTIME), "rb") as stream:
            return dates.datetime.now(zoneinfo.ZoneInfo.from_file(stream))
    except (OSError, ValueError):  # no file means UTC to the C library too
        return dates.datetime.now(dates.UTC)


def _zone_by_content() -> str:
    mine = _bytes(_LOCALTIME)
    top = _machinefiles.place(_ZONES)
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in {"posix", "right"})
        for file in sorted(files):
            path = os.path.join(folder, file)
            if file[0].isupper() and mine and _bytes(f"{_ZONES}/{os.path.relpath(path, top)}") == mine:
                return os.path.relpath(path, top)
    raise CommandExecutionError(
        f"Unable to determine timezone: {_LOCALTIME} is neither a link nor a copy of a zone file."
    )


def _bytes(path: str) -> bytes | None:
    try:
        with open(_machinefiles.place(path), "rb") as stream:
            return stream.read()
    except OSError:
        return None


def _checked(timezone: Any) -> str:
    zone = str(timezone)
    parts = zone.split("/")
    if not all(re.fullmatch(r"[A-Za-z0-9_+.-]+", part) and part not in {".", ".."} for part in parts):
        raise SaltInvocationError(f"{zone!r} cannot be the name of a time zone.")
    if not os.path.isfile(_machinefiles.place(f"{_ZONES}/{zone}")):
        raise CommandExecutionError(f"Zone does not exist: {_ZONES}/{zone}")
    return zone
