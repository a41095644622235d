"""Processes: names, parents, exits, identity, memory and descriptors, by calls on this process and on others by pid.

`saltlite.platform.supervision` decides which processes are started, stopped and restarted.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import NamedTuple

from saltlite.errors import SaltliteError
from saltlite.platform.reactor import Reactor

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

TITLE_BYTES = 15
"""Bytes of a process name in the kernel."""


LARGE_BYTES = 64 * 1024 * 1024
"""Memory that `expect_large` prepares: addresses, which cost nothing until they are written to."""
RETURNED_BYTES = 128 * 1024
"""Blocks of this size are mapped separately, so that freeing them returns their memory. It is glibc's initial value."""
SETTLED_S = 2.0
"""How long after its start a process no longer runs code that only its start needs."""
_CPU_CLOCK = 2
_HUGE_PAGE = 2 * 1024 * 1024
_MADV_DONTNEED = 4
_MADV_HUGEPAGE = 14
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_CLEAN_FILE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) r-[-x]p \S+ \S+ [1-9]\d* .*\n(?:(?!Anonymous:)[A-Z].*\n)*Anonymous: +0 kB", re.MULTILINE
)
"""In proc(5) smaps: a private mapping of a file that this process may not write to, and has not changed."""

# Prepared once: making it in each forked process costs that process 75 page faults, 0.3 ms of a job.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = (ctypes.c_size_t,)
_libc.free.argtypes = (ctypes.c_void_p,)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def prctl(option: int, value: int | bytes) -> None:
    """prctl(2) with one argument. Raises OSError as the kernel does."""
    if _prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def set_title(text: str) -> None:
    """Set the name that `ps -o comm` and `top` show, cut to TITLE_BYTES at a character."""
    cut = text.encode()[:TITLE_BYTES].decode(errors="ignore")
    prctl(PR_SET_NAME, cut.encode())


def set_parent_death_signal(signum: int, parent_pid: int) -> None:
    """Receive `signum` when the parent ends, or now if it has ended.

    Call it first after the fork, with the parent's pid from before the fork. The kernel clears the setting when the
    user changes, so a process that drops privileges calls it again.
    """
    prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signum)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, instead of process 1."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def expect_large() -> None:
    """Make the C library allocate the next LARGE_BYTES in huge pages, if the kernel has them. Only glibc supports this.

    It is for a process that soon ends and writes to much memory once: page faults of small pages would cost as much as
    the work, 12 of the 34 ms of an Argon2id hash with 19 MiB.
    """
    try:
        settings = ((_M_MMAP_THRESHOLD, LARGE_BYTES), (_M_TRIM_THRESHOLD, 2 * LARGE_BYTES))
        if not all(_libc.mallopt(name, value) for name, value in settings):
            return
    except AttributeError:
        return
    size = LARGE_BYTES - 2 * _HUGE_PAGE
    address = _libc.malloc(size)
    if address:
        begin = -(-address // _HUGE_PAGE) * _HUGE_PAGE
        _libc.madvise(begin, address + size - begin, _MADV_HUGEPAGE)  # it may fail, on a kernel without huge pages
        _libc.free(address)  # it stays at the end of the heap, where the next large block is allocated


def return_freed_memory() -> None:
    """Make the C library return freed blocks of RETURNED_BYTES or more to the kernel at once.

    By default glibc raises this threshold up to 32 MiB with each large block that is freed. One request of 4 MB then
    leaves its memory in a fragmented heap for good: about 10 MiB for each MWorker. Forked children inherit the setting;
    other C libraries are left alone.
    """
    with contextlib.suppress(AttributeError):
        for name in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            _libc.mallopt(name, RETURNED_BYTES)


def run_in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child and wait for it; 0 if it returned. This process keeps none of the memory that it
    takes. Raises OSError without room for a process."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def freeze_heap() -> None:
    """Before forks: collect garbage once, then exempt all objects from it, so that children share their pages."""
    gc.collect()
    gc.freeze()
    trim_heap()


def trim_heap() -> None:
    """Give free memory between blocks back to the kernel: 1.3 MiB after the imports of a daemon. Other C libraries than
    glibc are left alone."""
    with contextlib.suppress(AttributeError):
        _libc.malloc_trim(0)


def unmap_clean_pages() -> None:
    """Unmap the pages of programs and libraries. The kernel keeps them, and maps them again when used.

    A daemon maps 10 MiB more of them while it starts than it uses later. Call it SETTLED_S after the start.

    Signals, forks and other threads may interrupt it, because a page that is used again has the same content. But no
    thread may unload a library meanwhile, because other memory could take its addresses. Python never unloads one.
    """
    with contextlib.suppress(OSError), open("/proc/self/smaps", "rb") as file:
        for begin, end in _CLEAN_FILE.findall(file.read()):
            address = int(begin, 16)
            _libc.madvise(address, int(end, 16) - address, _MADV_DONTNEED)


def write_no_files() -> None:
    """Forbid this process and its children to write to files, permanently. Sockets and pipes are not files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def keep_only(descriptors: Collection[int]) -> None:
    """In a forked process: replace every inherited descriptor but stdin, stdout, stderr and these by /dev/null.

    A process with fewer rights must not use the open files of its parent. The numbers stay in use, so that an inherited
    object that closes its descriptor later cannot close a new one.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    kept = {*descriptors, null}
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor > 2 and descriptor not in kept and _is_open(descriptor):
            os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def close_all_but(descriptors: Collection[int]) -> None:
    """Close all other descriptors of this process."""
    first = 0
    for kept in sorted(set(descriptors)):
        # An empty range that ends at 0 would close all, because the kernel reads -1 as the highest descriptor.
        if first < kept:
            os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def raise_open_files(wanted: int) -> int:
    """Allow this process `wanted` descriptors, within the hard limit; the number that is now allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process in seconds; 0 if it does not exist."""
    try:
        # clock_getcpuclockid(3): the id of a process's clock is computed from its pid.
        return time.clock_gettime((~pid << 3) | _CPU_CLOCK)
    except OSError:
        return 0.0


def state_of(pid: int) -> str:
    """The state of a process in proc(5), such as R, S, D, T; "X" if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return chr(text[text.rindex(b")") + 2])


def start_ticks(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; None if it does not exist, or is a zombie.

    A pid with its start ticks identifies one process; a pid alone may be reused.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain anything, so fields count from the last one. proc(5): 3 state, 22 start.
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


class Child:
    """Watches a process until it ends, through a descriptor, which is never reused for another process."""

    def __init__(self, reactor: Reactor, pid: int, on_exit: Callable[[int | None], None]) -> None:
        self.pid = pid
        self._reactor = reactor
        self._on_exit = on_exit
        self._fd = -1
        self._over = False
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            reactor.call_soon(self._exited)
        except OSError as error:
            raise SaltliteError(f"process {pid} cannot be watched: {error.strerror}") from error
        else:
            reactor.add_reader(self._fd, self._exited)

    def signal(self, signum: int) -> bool:
        """Send a signal; False if the process has ended."""
        if self._fd < 0:
            return False
        try:
            signal.pidfd_send_signal(self._fd, signum)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        """Stop watching; nothing is reported any more. The caller must then wait for a child process itself."""
        self._over = True
        if self._fd >= 0:
            self._reactor.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _exited(self) -> None:
        if self._over:
            return
        status = self._status()
        self.close()
        self._on_exit(status)

    def _status(self) -> int | None:
        if self._fd < 0:
            return None
        try:
            result = os.waitid(os.P_PIDFD, self._fd, os.WEXITED)
        except ChildProcessError:
            return None
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def watch_exit(reactor: Reactor, pid: int, on_exit: Callable[[int | None], None]) -> Child:
    """Call `on_exit(status)` in the loop when the process has ended. A child process is reaped.

    status: the exit code, or minus the signal that killed it; None if it is not a child, or had already ended.
    """
    return Child(reactor, pid, on_exit)


ROUNDS_MAX = 20
"""How often SIGKILL searches for processes that were started during the search."""


class FoundProcess(NamedTuple):
    """A running process; `pid` and `ticks` (start time since boot) together are never reused."""

    pid: int
    ticks: int
    group: int


class ProcessTree:
    """The process `leader`, which leads its group, with all its descendants."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._seen: set[FoundProcess] = set()

    def signal(self, signum: int) -> None:
        """Signal the group and every descendant outside of it, if they exist. After SIGKILL there are no descendants.

        Raises PermissionError if the group belongs to another user.
        """
        for _ in range(ROUNDS_MAX):
            found = self._look()
            fresh = found - self._seen
            self._seen |= found
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader, signum)
            for process in found:
                if process.group != self._leader:
                    _signal(process, signum)
            if signum != signal.SIGKILL or not fresh:
                return

    def _look(self) -> set[FoundProcess]:
        """The running descendants of the leader, and those found before with their descendants."""
        living, children = _living()
        found = {process for process in self._seen if living.get(process.pid, process).ticks == process.ticks}
        found = {living[process.pid] for process in found if process.pid in living}
        ahead = [self._leader, *(process.pid for process in found)]
        while ahead:
            for process in children[ahead.pop()]:
                if process not in found:
                    found.add(process)
                    ahead.append(process.pid)
        return found


def _living() -> tuple[dict[int, FoundProcess], dict[int, list[FoundProcess]]]:
    """Every running process by pid, and by the pid of its parent."""
    living: dict[int, FoundProcess] = {}
    children: dict[int, list[FoundProcess]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name in parentheses may contain anything. proc(5): 3 state, 4 ppid, 5 pgrp, 22 start.
        fields = text[text.rindex(b")") + 2 :].split()
        if fields[0] not in (b"Z", b"X"):
            process = FoundProcess(int(name), int(fields[19]), int(fields[2]))
            living[process.pid] = process
            children[int(fields[1])].append(process)
    return living, children


def _signal(process: FoundProcess, signum: int) -> None:
    """Signal a process through a descriptor, after checking its start time, because a pid may be reused."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
        fd = os.pidfd_open(process.pid)
        try:
            with open(f"/proc/{process.pid}/stat", "rb") as file:
                text = file.read()
            if int(text[text.rindex(b")") + 2 :].split()[19]) == process.ticks:
                signal.pidfd_send_signal(fd, signum)
        finally:
            os.close(fd)
