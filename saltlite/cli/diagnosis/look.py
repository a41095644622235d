"""Looking at this machine, without changing anything: paths, disks, units, processes."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import time
from collections.abc import Mapping

from saltlite.cli.diagnosis.daemons import pid_of
from saltlite.cli.diagnosis.evidence import DiskSeen, PathSeen, ProcessSeen, Sort, Surroundings, UnitSeen
from saltlite.config.api import ApiConfig
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.paths import config_files

SYSTEMCTL_S = 10.0
"""How long systemd may take to answer."""


def around(
    daemon: str,
    config_dir: str,
    config: MasterConfig | MinionConfig | ApiConfig | None,
    paths: Mapping[str, str],
    problems: list[str],
) -> Surroundings:
    """What all daemons have: `daemon` is master, minion or api; `paths` are looked at under their names."""
    return Surroundings(
        config_dir=config_dir,
        now=time.time(),
        euid=os.geteuid(),
        user=config.user if config is not None else "",
        user_uid=uid_of(config.user) if config is not None else None,
        config_files=len(config_files(config_dir, daemon)) if config is not None else 0,
        config_problems=problems,
        unit=unit(f"saltlite-{daemon}"),
        pid=_pid(daemon, config_dir, config),
        paths={name: path(where) for name, where in paths.items()},
        disks={
            name: seen
            for name in ("data_dir", "cachedir", "log_file")
            if config is not None and (where := getattr(config, name, "")) and (seen := disk(where)) is not None
        },
    )


def path(where: str) -> PathSeen:
    """What is at `where`."""
    try:
        found = os.lstat(where)
    except (FileNotFoundError, NotADirectoryError):
        return PathSeen(where, Sort.MISSING)
    except OSError:
        return PathSeen(where, Sort.HIDDEN)
    return PathSeen(where, _sort(found.st_mode), stat.S_IMODE(found.st_mode), found.st_uid)


def _sort(mode: int) -> Sort:
    if stat.S_ISDIR(mode):
        return Sort.FOLDER
    if stat.S_ISREG(mode):
        return Sort.FILE
    return Sort.SOCKET if stat.S_ISSOCK(mode) else Sort.OTHER


def disk(where: str) -> DiskSeen | None:
    """The file system of a folder; of the nearest one above it that is there."""
    folder = where
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return DiskSeen(
        where,
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
        # Some file systems have no table of them, and say 0 of 0.
        found.f_favail if found.f_files else 1_000_000,
        not found.f_flag & os.ST_RDONLY,
    )


def uid_of(user: str) -> int | None:
    """The uid of a user of this machine."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def unit(name: str) -> UnitSeen | None:
    """A unit, where systemd runs."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    wanted = ("LoadState", "ActiveState", "Result", "UnitFileState")
    argv = ["systemctl", "show", f"{name}.service", f"--property={','.join(wanted)}"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return UnitSeen(name, *(said.get(key, "") for key in wanted))


def _pid(daemon: str, config_dir: str, config: MasterConfig | MinionConfig | ApiConfig | None) -> int | None:
    if config is None:
        return None
    if isinstance(config, ApiConfig):  # which has nothing of its own to lock
        return pid_of(daemon, config_dir)
    return daemon_pid(os.path.join(config.data_dir, "lock"))


def daemon_pid(lock: str) -> int | None:
    """The process that holds the lock of a daemon, if it lives."""
    try:
        with open(lock, encoding="ascii") as file:
            pid = int(file.read(20))
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid if b"saltlite" in file.read(4096) else None
    except (OSError, ValueError):
        return None


def children(pid: int) -> list[ProcessSeen]:
    """The processes that a daemon started."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            pids = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [seen for seen in map(_process, pids) if seen is not None]


def _process(pid: int) -> ProcessSeen | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    title = text[text.index("(") + 1 : text.rindex(")")]
    return ProcessSeen(title, text[text.rindex(")") + 2], _open_files_max(pid), _uid(pid))


def _uid(pid: int) -> int | None:
    """The effective user. Not the owner of its folder in /proc, which is root for who gave rights up."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return int(next(line for line in file if line.startswith("Uid:")).split()[2])
    except (OSError, StopIteration):
        return None


def _open_files_max(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("Max open files"))
    except (OSError, StopIteration):
        return None
    soft = line.split()[3]
    return int(soft) if soft.isdigit() else None
