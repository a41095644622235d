"""What `doctor` sees of a host, as plain data: paths, disks, systemd units, processes, and the daemons that are
present.

Looking changes nothing. `None` means that something could not be seen or does not exist. Times are wall-clock seconds
since 1970, sizes are bytes.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

from saltlite.config.api import ApiConfig
from saltlite.config.load import Loaded, is_configured, load_api, load_master, load_minion
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.paths import DEFAULT_CONFIG_DIR, config_files
from saltlite.errors import ConfigError
from saltlite.model.dataclass import dataclass
from saltlite.model.resourcelook import TypeReport
from saltlite.platform.master_probe import MasterProof


class Sort(StrEnum):
    """The kind of a path."""

    MISSING = "missing"
    HIDDEN = "hidden"
    """This user may not look."""
    FOLDER = "folder"
    FILE = "file"
    SOCKET = "socket"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PathSeen:
    """One path; a link at its end is not followed."""

    path: str
    sort: Sort
    mode: int = 0
    """Permission bits."""
    uid: int = -1


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """The file system of a path: space for an ordinary user, and its size."""

    path: str
    free: int
    total: int
    inodes_free: int
    writable: bool


@dataclass(frozen=True, slots=True)
class UnitSeen:
    """A systemd unit, in systemd's words."""

    name: str
    load: str
    active: str
    result: str
    enabled: str


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """One process of a daemon; `state` is the letter of proc(5)."""

    title: str
    state: str
    open_files_max: int | None = None
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What all daemons have."""

    config_dir: str
    now: float
    euid: int
    user: str
    """The option `user`, "" when the configuration could not be read."""
    user_uid: int | None
    """Its uid; None when the user does not exist."""
    config_files: int
    config_problems: Sequence[str]
    unit: UnitSeen | None
    """None without systemd."""
    pid: int | None
    """The daemon's first process; None when it does not run or cannot be seen."""
    paths: Mapping[str, PathSeen]
    """By short name: that of an option, or of a file in its folder, as in `pki_dir/fleet.key`."""
    disks: Mapping[str, DiskSeen]
    """By the name of an option."""


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """What a master's files say about its fleet."""

    fingerprint: str
    """That of fleet.key; "" without one."""
    problem: str
    """Why the master would not start with these files."""
    behind: Sequence[str] = ()
    """Files that name a former fleet key."""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class MasterEvidence:
    """One master."""

    around: HostEvidence
    config: MasterConfig | None
    status: Mapping[str, Any] | None
    """The answer to the verb `status`."""
    keys: Sequence[Mapping[str, Any]] | None
    """The answer to the verb `key_list`."""
    certificate_until: int | None
    certificate_from: int | None
    silence: str
    """Why the socket does not answer; "" when it does."""
    address: str
    """Where this machine tried to reach the port."""
    proof: MasterProof | None
    probe_problem: str
    processes: Sequence[ProcessSeen]
    link_uid: int | None = None
    """The uid of `link_user`; None when the user does not exist."""
    fleet: FleetSeen | None = None
    """None when the files could not be read."""
    database: Mapping[str, Any] | None = None
    """What `look_at_database` answers; None without a database, or when there is a problem with it."""
    database_problem: str = ""
    address_problem: str = ""
    """Why minions can hardly reach this master where the others tell them to."""
    ahead_s: float = 0.0
    """By how many seconds the clock of the master's answers is ahead of this machine's."""


@dataclass(frozen=True, slots=True)
class MasterSeen:
    """One master as its minion sees it."""

    address: str
    resolved: Sequence[str]
    dns_problem: str
    tcp_problem: str
    proof: MasterProof | None
    proof_problem: str


@dataclass(frozen=True, slots=True)
class TlsSeen:
    """The certificate and key with which the API serves."""

    certificate: str
    key: str
    """The file of the private key, possibly that of the certificate."""
    problem: str
    """Why they cannot be used; "" when they can, or when this user may not read them."""
    not_before: int | None
    not_after: int | None
    fingerprint: str
    """That of the certificate in the file, "" when it could not be read."""


@dataclass(frozen=True, slots=True)
class ApiEvidence:
    """One API."""

    around: HostEvidence
    config: ApiConfig | None
    tls: TlsSeen | None
    """None without TLS, and when there is no certificate yet."""
    address: str
    """Where this machine tried to reach the port."""
    port_problem: str
    served: str
    """The fingerprint of the certificate on the port; "" without TLS."""
    master_problem: str
    """Why the master's socket does not answer; "" when it does."""


@dataclass(frozen=True, slots=True)
class ModulesSeen:
    """The result of trying out the execution modules and the grains."""

    offered: int = 0
    """How many modules work here."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """File name -> sentence, for modules that are not for this machine."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """File name -> sentence, for modules that cannot be loaded."""
    grains: int = 0
    no_chain: str = ""
    """Why no function can be called through the configured executors; "" when one can."""
    idle_chain: str = ""
    """Why the configured chain has no effect, though it loads; "" when it has one."""
    unknown_executors: Mapping[str, str] = field(default_factory=dict)
    """Name -> sentence, for unusable executors in `executors_allowed`."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MinionEvidence:
    """One minion."""

    around: HostEvidence
    config: MinionConfig | None
    id: str
    pinned: str
    """The fingerprint of the fleet, "" when unknown."""
    pin_source: str
    masters: Sequence[MasterSeen]
    phase: str
    """The state of the connection by the minion's last report, "" without one."""
    reason: str
    phase_at: float
    resources_problem: str
    refused_answers: int
    """How many unsigned answers the running daemon rejected."""
    """Why the master did not take the resources, or not all; "" when it did."""
    journal_problem: str
    """"" when the journal is readable or does not exist."""
    journal_jobs: int | None
    spool_results: int | None
    spool_bytes: int
    spool_damaged: Sequence[str]
    modules: ModulesSeen | None
    types: Mapping[str, TypeReport] = field(default_factory=dict)
    """The minion's report about its resource types."""
    looked_at: str = ""
    """Why there is no resource type, "" when there is one."""


DAEMONS = ("master", "minion", "api")
"""In the order in which `doctor` looks at them."""

CMDLINE_MAX = 4096
"""Bytes of a command line that are read; a daemon's has far fewer."""


class Running(NamedTuple):
    """The first process of a daemon, and its configuration folder."""

    pid: int
    config_dir: str


class Signs(NamedTuple):
    """The signs of one daemon. Without signs and processes it is not on this machine."""

    daemon: str
    here: tuple[str, ...]
    """What belongs to the examined folder, in words: `a configuration`, `keys`, `process 123`."""
    elsewhere: tuple[Running, ...]
    """Processes with another folder."""


def find_daemons(config_dir: str) -> list[Signs]:
    """The signs of each daemon."""
    return [_signs(config_dir, daemon) for daemon in DAEMONS]


def pid_of(daemon: str, config_dir: str) -> int | None:
    """The process of a daemon that was started with this folder; None when none can be seen."""
    return next((one.pid for one in running(daemon) if _same(one.config_dir, config_dir)), None)


def running(daemon: str) -> Sequence[Running]:
    """The processes of `saltlite-<daemon>` on this machine, without those in containers."""
    found = dict(_processes(f"saltlite-{daemon}"))
    return [Running(pid, where) for pid, where in sorted(found.items()) if _parent(pid) not in found]


def _signs(config_dir: str, daemon: str) -> Signs:
    processes = running(daemon)
    mine = [one for one in processes if _same(one.config_dir, config_dir)]
    here = [
        *(["a configuration"] if is_configured(config_dir, daemon) else []),
        *(["keys"] if _has_keys(_pki_dir(config_dir, daemon)) else []),
        *(f"process {one.pid}" for one in mine),
    ]
    return Signs(daemon, tuple(here), tuple(one for one in processes if one not in mine))


def _pki_dir(config_dir: str, daemon: str) -> str:
    """The folder of a daemon's keys; by default below the configuration folder."""
    load: Mapping[str, Callable[[str], Loaded[Any]]] = {"master": load_master, "minion": load_minion, "api": load_api}
    try:
        return str(load[daemon](config_dir).config.pki_dir)
    except ConfigError:
        return os.path.join(config_dir, "pki", daemon)


def _has_keys(folder: str) -> bool:
    """Whether the folder has any file; an unreadable folder counts."""
    try:
        return bool(os.listdir(folder))
    except PermissionError:
        return True
    except OSError:
        return False


def _processes(program: str) -> Iterator[tuple[int, str]]:
    """(pid, configuration folder) of every process of a program, its children included."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(CMDLINE_MAX).decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        behind = _options_of(words, program)
        if behind is not None and _is_of_this_machine(name):
            yield int(name), os.path.join(_working_folder(name), _config_dir(behind))


def _options_of(words: Sequence[str], program: str) -> Sequence[str] | None:
    """The words after the program, which may follow Python; None for another program."""
    if not words:
        return None
    index = _index_of_program(words) if os.path.basename(words[0]).startswith("python") else 0
    module = program.replace("-", "_")
    name = os.path.basename(words[index]) if index < len(words) else ""
    return words[index + 1 :] if name in (program, f"{module}.py", module) else None


def _index_of_program(words: Sequence[str]) -> int:
    """The index of the script or module that Python runs."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 1
        if words[index - 1] == "-m":
            break
    return index


def _config_dir(words: Sequence[str]) -> str:
    """The folder that a daemon's command line names, relative as it was written."""
    for index, word in enumerate(words):
        if word in ("-c", "--config-dir") and index + 1 < len(words):
            return words[index + 1]
        if word.startswith("--config-dir="):
            return word.removeprefix("--config-dir=")
        if word.startswith("-c") and len(word) > len("-c"):
            return word.removeprefix("-c")
    return DEFAULT_CONFIG_DIR


def _working_folder(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"  # another user's process; services start there


def _is_of_this_machine(pid: str) -> bool:
    """Whether a process has the same root folder; an unreadable one counts."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat("/"))
    except OSError:
        return True


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0
    return int(text[text.rindex(")") + 1 :].split()[1])


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


SYSTEMCTL_S = 10.0
"""How long systemd may take to answer."""


def look_around(
    daemon: str,
    config_dir: str,
    config: MasterConfig | MinionConfig | ApiConfig | None,
    paths: Mapping[str, str],
    problems: list[str],
) -> HostEvidence:
    """What all daemons have: `daemon` is master, minion or api; `paths` are examined under their names."""
    return HostEvidence(
        config_dir=config_dir,
        now=time.time(),
        euid=os.geteuid(),
        user=config.user if config is not None else "",
        user_uid=uid_of(config.user) if config is not None else None,
        config_files=len(config_files(config_dir, daemon)) if config is not None else 0,
        config_problems=problems,
        unit=read_unit(f"saltlite-{daemon}"),
        pid=_pid(daemon, config_dir, config),
        paths={name: look_at_path(where) for name, where in paths.items()},
        disks={
            name: seen
            for name in ("data_dir", "cachedir", "log_file")
            if config is not None and (where := getattr(config, name, "")) and (seen := look_at_disk(where)) is not None
        },
    )


def look_at_path(where: str) -> PathSeen:
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


def look_at_disk(where: str) -> DiskSeen | None:
    """The file system of a folder, or of the nearest existing one above it."""
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
        # Some file systems have no inode table and report 0 of 0.
        found.f_favail if found.f_files else 1_000_000,
        not found.f_flag & os.ST_RDONLY,
    )


def uid_of(user: str) -> int | None:
    """The uid of a user of this machine."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def read_unit(name: str) -> UnitSeen | None:
    """A unit, where systemd runs."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    wanted = ("LoadState", "ActiveState", "Result", "UnitFileState")
    argv = ["systemctl", "show", f"{name}.service", f"--property={','.join(wanted)}"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    shown = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return UnitSeen(name, *(shown.get(key, "") for key in wanted))


def _pid(daemon: str, config_dir: str, config: MasterConfig | MinionConfig | ApiConfig | None) -> int | None:
    if config is None:
        return None
    if isinstance(config, ApiConfig):  # it has no lock
        return pid_of(daemon, config_dir)
    return daemon_pid(os.path.join(config.data_dir, "lock"))


def daemon_pid(lock: str) -> int | None:
    """The process that holds a daemon's lock, if it is alive."""
    try:
        with open(lock, encoding="ascii") as file:
            pid = int(file.read(20))
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid if b"saltlite" in file.read(4096) else None
    except (OSError, ValueError):
        return None


def children(pid: int) -> list[ProcessSeen]:
    """The child processes of a daemon."""
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
    """The effective user; the owner of the folder in /proc is root for a process that dropped its rights."""
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
