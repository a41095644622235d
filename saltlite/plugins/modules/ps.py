"""Processes, memory, processors and disks, with the names of psutil; everything is read from `/proc`.

psutil could replace about 300 lines of `_proc`, and imports as fast. But it would be an optional dependency, and `ps`
would be missing without it, while `status` and `network` need the rest of `_proc` anyway.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _proc, _programs

__risk__ = {"kill_pid": "kill", "pkill": "kill"}


def top(num_processes: int = 5, interval: float = 3) -> list[dict[str, Any]]:
    """Return the processes that used the processors most within this many seconds.

    CLI Example::

        saltlite '*' ps.top
        saltlite '*' ps.top 5 10
    """
    import time

    before = {(each.pid, each.started): each.user + each.system for each in _proc.processes()}
    time.sleep(float(interval))
    used = []
    for process in _proc.processes():
        begin = before.get((process.pid, process.started))
        if begin is not None:
            used.append((process.user + process.system - begin, process))
    used.sort(key=lambda pair: pair[0], reverse=True)
    found: list[dict[str, Any]] = []
    for _, process in used:
        memory = _proc.process_memory(process.pid)
        if len(found) >= int(num_processes):
            break
        if memory is None:
            continue
        found.append(
            {
                "cmd": _proc.cmdline(process.pid) or process.name,
                "user": _proc.username(process.pid),
                "status": process.state,
                "pid": process.pid,
                "create_time": _proc.booted_at() + process.started,
                "cpu": _proc.times(process),
                "mem": memory,
            }
        )
    return found


def get_pid_list() -> list[int]:
    """Return the ids of all processes.

    CLI Example: ``saltlite '*' ps.get_pid_list``
    """
    return _proc.pids()


def proc_info(pid: int, attrs: list[str] | None = None) -> dict[str, Any]:
    """Return the attributes of a process, all or those in ``attrs``; inaccessible ones are None.

    CLI Example::

        saltlite '*' ps.proc_info 2322
        saltlite '*' ps.proc_info 2322 attrs='["pid", "name"]'
    """
    return _proc.describe(_pid(pid), attrs)


def kill_pid(pid: int, signal: int = 15) -> bool:
    """Send a signal to a process; return False if there is no such process.

    CLI Example: ``saltlite '*' ps.kill_pid 2000``
    """
    number, which = _pid(pid), _signal(signal)
    try:
        os.kill(number, which)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise CommandExecutionError(f"Process {number} belongs to another user, and cannot be signalled.") from error
    return True


def pkill(pattern: str, user: str | None = None, signal: int = 15, full: bool = False) -> dict[str, list[int]] | None:
    """Send a signal to the processes whose name contains the text: ``{"killed": [pid]}``, or None for none.

    ``full=True`` searches the command line. ``user`` selects the processes of one user. The job itself is never
    signalled.

    CLI Example::

        saltlite '*' ps.pkill httpd signal=9
        saltlite '*' ps.pkill bash user=tom
    """
    if not str(pattern):
        raise SaltInvocationError("An empty pattern would signal every process; say which.")
    which = _signal(signal)
    killed, refused = [], []
    for pid in _matching(re.escape(str(pattern)), user, full=full):
        if pid == os.getpid():
            continue
        try:
            os.kill(pid, which)
            killed.append(pid)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(pid)
    if refused:
        done = f"; signalled: {', '.join(map(str, killed))}" if killed else ""
        numbers = ", ".join(map(str, refused))
        raise CommandExecutionError(f"Processes of another user cannot be signalled: {numbers}{done}.")
    return {"killed": killed} if killed else None


def pgrep(
    pattern: str, user: str | None = None, full: bool = False, pattern_is_regex: bool = False
) -> list[int] | None:
    """Return the ids of the processes whose name contains the text, or None for none.

    ``full=True`` searches the command line; ``pattern_is_regex=True`` makes the text a regular expression. ``user``
    selects the processes of one user.

    CLI Example::

        saltlite '*' ps.pgrep httpd
        saltlite '*' ps.pgrep bash user=tom
    """
    expression = str(pattern) if pattern_is_regex else re.escape(str(pattern))
    return list(_matching(expression, user, full=full)) or None


def cpu_percent(interval: float = 0.1, per_cpu: bool = False) -> float | list[float]:
    """Return the processor load within this many seconds, in percent; ``per_cpu`` returns a list.

    CLI Example: ``saltlite '*' ps.cpu_percent``
    """
    import time

    before = _proc.cpu_times()
    time.sleep(float(interval))
    after = _proc.cpu_times()
    busy = {name: _proc.busy_percent(before[name], after[name]) for name in after if name in before}
    return [share for name, share in busy.items() if name != "cpu"] if per_cpu else busy["cpu"]


def cpu_times(per_cpu: bool = False) -> dict[str, float] | list[dict[str, float]]:
    """Return the processor times since boot, in seconds; ``per_cpu`` returns a list.

    CLI Example: ``saltlite '*' ps.cpu_times``
    """
    found = _proc.cpu_times()
    return [row for name, row in found.items() if name != "cpu"] if per_cpu else found["cpu"]


def virtual_memory() -> dict[str, Any]:
    """Return the memory in bytes: ``total``, ``available``, ``percent``, ``used``, ``free`` and more.

    CLI Example: ``saltlite '*' ps.virtual_memory``
    """
    return _proc.memory()


def swap_memory() -> dict[str, Any]:
    """Return the swap space in bytes: ``total``, ``used``, ``free``, ``percent``, and traffic in ``sin`` and ``sout``.

    CLI Example: ``saltlite '*' ps.swap_memory``
    """
    return _proc.swap()


def disk_partitions(all: bool = False) -> list[dict[str, str]]:
    """Return mounted file systems: a list of ``{device, mountpoint, fstype, opts}``; ``all=True`` includes those
    without a device.

    CLI Example: ``saltlite '*' ps.disk_partitions``
    """
    on_devices = _proc.types_on_devices()
    return [
        {
            "device": mount.device,
            "mountpoint": mount.point,
            "fstype": mount.fstype,
            "opts": ",".join(_machinefiles.options_of(mount)),
        }
        for mount in _machinefiles.mounts()
        if all or (mount.device and mount.fstype in on_devices)
    ]


def disk_usage(path: str) -> dict[str, Any]:
    """Return the usage of the file system of a path in bytes: ``total``, ``used``, ``free`` and ``percent``.

    CLI Example: ``saltlite '*' ps.disk_usage /srv``
    """
    try:
        found = os.statvfs(str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandExecutionError(f"The file system of {path!r} cannot be examined: {reason}.") from error
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    free = found.f_bavail * found.f_frsize
    return {
        "total": found.f_blocks * found.f_frsize,
        "used": used,
        "free": free,
        "percent": _proc.percent(used, used + free),
    }


def disk_partition_usage(all: bool = False) -> list[dict[str, Any]]:
    """Return ``disk_partitions`` and ``disk_usage`` combined.

    CLI Example: ``saltlite '*' ps.disk_partition_usage``
    """
    found = []
    for partition in disk_partitions(all):
        with contextlib.suppress(CommandExecutionError):  # unmounted meanwhile, or hidden by another mount
            found.append({**partition, **disk_usage(partition["mountpoint"])})
    return found


def total_physical_memory() -> int:
    """Return the memory in bytes.

    CLI Example: ``saltlite '*' ps.total_physical_memory``
    """
    return int(_proc.memory()["total"])


def num_cpus() -> int | None:
    """Return the number of processors.

    CLI Example: ``saltlite '*' ps.num_cpus``
    """
    return len(_proc.cpu_times()) - 1


def boot_time(time_format: str | None = None) -> int | str:
    """Return the boot time in seconds since 1970, or in a format of strftime.

    CLI Example::

        saltlite '*' ps.boot_time
        saltlite '*' ps.boot_time time_format='%d.%m.%Y %H:%M'
    """
    import time

    at = _proc.booted_at()
    if not time_format:
        return at
    try:
        return time.strftime(str(time_format), time.localtime(at))
    except ValueError as error:
        raise SaltInvocationError(f"{time_format!r} cannot be a format of a time: {error}.") from error


def network_io_counters(interface: str | None = None) -> dict[str, int] | bool:
    """Return the network traffic since boot; False for a missing interface.

    CLI Example::

        saltlite '*' ps.network_io_counters
        saltlite '*' ps.network_io_counters interface=eth0
    """
    found = _proc.network_counters()
    return found.get(interface, False) if interface else _proc.added(found.values())


def disk_io_counters(device: str | None = None) -> dict[str, int] | bool:
    """Return the disk reads and writes since boot; False for a missing device.

    CLI Example::

        saltlite '*' ps.disk_io_counters
        saltlite '*' ps.disk_io_counters device=sda1
    """
    found = _proc.disk_counters()
    if device:
        return found.get(device, False)
    whole = _proc.whole_disks()
    return _proc.added(row for name, row in found.items() if name in whole)


def get_users() -> list[dict[str, Any]]:
    """Return the logged-in users: a list of ``{name, terminal, host, started, pid}``.

    CLI Example: ``saltlite '*' ps.get_users``
    """
    return [
        {
            "name": login.name,
            "terminal": login.terminal or None,
            "host": "localhost" if login.host in {":0", ":0.0"} else login.host,
            "started": float(login.started),
            "pid": login.pid,
        }
        for login in _proc.logins()
    ]


def lsof(name: str) -> list[str]:
    """Return the open files of programs whose name begins with this text, as lsof lists them: ``[name, output]``.

    CLI Example: ``saltlite '*' ps.lsof apache2``
    """
    done = _programs.run(["lsof", "-c", _programs.word(name, "name of a program")])
    return [str(name), done.stdout.rstrip("\n")]


def netstat(name: str) -> list[Any]:
    """Return the lines of ``netstat -nap`` that contain the text: ``[name, lines]``.

    CLI Example: ``saltlite '*' ps.netstat apache2``
    """
    return [str(name), [line for line in _programs.output(["netstat", "-nap"]).splitlines() if str(name) in line]]


def ss(name: str) -> list[Any]:
    """Return the lines of ``ss -neap`` that contain the text: ``[name, lines]``.

    CLI Example: ``saltlite '*' ps.ss apache2``
    """
    return [str(name), [line for line in _programs.output(["ss", "-neap"]).splitlines() if str(name) in line]]


def psaux(name: str) -> list[Any]:
    """Return the lines of ``ps aux`` that match a regular expression: ``[name, lines, "N occurrence(s)."]``.

    CLI Example: ``saltlite '*' ps.psaux www-data.+apache2``
    """
    wanted = _expression(str(name))
    lines = [line for line in _programs.output(["ps", "aux"]).splitlines() if wanted.search(line)]
    lines = [line for line in lines if not re.search(r"salt.+ps\.psaux", line)]
    return [str(name), lines, f"{len(lines)} occurrence(s)."]


def status(status: str) -> list[dict[str, Any]]:
    """Return the processes in a state: ``running``, ``sleeping``, ``disk-sleep``, ``stopped``, ``zombie`` and so on.

    CLI Example: ``saltlite '*' ps.status zombie``
    """
    if not status:
        raise SaltInvocationError("Say which state the processes have to be in, such as `zombie`.")
    return [{"pid": each.pid, "name": each.name} for each in _proc.processes() if each.state == status]


def _matching(expression: str, user: str | None, *, full: bool) -> Iterator[int]:
    wanted = _expression(expression)
    for process in _proc.processes():
        text = " ".join(_proc.cmdline(process.pid)) if full else process.name
        if wanted.search(text) and (user is None or _proc.username(process.pid) == str(user)):
            yield process.pid


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SaltInvocationError(f"{text!r} is not a regular expression: {error}.") from error


def _pid(pid: Any) -> int:
    # For the kernel, 0 and negative numbers mean process groups.
    if not re.fullmatch(r"[1-9][0-9]{0,9}", str(pid)):
        raise SaltInvocationError(f"{pid!r} is not a process id.")
    return int(pid)


def _signal(which: Any) -> int:
    if not re.fullmatch(r"[0-9]{1,2}", str(which)) or int(which) > 64:
        raise SaltInvocationError(f"{which!r} is not a signal number.")
    return int(which)
