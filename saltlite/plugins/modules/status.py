"""Statistics of the running machine: load, memory, processors, disks, network, processes.

Everything is read from `/proc`, except for `w`, which runs the program w.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _proc, _programs
from saltlite.plugins.modules._machinefiles import number

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__, __pillar__, __salt__

__func_alias__ = {"time_": "time"}

_CPU_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_DISK_COLUMNS = (
    "major", "minor", "device", "reads_issued", "reads_merged", "sectors_read", "ms_spent_reading", "writes_completed",
    "writes_merged", "sectors_written", "ms_spent_writing", "io_in_progress", "ms_spent_in_io",
    "weighted_ms_spent_in_io",
)  # fmt: skip
_INTERFACE_COLUMNS = (
    "rx_bytes", "rx_packets", "rx_errs", "rx_drop", "rx_fifo", "rx_frame", "rx_compressed", "rx_multicast", "tx_bytes",
    "tx_packets", "tx_errs", "tx_drop", "tx_fifo", "tx_colls", "tx_carrier", "tx_compressed",
)  # fmt: skip


def procs() -> dict[str, dict[str, str]]:
    """Return all processes: ``{pid: {"user": name, "cmd": command line}}``.

    CLI Example: ``saltlite '*' status.procs``
    """
    found = {}
    for process in _proc.processes():
        user = _proc.username(process.pid)
        if user is not None:
            found[str(process.pid)] = {"user": user, "cmd": _proc.command(process.pid, process.name)}
    return found


def custom() -> dict[str, Any]:
    """Return the statistics that the minion's configuration or the pillar selects.

    An option ``status.FUNCTION.custom`` lists keys of ``status.FUNCTION``; a missing key has the value ``UNKNOWN``::

        status.cpustats.custom: [cpu, ctxt, btime, processes]

    CLI Example: ``saltlite '*' status.custom``
    """
    found: dict[str, Any] = {}
    for option, keys in {**__pillar__, **__opts__}.items():
        match = re.fullmatch(r"(status\.\w+)\.custom", str(option))
        if match is None or match[1] == "status.custom" or match[1] not in __salt__:
            continue
        values = __salt__[match[1]]()
        if isinstance(values, dict):
            found.update({key: values.get(key, "UNKNOWN") for key in keys})
    return found


def uptime() -> dict[str, Any]:
    """Return the uptime: ``seconds``, ``since_iso``, ``since_t``, ``days``, ``time`` and ``users``.

    CLI Example: ``saltlite '*' status.uptime``
    """
    import datetime
    import time

    seconds = int(float(_machinefiles.read("/proc/uptime").split()[0]))
    since = time.time() - seconds
    hours, minutes = divmod(seconds % 86400 // 60, 60)
    return {
        "seconds": seconds,
        "since_iso": datetime.datetime.fromtimestamp(since, datetime.UTC).replace(tzinfo=None).isoformat(),
        "since_t": int(since),
        "days": seconds // 86400,
        "time": f"{hours}:{minutes}",
        "users": len(_proc.logins()),
    }


def loadavg() -> dict[str, float]:
    """Return the load averages of 1, 5 and 15 minutes.

    CLI Example: ``saltlite '*' status.loadavg``
    """
    columns = _machinefiles.read("/proc/loadavg").split()
    return {"1-min": float(columns[0]), "5-min": float(columns[1]), "15-min": float(columns[2])}


def cpustats() -> dict[str, Any]:
    """Return the processor times since boot in ticks, with interrupts and context switches.

    CLI Example: ``saltlite '*' status.cpustats``
    """
    found: dict[str, Any] = {}
    for line in _machinefiles.read("/proc/stat").splitlines():
        name, *columns = line.split()
        values = [number(column) for column in columns]
        if name == "cpu":
            found[name] = dict(zip(_CPU_COLUMNS, values, strict=False))
        elif name in {"intr", "softirq"}:
            found[name] = {"total": values[0], "irqs" if name == "intr" else "softirqs": values[1:]}
        else:
            found[name] = values[0]
    return found


def meminfo() -> dict[str, dict[str, str]]:
    """Return memory statistics: ``{name: {"value": text, "unit": "kB"}}``; counts have no unit.

    CLI Example: ``saltlite '*' status.meminfo``
    """
    found = {}
    for line in _machinefiles.read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        found[name] = dict(zip(("value", "unit"), rest.split(), strict=False))
    return found


def cpuinfo() -> dict[str, Any]:
    """Return the kernel's data on the last processor; ``flags`` is a list.

    CLI Example: ``saltlite '*' status.cpuinfo``
    """
    found: dict[str, Any] = {}
    for line in _machinefiles.read("/proc/cpuinfo").splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if colon:
            found[name] = value.split() if name == "flags" else value
    return found


def diskstats() -> dict[str, dict[str, Any]]:
    """Return the reads and writes of every block device since boot.

    CLI Example: ``saltlite '*' status.diskstats``
    """
    found = {}
    for line in _machinefiles.read("/proc/diskstats").splitlines():
        columns = [number(column) for column in line.split()]
        if len(columns) >= len(_DISK_COLUMNS):
            found[str(columns[2])] = dict(zip(_DISK_COLUMNS, columns, strict=False))
    return found


def diskusage(*args: str) -> dict[str, dict[str, int | None]]:
    """Return total and available bytes of file systems: ``{mount point: {"available": bytes, "total": bytes}}``.

    Arguments are mount points, or globs of file system types; the default is all. A file system that does not respond
    has the values None.

    CLI Example::

        saltlite '*' status.diskusage
        saltlite '*' status.diskusage /some/path
        saltlite '*' status.diskusage ext? /some/path
    """
    import fnmatch

    types = [arg for arg in args if not arg.startswith("/")] if args else ["*"]
    places = [arg for arg in args if arg.startswith("/")]
    for mount in _machinefiles.mounts() if types else ():
        if any(fnmatch.fnmatchcase(mount.fstype, glob) for glob in types):
            places.append(mount.point)
    found: dict[str, dict[str, int | None]] = {}
    for place in places:
        try:
            figures = os.statvfs(place)
        except (FileNotFoundError, ValueError):
            continue
        except OSError:
            found[place] = {"available": None, "total": None}
            continue
        found[place] = {"available": figures.f_bavail * figures.f_frsize, "total": figures.f_blocks * figures.f_frsize}
    return found


def vmstats() -> dict[str, int]:
    """Return the counters of virtual memory since boot.

    CLI Example: ``saltlite '*' status.vmstats``
    """
    rows = (line.split() for line in _machinefiles.read("/proc/vmstat").splitlines())
    return {name: int(value) for name, value in rows}


def nproc() -> int:
    """Return the number of processors that this minion may use.

    CLI Example: ``saltlite '*' status.nproc``
    """
    return len(os.sched_getaffinity(0))


def netstats() -> dict[str, dict[str, Any]]:
    """Return the counters of network protocols by group, such as ``TcpExt`` and ``IpExt``.

    CLI Example: ``saltlite '*' status.netstats``
    """
    lines = [line.split() for line in _machinefiles.read("/proc/net/netstat").splitlines()]
    return {
        names[0].rstrip(":"): dict(zip(names[1:], map(number, values[1:]), strict=False))
        for names, values in zip(lines[::2], lines[1::2], strict=False)
    }


def netdev() -> dict[str, dict[str, Any]]:
    """Return the counters of every network interface since boot.

    CLI Example: ``saltlite '*' status.netdev``
    """
    found: dict[str, dict[str, Any]] = {}
    for line in _machinefiles.read("/proc/net/dev").splitlines():
        name, colon, rest = line.rpartition(":")
        if colon:
            values = map(number, rest.split())
            found[name.strip()] = {"iface": name.strip(), **dict(zip(_INTERFACE_COLUMNS, values, strict=False))}
    return found


def w() -> list[dict[str, str]]:
    """Return the logged-in users and their activity: a list of ``{user, tty, login, idle, jcpu, pcpu, what}``.

    CLI Example: ``saltlite '*' status.w``
    """
    found = []
    for line in _programs.output(["w", "-h", "-f"]).splitlines():
        columns = line.split(None, 6)
        if len(columns) >= 6:
            keys = ("user", "tty", "login", "idle", "jcpu", "pcpu", "what")
            found.append(dict(zip(keys, [*columns, ""], strict=False)))
    return found


def all_status() -> dict[str, Any]:
    """Return all statistics of this module.

    CLI Example: ``saltlite '*' status.all_status``
    """
    try:
        present: list[dict[str, str]] | None = w()
    except CommandNotFoundError:
        present = None
    return {
        "cpuinfo": cpuinfo(),
        "cpustats": cpustats(),
        "diskstats": diskstats(),
        "diskusage": diskusage(),
        "loadavg": loadavg(),
        "meminfo": meminfo(),
        "netdev": netdev(),
        "netstats": netstats(),
        "uptime": uptime(),
        "vmstats": vmstats(),
        "w": present,
    }


def pid(sig: str) -> str:
    """Return the ids of processes whose command line, user or name matches a regular expression, one per line.

    The calling process is excluded.

    CLI Example: ``saltlite '*' status.pid sshd``
    """
    try:
        wanted = re.compile(str(sig))
    except re.error as error:
        raise SaltInvocationError(f"{sig!r} is not a regular expression: {error}.") from error
    rows = ((pid, f"{row['user']} {pid} {row['cmd']}") for pid, row in procs().items())
    return "\n".join(pid for pid, row in rows if pid != str(os.getpid()) and wanted.search(row))


def version() -> str:
    """Return the version of the running kernel and its compiler.

    CLI Example: ``saltlite '*' status.version``
    """
    return _machinefiles.read("/proc/version").strip()


def time_(format: str = "%A, %d. %B %Y %I:%M%p") -> str:
    """Return the local time of this machine in a format of strftime.

    CLI Example::

        saltlite '*' status.time
        saltlite '*' status.time '%s'
    """
    import time

    try:
        return time.strftime(str(format))
    except ValueError as error:
        raise CommandExecutionError(f"{format!r} cannot be a format of a time: {error}.") from error
