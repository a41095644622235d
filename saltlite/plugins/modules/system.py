"""Shutdown and reboot, and the clock and the description of the machine.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       shutdown, or halt, poweroff and reboot
:platform:      Linux
"""

from __future__ import annotations

import datetime as dates
import os
import re
import time
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

__risk__ = {
    "halt": "shutdown",
    "init": "shutdown",
    "poweroff": "shutdown",
    "reboot": "shutdown",
    "shutdown": "shutdown",
}

_DATES = ("%Y-%m-%d", "%m-%d-%Y", "%m-%d-%y", "%m/%d/%Y", "%m/%d/%y", "%Y/%m/%d")
_TIMES = ("%I:%M:%S %p", "%I:%M %p", "%H:%M:%S", "%H:%M")
_WHEN = re.compile(r"now|\+?\d{1,6}|\d{1,2}:\d{2}")
_ESCAPED = {"n": "\n", "t": "\t"}
_DESCRIPTION = re.compile(r"""^\s*PRETTY_HOSTNAME=(["']?)(.*)\1\s*$""")


def halt() -> str:
    """Halt the machine without powering it off.

    CLI Example: ``saltlite '*' system.halt``
    """
    return _programs.output(["halt"]).strip()


def init(runlevel: str) -> str:
    """Change the runlevel of a machine with a SysV init.

    CLI Example: ``saltlite '*' system.init 3``
    """
    if not re.fullmatch(r"[0-9sSqQuUa-cA-C]", str(runlevel)):
        raise SaltInvocationError(f"{runlevel!r} is not a runlevel.")
    return _programs.output(["init", str(runlevel)]).strip()


def poweroff() -> str:
    """Power off the machine.

    CLI Example: ``saltlite '*' system.poweroff``
    """
    return _programs.output(["poweroff"]).strip()


def reboot(at_time: str | int | None = None) -> str:
    """Reboot the machine, at once or at a time: in this many minutes, or at HH:MM.

    CLI Example::

        saltlite '*' system.reboot
        saltlite '*' system.reboot 5
    """
    return _stop("-r", "reboot", at_time)


def shutdown(at_time: str | int | None = None) -> str:
    """Shut down the machine, at once or at a time: in this many minutes, or at HH:MM.

    CLI Example::

        saltlite '*' system.shutdown
        saltlite '*' system.shutdown 5
    """
    return _stop("-h", "poweroff", at_time)


def has_settable_hwclock() -> bool:
    """Return whether this machine has a hardware clock that the minion may set.

    CLI Example: ``saltlite '*' system.has_settable_hwclock``
    """
    return bool(_programs.find("hwclock")) and not _programs.run(["hwclock", "--test", "--systohc"]).retcode


def get_system_time(utc_offset: str | None = None) -> str:
    """Return the time, such as ``09:14:07 PM``, local or at an offset from UTC.

    CLI Example::

        saltlite '*' system.get_system_time
        saltlite '*' system.get_system_time -0500
    """
    return _now(utc_offset).strftime("%I:%M:%S %p")


def set_system_time(newtime: str, utc_offset: str | None = None, test: bool = False) -> bool:
    """Set the time, given as ``09:14:07 PM``, ``09:14 PM``, ``21:14:07`` or ``21:14``.

    CLI Example: ``saltlite '*' system.set_system_time '21:14'``
    """
    found = _parsed(newtime, _TIMES)
    return _set(utc_offset, {"hour": found.hour, "minute": found.minute, "second": found.second}, test=test)


def get_system_date_time(utc_offset: str | None = None) -> str:
    """Return date and time, such as ``2026-01-31 21:14:07``, local or at an offset from UTC.

    CLI Example::

        saltlite '*' system.get_system_date_time
        saltlite '*' system.get_system_date_time -0500
    """
    return _now(utc_offset).strftime("%Y-%m-%d %H:%M:%S")


def set_system_date_time(  # noqa: PLR0913, PLR0917 - Salt's signature
    years: int | None = None, months: int | None = None, days: int | None = None, hours: int | None = None,
    minutes: int | None = None, seconds: int | None = None, utc_offset: str | None = None, test: bool = False,
) -> bool:  # fmt: skip
    """Set the given parts of date and time; the others stay. ``test=True`` only validates.

    CLI Example: ``saltlite '*' system.set_system_date_time 2026 1 31 21 14 7 -0500``
    """
    names = ("year", "month", "day", "hour", "minute", "second")
    given = zip(names, (years, months, days, hours, minutes, seconds), strict=True)
    return _set(utc_offset, {name: int(value) for name, value in given if value is not None}, test=test)


def get_system_date(utc_offset: str | None = None) -> str:
    """Return the date, such as ``Sat 01/31/2026``, local or at an offset from UTC.

    CLI Example: ``saltlite '*' system.get_system_date``
    """
    return _now(utc_offset).strftime("%a %m/%d/%Y")


def set_system_date(newdate: str, utc_offset: str | None = None, test: bool = False) -> bool:
    """Set the date, given as ``2026-01-31``, ``01-31-2026``, ``01/31/2026``, ``01/31/26`` or ``2026/01/31``.

    CLI Example: ``saltlite '*' system.set_system_date '2026-01-31'``
    """
    found = _parsed(newdate, _DATES)
    return _set(utc_offset, {"year": found.year, "month": found.month, "day": found.day}, test=test)


def get_computer_desc() -> str | bool:
    """Return the description of this machine in /etc/machine-info; False if there is none.

    CLI Example: ``saltlite '*' system.get_computer_desc``
    """
    for line in reversed(_machinefiles.read_if_there("/etc/machine-info").splitlines()):
        match = _DESCRIPTION.match(line)
        if match:
            return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), match[2])
    return False


def set_computer_desc(desc: str, test: bool = False) -> bool:
    """Set the description of this machine in /etc/machine-info.

    CLI Example: ``saltlite '*' system.set_computer_desc "Michael's laptop"``
    """
    text = re.sub(r'(["\\$`])', r"\\\1", str(desc)).replace("\n", "\\n").replace("\t", "\\t")
    if "\0" in text:
        raise SaltInvocationError("A description cannot hold a NUL.")
    kept = [
        line for line in _machinefiles.read_if_there("/etc/machine-info").splitlines() if not _DESCRIPTION.match(line)
    ]
    if not test:
        lines = [*kept, f'PRETTY_HOSTNAME="{text}"']
        _machinefiles.replace("/etc/machine-info", "".join(f"{line}\n" for line in lines))
    return True


def get_computer_name() -> str:
    """Return the host name of this machine.

    CLI Example: ``saltlite '*' system.get_computer_name``
    """
    name: str = __salt__["network.get_hostname"]()
    return name


def set_computer_name(hostname: str, test: bool = False) -> bool:
    """Set the host name of this machine.

    CLI Example: ``saltlite '*' system.set_computer_name master.example.org``
    """
    done: bool = __salt__["network.mod_hostname"](hostname, test=test)
    return done


def _stop(flag: str, alone: str, at_time: str | int | None) -> str:
    when = str(at_time) if at_time else "now"
    if not _WHEN.fullmatch(when):
        raise SaltInvocationError(f"{at_time!r} is not a time: write minutes, HH:MM or `now`.")
    if when == "now" and not _programs.find("shutdown"):
        return _programs.output([alone]).strip()
    done = _programs.run(["shutdown", flag, when])
    if done.retcode:
        raise done.failure()
    return (done.stdout + done.stderr).strip()


def _now(utc_offset: str | None) -> dates.datetime:
    if utc_offset is None:
        return dates.datetime.now().astimezone()
    match = re.fullmatch(r"([+-]?)(\d\d)(\d\d)", str(utc_offset).strip("'\""))
    if match is None:
        raise SaltInvocationError(f"{utc_offset!r} is not an offset from UTC; write it as -0500.")
    away = dates.timedelta(hours=int(match[2]), minutes=int(match[3]))
    try:
        return dates.datetime.now(dates.timezone(-away if match[1] == "-" else away))
    except ValueError as error:
        raise SaltInvocationError(f"{utc_offset!r} is not an offset from UTC: {error}.") from error


def _parsed(text: Any, formats: tuple[str, ...]) -> dates.datetime:
    for form in formats:
        try:
            return dates.datetime.strptime(str(text), form)  # noqa: DTZ007 - parts of it, put into one with a zone
        except ValueError:
            continue
    raise SaltInvocationError(f"{text!r} is not written as one of: {', '.join(formats)}.")


def _set(utc_offset: str | None, parts: dict[str, Any], *, test: bool) -> bool:
    now = _now(utc_offset)
    try:
        # Without the current zone, because the new time may have another daylight-saving offset.
        wanted = (now if utc_offset is not None else now.replace(tzinfo=None)).replace(microsecond=0, **parts)
    except ValueError as error:
        raise SaltInvocationError(f"There is no such date and time: {error}.") from error
    if test:
        return True
    try:
        time.clock_settime(time.CLOCK_REALTIME, wanted.timestamp())
    except OSError as error:
        raise CommandExecutionError(f"The clock cannot be set: {os.strerror(error.errno or 0)}.") from error
    if has_settable_hwclock():
        _programs.output(["hwclock", "--systohc"])
    return True
