"""Processes as `/proc` shows them: who runs, since when, with which command line.

What belongs here: reading the files of one process, each as plain data. A process that ends while it is read gives
None or is left out; nothing is cached.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _machinefiles

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk-sleep",
    "T": "stopped",
    "t": "tracing-stop",
    "Z": "zombie",
    "X": "dead",
    "x": "dead",
    "K": "wake-kill",
    "W": "waking",
    "P": "parked",
    "I": "idle",
}
"""The kernel's letter for the state of a process -> its word."""

TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks of the processes' clocks in a second."""


class Process(NamedTuple):
    """One line of `/proc/PID/stat`; times are in seconds, `started` is seconds after boot."""

    pid: int
    name: str
    state: str
    ppid: int
    terminal: int
    user: float
    system: float
    children_user: float
    children_system: float
    nice: int
    threads: int
    started: float
    cpu: int
    iowait: float


def pids() -> list[int]:
    """The ids of all processes, sorted."""
    return sorted(int(name) for name in _machinefiles.names_in("/proc") if name.isdecimal())


def processes() -> Iterator[Process]:
    """All processes, by id."""
    for pid in pids():
        found = process(pid)
        if found is not None:
            yield found


def process(pid: int) -> Process | None:
    """One process, or None when there is none."""
    text = read(pid, "stat")
    # The name stands in parentheses, and may hold some itself.
    begin, end = text.find("("), text.rfind(")")
    rest = text[end + 2 :].split()
    if end < 0 or len(rest) < 37:
        return None
    name = text[begin + 1 : end]
    if len(name) >= 15:  # the kernel keeps 15 bytes; the command line may have all of it
        first = os.path.basename((cmdline(pid) or [""])[0])
        name = first if first.startswith(name) else name
    times = [int(rest[place]) / TICKS for place in (11, 12, 13, 14)]
    return Process(
        pid=pid,
        name=name,
        state=STATES.get(rest[0], rest[0]),
        ppid=int(rest[1]),
        terminal=int(rest[4]),
        user=times[0],
        system=times[1],
        children_user=times[2],
        children_system=times[3],
        nice=int(rest[16]),
        threads=int(rest[17]),
        started=int(rest[19]) / TICKS,
        cpu=int(rest[36]),
        iowait=int(rest[39]) / TICKS if len(rest) > 39 else 0.0,
    )


def cmdline(pid: int) -> list[str]:
    """The words of the command line; none for a thread of the kernel."""
    text = read(pid, "cmdline")
    if not text:
        return []
    words = text.removesuffix("\0").split("\0")
    # A process that writes its title over its arguments leaves spaces between the words.
    return text.rstrip("\0 ").split(" ") if len(words) == 1 and " " in words[0] else words


def status(pid: int) -> dict[str, str]:
    """The rows of `/proc/PID/status`; none when there is no such process."""
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", read(pid, "status"), re.MULTILINE))


def uid(pid: int) -> int | None:
    """The real user id, or None when there is no such process."""
    row = status(pid).get("Uid", "").split()
    return int(row[0]) if row else None


def username(pid: int) -> str | None:
    """The name of the real user, or the number of one without a name; None when there is no such process."""
    import pwd

    number = uid(pid)
    if number is None:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def command(pid: int, name: str) -> str:
    """The command line in one text, or the name in brackets where there is none, as ps shows it."""
    return " ".join(cmdline(pid)) or f"[{name}]"


def booted_at() -> int:
    """When the machine was started, in seconds since 1970. Raises CommandExecutionError."""
    match = re.search(r"^btime (\d+)$", _machinefiles.read("/proc/stat"), re.MULTILINE)
    if match is None:
        raise CommandExecutionError("/proc/stat does not say when this machine was started.")
    return int(match[1])


def read(pid: int, name: str) -> str:
    """A file of a process; an empty text when the process or the right to read is not there."""
    try:
        return _machinefiles.read(f"/proc/{pid}/{name}")
    except CommandExecutionError:
        return ""
