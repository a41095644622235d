"""Figures of processors, memory, disks and network, by the words of the psutil library.

What belongs here: turning the kernel's files into dicts of numbers. It waits for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from saltlite.plugins.modules import _machinefiles, _processes

_SECTOR_BYTES = 512
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


def cpu_times() -> dict[str, dict[str, float]]:
    """`cpu` for all processors together, then `cpu0` and so on: seconds since the machine was started."""
    found = {}
    for name, rest in re.findall(r"^(cpu\d*) +(.*)$", _machinefiles.read("/proc/stat"), re.MULTILINE):
        values = [int(column) / _processes.TICKS for column in rest.split()]
        found[name] = dict(zip(_CPU, values, strict=False))
    return found


def busy_percent(before: dict[str, float], after: dict[str, float]) -> float:
    """Which share of the time between two readings a processor was not idle."""
    # The kernel counts the time of guests in `user` and `nice` too; `iowait` is idle time.
    spent = {name: max(0.0, after[name] - before[name]) for name in after if not name.startswith("guest")}
    total = sum(spent.values())
    return percent(total - spent["idle"] - spent.get("iowait", 0.0), total)


def memory() -> dict[str, int | float]:
    """The machine's memory, in bytes."""
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
    page = 4096  # /proc/vmstat counts swapped pages in these, whatever the size of a page is
    return {
        "total": total,
        "used": total - free,
        "free": free,
        "percent": percent(total - free, total),
        "sin": int(moved.get("pswpin", 0)) * page,
        "sout": int(moved.get("pswpout", 0)) * page,
    }


def network_counters() -> dict[str, dict[str, int]]:
    """What went through each interface."""
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
    """What was read from and written to each block device; times are in milliseconds."""
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
    """Names of the devices that are no parts of others."""
    return set(_machinefiles.names_in("/sys/block"))


def types_on_devices() -> set[str]:
    """The types of file systems that live on a block device."""
    lines = _machinefiles.read_if_there("/proc/filesystems").splitlines()
    return {line.strip() for line in lines if not line.startswith("nodev")} | {"zfs"}


def added(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sums of the columns of several rows."""
    total: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            total[name] = total.get(name, 0) + value
    return total


def percent(part: float, whole: float) -> float:
    """The share of a part in percent, with one digit; 0 of nothing."""
    return round(part * 100 / whole, 1) if whole else 0.0


def _rows() -> dict[str, int]:
    text = _machinefiles.read("/proc/meminfo")
    return {name: int(value) * 1024 for name, value in re.findall(r"^([\w()]+): +(\d+) kB$", text, re.MULTILINE)}
