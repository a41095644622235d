"""Everything that is known of one process, by the words of the psutil library.

What belongs here: one reader an attribute, and the answer for some of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _figures, _machinefiles, _processes, _sockets
from saltlite.plugins.modules._processes import Process


def describe(pid: int, attrs: list[str] | str | None) -> dict[str, Any]:
    """The named attributes, or all. Raises CommandExecutionError when there is no such process."""
    process = _processes.process(pid)
    if process is None:
        raise CommandExecutionError(f"There is no process {pid}.")
    wanted = attrs.split(",") if isinstance(attrs, str) else list(attrs or sorted(_READERS))
    unknown = [name for name in wanted if name not in _READERS]
    if unknown:
        raise SaltInvocationError(f"A process has no {', '.join(unknown)}; it has: {', '.join(sorted(_READERS))}.")
    found: dict[str, Any] = {}
    for name in wanted:
        try:
            found[name] = _READERS[name](process)
        except OSError:  # the process has ended, or is another user's
            found[name] = None
    return found


def times(process: Process) -> dict[str, float]:
    """Seconds that the process and its children have used."""
    return {
        "user": process.user,
        "system": process.system,
        "children_user": process.children_user,
        "children_system": process.children_system,
        "iowait": process.iowait,
    }


def memory(pid: int) -> dict[str, int] | None:
    """Bytes of memory, or None when the process has ended."""
    columns = _processes.read(pid, "statm").split()
    if len(columns) < 7:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    names = ("rss", "vms", "shared", "text", "lib", "data", "dirty")
    values = [int(columns[place]) * page for place in (1, 0, 2, 3, 4, 5, 6)]
    return dict(zip(names, values, strict=True))


def _memory(process: Process) -> list[int] | None:
    found = memory(process.pid)
    return None if found is None else list(found.values())


def _memory_full(process: Process) -> list[int] | None:
    """What `memory` tells, then what nobody else uses, the fair share of what others use too, and what is swapped."""
    found = _memory(process)
    with open(_machinefiles.place(f"/proc/{process.pid}/smaps_rollup"), encoding="ascii") as stream:
        rows = [line.split() for line in stream if line.endswith(" kB\n")]
    kib = {row[0].rstrip(":"): int(row[1]) for row in rows}
    own = sum(size for name, size in kib.items() if name.startswith("Private_"))
    return found and [*found, own * 1024, kib.get("Pss", 0) * 1024, kib.get("Swap", 0) * 1024]


def _threads(process: Process) -> list[list[float]]:
    """Id, seconds of the user and seconds of the kernel of each thread."""
    found: list[list[float]] = []
    for name in os.listdir(_machinefiles.place(f"/proc/{process.pid}/task")):
        columns = _processes.read(process.pid, f"task/{name}/stat").rpartition(")")[2].split()
        if len(columns) > 12:
            found.append([int(name), int(columns[11]) / _processes.TICKS, int(columns[12]) / _processes.TICKS])
    return sorted(found)


def _memory_percent(process: Process) -> float | None:
    found = memory(process.pid)
    return None if found is None else found["rss"] * 100 / _figures.memory()["total"]


def _link(name: str) -> Callable[[Process], str]:
    return lambda process: os.readlink(_machinefiles.place(f"/proc/{process.pid}/{name}"))


def _ids(row: str) -> Callable[[Process], list[int] | None]:
    def read(process: Process) -> list[int] | None:
        columns = _processes.status(process.pid).get(row, "").split()[:3]
        return [int(column) for column in columns] or None

    return read


def _exe(process: Process) -> str:
    try:
        return _link("exe")(process)
    except FileNotFoundError:  # a thread of the kernel
        return ""


def _environ(process: Process) -> dict[str, str] | None:
    with open(_machinefiles.place(f"/proc/{process.pid}/environ"), "rb") as stream:
        pairs = stream.read().decode("utf-8", "replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _open_files(process: Process) -> list[list[Any]]:
    folder = _machinefiles.place(f"/proc/{process.pid}/fd")
    found: list[list[Any]] = []
    for name in os.listdir(folder):
        try:
            path = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # closed since
            continue
        if path.startswith("/") and os.path.isfile(path):
            rows = re.findall(r"^(pos|flags):\s*(\d+)$", _processes.read(process.pid, f"fdinfo/{name}"), re.MULTILINE)
            info = dict(rows)
            flags = int(info.get("flags", "0"), 8)
            found.append([path, int(name), int(info.get("pos", "0")), _mode(flags), flags])
    return sorted(found, key=lambda row: int(row[1]))


def _mode(flags: int) -> str:
    """What `open` is told to open a file so."""
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return "r"
    first = "a" if flags & os.O_APPEND else "w"
    return first if flags & os.O_ACCMODE == os.O_WRONLY else {"w": "r+", "a": "a+"}[first]


def _connections(process: Process) -> list[list[Any]]:
    """Number, family, type, both ends and state of each socket of TCP and UDP; an end that there is not is empty."""
    folder = _machinefiles.place(f"/proc/{process.pid}/fd")
    mine: dict[str, int] = {}
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed since
            mine.setdefault(os.readlink(f"{folder}/{name}"), int(name))
    found: list[list[Any]] = []
    for proto in ("tcp", "tcp6", "udp", "udp6"):
        family = socket.AF_INET6 if proto.endswith("6") else socket.AF_INET
        kind = socket.SOCK_STREAM if proto.startswith("tcp") else socket.SOCK_DGRAM
        for each in _sockets.listed(proto, f"/proc/{process.pid}/net"):
            number = mine.get(f"socket:[{each.inode}]")
            if number is not None:
                ends = [list(end) if end[1] else [] for end in (each.local, each.remote)]
                state = each.state if kind is socket.SOCK_STREAM else "NONE"
                found.append([number, int(family), int(kind), *ends, state])
    return sorted(found, key=lambda row: int(row[0]))


def _maps(process: Process) -> list[list[Any]]:
    """Path of each file that is mapped, `[heap]` and so on, and bytes of what there is of it in memory."""
    found: dict[str, list[int]] = {}
    sizes = [0] * len(_MAPPED)
    with open(_machinefiles.place(f"/proc/{process.pid}/smaps"), encoding="utf-8", errors="backslashreplace") as stream:
        for line in stream:
            name, *columns = line.rstrip("\n").split(maxsplit=5)
            if not name.endswith(":"):
                sizes = found.setdefault(columns[4] if len(columns) > 4 else "[anon]", [0] * len(_MAPPED))
            elif name[:-1] in _MAPPED:
                sizes[_MAPPED.index(name[:-1])] += int(columns[0]) * 1024
    return [[path, *sizes] for path, sizes in found.items()]


def _switches(process: Process) -> list[int]:
    rows = _processes.status(process.pid)
    return [int(rows.get(name, "0")) for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")]


def _terminal(process: Process) -> str | None:
    import stat

    if not process.terminal:
        return None
    for folder in ("/dev/pts", "/dev"):
        for name in _machinefiles.names_in(folder):
            path = f"{folder}/{name}"
            try:
                found = os.stat(_machinefiles.place(path))
            except OSError:
                continue
            # The kernel writes the number as major and minor in 32 bits, as os.makedev does for small ones.
            if stat.S_ISCHR(found.st_mode) and found.st_rdev == process.terminal:
                return path
    return None


def _io(process: Process) -> list[int]:
    with open(_machinefiles.place(f"/proc/{process.pid}/io"), encoding="ascii") as stream:
        rows = dict(line.rstrip("\n").split(": ") for line in stream)
    return [int(rows[name]) for name in ("syscr", "syscw", "read_bytes", "write_bytes", "rchar", "wchar")]


_MAPPED = (
    "Rss", "Size", "Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "Referenced", "Anonymous",
    "Swap",
)  # fmt: skip
"""Rows of a mapping, in the order in which they are told."""

_READERS: dict[str, Callable[[Process], Any]] = {
    "pid": lambda process: process.pid,
    "ppid": lambda process: process.ppid,
    "name": lambda process: process.name,
    "status": lambda process: process.state,
    "nice": lambda process: process.nice,
    "num_threads": lambda process: process.threads,
    "cpu_num": lambda process: process.cpu,
    "create_time": lambda process: _processes.booted_at() + process.started,
    "cpu_times": lambda process: list(times(process).values()),
    "cmdline": lambda process: _processes.cmdline(process.pid),
    "username": lambda process: _processes.username(process.pid),
    "uids": _ids("Uid"),
    "gids": _ids("Gid"),
    "num_ctx_switches": _switches,
    "memory_info": _memory,
    "memory_full_info": _memory_full,
    "memory_maps": _maps,
    "memory_percent": _memory_percent,
    "threads": _threads,
    "exe": _exe,
    "cwd": _link("cwd"),
    "environ": _environ,
    "open_files": _open_files,
    "net_connections": _connections,
    "connections": _connections,  # what psutil called it before
    "num_fds": lambda process: len(os.listdir(_machinefiles.place(f"/proc/{process.pid}/fd"))),
    "io_counters": _io,
    "terminal": _terminal,
    "cpu_affinity": lambda process: sorted(os.sched_getaffinity(process.pid)),
}
