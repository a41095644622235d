"""Reads the state of the running machine from `/proc` and utmp as plain data, with the names of psutil.

Processes, processors, memory, disks, sockets and logins; shared by `ps`, `status` and `network`. A process that ends
while it is read gives None or is skipped. Nothing is cached.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles

STATES = {
    "R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "tracing-stop", "Z": "zombie",
    "X": "dead", "x": "dead", "K": "wake-kill", "W": "waking", "P": "parked", "I": "idle",
}  # fmt: skip
"""State letter of the kernel -> name."""

TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second."""


class Process(NamedTuple):
    """A line of `/proc/PID/stat`; times in seconds, `started` in seconds after boot."""

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
    """Return the ids of all processes, sorted."""
    return sorted(int(name) for name in _machinefiles.names_in("/proc") if name.isdecimal())


def processes() -> Iterator[Process]:
    """Iterate over all processes by id."""
    for pid in pids():
        found = process(pid)
        if found is not None:
            yield found


def process(pid: int) -> Process | None:
    """Return a process, or None."""
    text = read(pid, "stat")
    # The name is in parentheses and may contain some.
    begin, end = text.find("("), text.rfind(")")
    rest = text[end + 2 :].split()
    if end < 0 or len(rest) < 37:
        return None
    name = text[begin + 1 : end]
    if len(name) >= 15:  # the kernel keeps 15 bytes; the command line may have the full name
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
    """Return the words of the command line; none for a kernel thread."""
    text = read(pid, "cmdline")
    if not text:
        return []
    words = text.removesuffix("\0").split("\0")
    # A process that overwrites its arguments with a title leaves spaces between the words.
    return text.rstrip("\0 ").split(" ") if len(words) == 1 and " " in words[0] else words


def status(pid: int) -> dict[str, str]:
    """Return the rows of `/proc/PID/status`; empty when there is no such process."""
    return dict(re.findall(r"^(\w+):[ \t]*(.*)$", read(pid, "status"), re.MULTILINE))


def uid(pid: int) -> int | None:
    """Return the real user id, or None."""
    row = status(pid).get("Uid", "").split()
    return int(row[0]) if row else None


def username(pid: int) -> str | None:
    """Return the name (or else the number) of the real user, or None when there is no such process."""
    import pwd

    number = uid(pid)
    if number is None:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def command(pid: int, name: str) -> str:
    """Return the command line as text, or the name in brackets if it is empty, as ps does."""
    return " ".join(cmdline(pid)) or f"[{name}]"


def booted_at() -> int:
    """Return the boot time in seconds since 1970. Raises CommandExecutionError."""
    match = re.search(r"^btime (\d+)$", _machinefiles.read("/proc/stat"), re.MULTILINE)
    if match is None:
        raise CommandExecutionError("/proc/stat does not say when this machine was started.")
    return int(match[1])


def read(pid: int, name: str) -> str:
    """Return a file of a process; empty when the process has ended or access is denied."""
    try:
        return _machinefiles.read(f"/proc/{pid}/{name}")
    except CommandExecutionError:
        return ""


# --- Figures of the machine ---

_SECTOR_BYTES = 512
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


def cpu_times() -> dict[str, dict[str, float]]:
    """Seconds since boot for `cpu` (all processors), `cpu0` and so on."""
    found = {}
    for name, rest in re.findall(r"^(cpu\d*) +(.*)$", _machinefiles.read("/proc/stat"), re.MULTILINE):
        values = [int(column) / TICKS for column in rest.split()]
        found[name] = dict(zip(_CPU, values, strict=False))
    return found


def busy_percent(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the percentage of time between two readings in which a processor was busy."""
    # The kernel also counts guest time in `user` and `nice`; `iowait` is idle time.
    spent = {name: max(0.0, after[name] - before[name]) for name in after if not name.startswith("guest")}
    total = sum(spent.values())
    return percent(total - spent["idle"] - spent.get("iowait", 0.0), total)


def memory() -> dict[str, int | float]:
    """Memory of the machine, in bytes."""
    rows = _rows()
    total, free = rows["MemTotal"], rows["MemFree"]
    cached = rows.get("Cached", 0) + rows.get("SReclaimable", 0)
    buffers = rows.get("Buffers", 0)
    available = min(rows.get("MemAvailable", free + cached + buffers), total)
    return {
        "total": total,
        "available": available,
        "percent": percent(total - available, total),
        "used": max(0, total - available),
        "free": free,
        "active": rows.get("Active", 0),
        "inactive": rows.get("Inactive", 0),
        "buffers": buffers,
        "cached": cached,
        "shared": rows.get("Shmem", 0),
        "slab": rows.get("Slab", 0),
    }


def swap() -> dict[str, int | float]:
    """Swap space, in bytes."""
    rows = _rows()
    total, free = rows.get("SwapTotal", 0), rows.get("SwapFree", 0)
    moved = dict(re.findall(r"^(pswp\w+) (\d+)$", _machinefiles.read_if_there("/proc/vmstat"), re.MULTILINE))
    page = 4096  # the unit of /proc/vmstat, whatever the page size
    return {
        "total": total,
        "used": total - free,
        "free": free,
        "percent": percent(total - free, total),
        "sin": int(moved.get("pswpin", 0)) * page,
        "sout": int(moved.get("pswpout", 0)) * page,
    }


def network_counters() -> dict[str, dict[str, int]]:
    """Traffic of each interface."""
    found = {}
    for line in _machinefiles.read("/proc/net/dev").splitlines():
        name, colon, rest = line.rpartition(":")
        if not colon:
            continue
        values = [int(column) for column in rest.split()]
        found[name.strip()] = {
            "bytes_sent": values[8],
            "bytes_recv": values[0],
            "packets_sent": values[9],
            "packets_recv": values[1],
            "errin": values[2],
            "errout": values[10],
            "dropin": values[3],
            "dropout": values[11],
        }
    return found


def disk_counters() -> dict[str, dict[str, int]]:
    """Reads and writes of each block device; times in milliseconds."""
    found = {}
    for line in _machinefiles.read("/proc/diskstats").splitlines():
        columns = line.split()
        if len(columns) < 14:
            continue
        values = [int(column) for column in columns[3:14]]
        found[columns[2]] = {
            "read_count": values[0],
            "write_count": values[4],
            "read_bytes": values[2] * _SECTOR_BYTES,
            "write_bytes": values[6] * _SECTOR_BYTES,
            "read_time": values[3],
            "write_time": values[7],
            "read_merged_count": values[1],
            "write_merged_count": values[5],
            "busy_time": values[9],
        }
    return found


def whole_disks() -> set[str]:
    """Return the names of block devices that are not partitions."""
    return set(_machinefiles.names_in("/sys/block"))


def types_on_devices() -> set[str]:
    """Return the file system types that live on a block device."""
    lines = _machinefiles.read_if_there("/proc/filesystems").splitlines()
    return {line.strip() for line in lines if not line.startswith("nodev")} | {"zfs"}


def added(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sums of the columns of several rows."""
    total: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            total[name] = total.get(name, 0) + value
    return total


def percent(part: float, whole: float) -> float:
    """Return the percentage with one digit; 0 if `whole` is 0."""
    return round(part * 100 / whole, 1) if whole else 0.0


def _rows() -> dict[str, int]:
    text = _machinefiles.read("/proc/meminfo")
    return {name: int(value) * 1024 for name, value in re.findall(r"^([\w()]+): +(\d+) kB$", text, re.MULTILINE)}


# --- Sockets ---

_STATES = (
    "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK",
    "LISTEN", "CLOSING", "NEW_SYN_RECV",
)  # fmt: skip
"""Connection state by the kernel's number, from 1."""


class Socket(NamedTuple):
    """A row of a socket table; addresses are pairs of address and port."""

    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    receive_queue: int
    send_queue: int
    user: str
    inode: str


def sockets(proto: str, folder: str = "/proc/net") -> Iterator[Socket]:
    """Read the sockets of `tcp`, `tcp6`, `udp` or `udp6`; `folder` selects a process's network namespace."""
    for line in _machinefiles.read_if_there(f"{folder}/{proto}").splitlines()[1:]:
        columns = line.split()
        if len(columns) < 10:
            continue
        number = int(columns[3], 16)
        sending, _, receiving = columns[4].partition(":")
        yield Socket(
            local=_decoded(columns[1]),
            remote=_decoded(columns[2]),
            state=_STATES[number - 1] if 0 < number <= len(_STATES) else str(number),
            receive_queue=int(receiving, 16),
            send_queue=int(sending, 16),
            user=columns[7],
            inode=columns[9],
        )


def _decoded(column: str) -> tuple[str, int]:
    """Decode `0100007F:1F90` as 127.0.0.1 and 8080: 32-bit words in native byte order."""
    import ipaddress

    digits, _, port = column.partition(":")
    words = [int(digits[place : place + 8], 16) for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    # An IPv4 connection of a dual-stack socket.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port, 16)


# --- Attributes of one process ---


def describe(pid: int, attrs: list[str] | str | None) -> dict[str, Any]:
    """Return the named attributes, or all. Raises CommandExecutionError when there is no such process."""
    found_process = process(pid)
    if found_process is None:
        raise CommandExecutionError(f"There is no process {pid}.")
    wanted = attrs.split(",") if isinstance(attrs, str) else list(attrs or sorted(_READERS))
    unknown = [name for name in wanted if name not in _READERS]
    if unknown:
        raise SaltInvocationError(f"A process has no {', '.join(unknown)}; it has: {', '.join(sorted(_READERS))}.")
    found: dict[str, Any] = {}
    for name in wanted:
        try:
            found[name] = _READERS[name](found_process)
        except OSError:  # the process has ended or belongs to another user
            found[name] = None
    return found


def times(process: Process) -> dict[str, float]:
    """CPU seconds of the process and its children."""
    return {
        "user": process.user,
        "system": process.system,
        "children_user": process.children_user,
        "children_system": process.children_system,
        "iowait": process.iowait,
    }


def process_memory(pid: int) -> dict[str, int] | None:
    """Bytes of memory, or None when the process has ended."""
    columns = read(pid, "statm").split()
    if len(columns) < 7:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    names = ("rss", "vms", "shared", "text", "lib", "data", "dirty")
    values = [int(columns[place]) * page for place in (1, 0, 2, 3, 4, 5, 6)]
    return dict(zip(names, values, strict=True))


def _memory_row(process: Process) -> list[int] | None:
    found = process_memory(process.pid)
    return None if found is None else list(found.values())


def _memory_full(process: Process) -> list[int] | None:
    """Return the fields of `memory`, then unique, proportional and swapped bytes."""
    found = _memory_row(process)
    with open(_machinefiles.place(f"/proc/{process.pid}/smaps_rollup"), encoding="ascii") as stream:
        rows = [line.split() for line in stream if line.endswith(" kB\n")]
    kib = {row[0].rstrip(":"): int(row[1]) for row in rows}
    own = sum(size for name, size in kib.items() if name.startswith("Private_"))
    return found and [*found, own * 1024, kib.get("Pss", 0) * 1024, kib.get("Swap", 0) * 1024]


def _threads(process: Process) -> list[list[float]]:
    """Return id, user seconds and kernel seconds of each thread."""
    found: list[list[float]] = []
    for name in os.listdir(_machinefiles.place(f"/proc/{process.pid}/task")):
        columns = read(process.pid, f"task/{name}/stat").rpartition(")")[2].split()
        if len(columns) > 12:
            found.append([int(name), int(columns[11]) / TICKS, int(columns[12]) / TICKS])
    return sorted(found)


def _memory_percent(process: Process) -> float | None:
    found = process_memory(process.pid)
    return None if found is None else found["rss"] * 100 / memory()["total"]


def _link_reader(name: str) -> Callable[[Process], str]:
    return lambda process: os.readlink(_machinefiles.place(f"/proc/{process.pid}/{name}"))


def _ids(row: str) -> Callable[[Process], list[int] | None]:
    def read(process: Process) -> list[int] | None:
        columns = status(process.pid).get(row, "").split()[:3]
        return [int(column) for column in columns] or None

    return read


def _exe(process: Process) -> str:
    try:
        return _link_reader("exe")(process)
    except FileNotFoundError:  # a kernel thread
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
        except FileNotFoundError:  # closed meanwhile
            continue
        if path.startswith("/") and os.path.isfile(path):
            rows = re.findall(r"^(pos|flags):\s*(\d+)$", read(process.pid, f"fdinfo/{name}"), re.MULTILINE)
            info = dict(rows)
            flags = int(info.get("flags", "0"), 8)
            found.append([path, int(name), int(info.get("pos", "0")), _mode(flags), flags])
    return sorted(found, key=lambda row: int(row[1]))


def _mode(flags: int) -> str:
    """Convert flags to a mode of `open`."""
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return "r"
    first = "a" if flags & os.O_APPEND else "w"
    return first if flags & os.O_ACCMODE == os.O_WRONLY else {"w": "r+", "a": "a+"}[first]


def _connections(process: Process) -> list[list[Any]]:
    """Return descriptor, family, type, both ends (or []) and state of each TCP and UDP socket."""
    import socket

    folder = _machinefiles.place(f"/proc/{process.pid}/fd")
    mine: dict[str, int] = {}
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            mine.setdefault(os.readlink(f"{folder}/{name}"), int(name))
    found: list[list[Any]] = []
    for proto in ("tcp", "tcp6", "udp", "udp6"):
        family = socket.AF_INET6 if proto.endswith("6") else socket.AF_INET
        kind = socket.SOCK_STREAM if proto.startswith("tcp") else socket.SOCK_DGRAM
        for each in sockets(proto, f"/proc/{process.pid}/net"):
            number = mine.get(f"socket:[{each.inode}]")
            if number is not None:
                ends = [list(end) if end[1] else [] for end in (each.local, each.remote)]
                state = each.state if kind is socket.SOCK_STREAM else "NONE"
                found.append([number, int(family), int(kind), *ends, state])
    return sorted(found, key=lambda row: int(row[0]))


def _maps(process: Process) -> list[list[Any]]:
    """Return the path of each mapping (a file, `[heap]` and so on), and its sizes in bytes."""
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
    rows = status(process.pid)
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
            # The kernel encodes major and minor in 32 bits, as os.makedev does for small numbers.
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
"""Rows of a mapping, in output order."""

_READERS: dict[str, Callable[[Process], Any]] = {
    "pid": lambda process: process.pid,
    "ppid": lambda process: process.ppid,
    "name": lambda process: process.name,
    "status": lambda process: process.state,
    "nice": lambda process: process.nice,
    "num_threads": lambda process: process.threads,
    "cpu_num": lambda process: process.cpu,
    "create_time": lambda process: booted_at() + process.started,
    "cpu_times": lambda process: list(times(process).values()),
    "cmdline": lambda process: cmdline(process.pid),
    "username": lambda process: username(process.pid),
    "uids": _ids("Uid"),
    "gids": _ids("Gid"),
    "num_ctx_switches": _switches,
    "memory_info": _memory_row,
    "memory_full_info": _memory_full,
    "memory_maps": _maps,
    "memory_percent": _memory_percent,
    "threads": _threads,
    "exe": _exe,
    "cwd": _link_reader("cwd"),
    "environ": _environ,
    "open_files": _open_files,
    "net_connections": _connections,
    "connections": _connections,  # psutil's older name
    "num_fds": lambda process: len(os.listdir(_machinefiles.place(f"/proc/{process.pid}/fd"))),
    "io_counters": _io,
    "terminal": _terminal,
    "cpu_affinity": lambda process: sorted(os.sched_getaffinity(process.pid)),
}


# --- Logins: utmp(5) ---

_RECORD = struct.Struct("=hxxi32s4s32s256shhiii16s20x")
_USER_PROCESS = 7
_PLACES = ("/run/utmp", "/var/run/utmp")


class Login(NamedTuple):
    """`started` is in seconds since 1970."""

    name: str
    terminal: str
    host: str
    started: int
    pid: int


def logins() -> list[Login]:
    """Return all logins; empty where the machine keeps no utmp file."""
    for path in _PLACES:
        try:
            with open(_machinefiles.place(path), "rb") as stream:
                data = stream.read()
        except OSError:
            continue
        whole = len(data) - len(data) % _RECORD.size
        return [
            Login(_text(name), _text(line), _text(host), started, pid)
            for kind, pid, line, _, name, host, _, _, _, started, _, _ in _RECORD.iter_unpack(data[:whole])
            if kind == _USER_PROCESS
        ]
    return []


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")
