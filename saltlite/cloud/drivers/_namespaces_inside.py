"""The first process of a machine that is made of namespaces, and the way into one. A program, run as root by its path.

    python -I -S machine_inside.py boot            one JSON line on stdin, later a second one; see `boot`
    python -I -S machine_inside.py enter PID GROUP -- ARGV…     run a command in the machine
    python -I -S machine_inside.py put PID GROUP                write files in the machine; see `put`

It imports nothing of saltlite: it starts in a few milliseconds, and what runs as process 1 of a machine for weeks is
as small as can be. What `boot` has mounted, addressed and started belongs to the machine's namespaces alone and is gone
with its process 1, however that ends.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]


SERVICES = "/etc/saltlite-machine/services"
"""In the machine: one JSON line for each command that runs as long as the machine does: {"argv": […], "env": {…}}."""
CONSOLE = "/var/log/console.log"
RESTART_S = 1.0
"""Between two starts of a service that ends."""
STOP_S = 5.0
"""What the machine's processes get between SIGTERM and SIGKILL."""
TITLE = b"saltlite-mach"

NAMESPACES = {"ipc": 0x08000000, "uts": 0x04000000, "net": 0x40000000, "pid": 0x20000000, "mnt": 0x00020000}
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_CAPBSET_READ, PR_CAPBSET_DROP = 1, 4, 15, 23, 24
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "armv7l": 218, "ppc64le": 203, "s390x": 217}
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES_TAKEN = (2, 16, 17, 19, 21, 22, 25, 27, 30, 32, 33, 34, 35, 38, 39, 40)
"""dac_read_search, sys_module, sys_rawio, sys_ptrace, sys_admin, sys_boot, sys_time, mknod, audit_control,
mac_override, mac_admin, syslog, wake_alarm, perfmon, bpf, checkpoint_restore: by these a machine could reach the host's
disks, kernel, clock or processes."""

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus")
"""Below /proc: what belongs to the host's kernel and not to a namespace."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError as the kernel does."""
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None), target)


def unmount(target: str) -> None:
    """umount(2), of what is still in use too: it goes when its last user does. Raises OSError as the kernel does."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def make_opaque(upper: str, path: str, lower: str) -> None:
    """Make `path` of the machine an empty folder, whatever the image has there, or gets; owners and modes as there."""
    here, below = upper, lower
    for name in [name for name in path.split("/") if name]:
        here, below = f"{here}/{name}", f"{below}/{name}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(here, 0o755)
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(below, follow_symlinks=False)
                os.chown(here, found.st_uid, found.st_gid)
                os.chmod(here, stat.S_IMODE(found.st_mode))
    os.setxattr(here, "trusted.overlay.opaque", b"y")


def enter_root(spec: Spec, disk: str) -> int:
    """Mount the machine's root and make it this process's; a descriptor of the host's, which lies upon it unseen."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    if not os.path.isdir(f"{disk}/upper"):
        os.mkdir(f"{disk}/upper.new", 0o755)
        for path in spec["hidden"]:
            make_opaque(f"{disk}/upper.new", path, spec["image"])
        os.mkdir(f"{disk}/work", 0o700)
        os.mkdir(f"{disk}/root", 0o755)
        # Last: a disk that has it is whole.
        os.rename(f"{disk}/upper.new", f"{disk}/upper")
    mount(
        "saltlite-machine",
        f"{disk}/root",
        "overlay",
        MS_NODEV,
        f"lowerdir={spec['image']},upperdir={disk}/upper,workdir={disk}/work",
    )
    host = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.chdir(f"{disk}/root")
    _check(_libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    return host


def furnish(spec: Spec, host: int) -> None:
    """Mount what every machine needs, show what the host lends, and let go of the host's root."""
    for folder in ("/proc", "/sys", "/dev", "/run", "/etc", "/tmp", "/var/log"):  # noqa: S108 - the machine's own
        os.makedirs(folder, exist_ok=True)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m")
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name, numbers in DEVICES.items():
        os.mknod(f"/dev/{name}", 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        os.chmod(f"/dev/{name}", 0o666)  # noqa: S103 - devices that are everybody's
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.mkdir("/dev/pts")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/shm")  # noqa: S108 - the machine's own
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=16m")  # noqa: S108 - as above
    for folder in spec["shown"]:
        os.makedirs(folder, exist_ok=True)
        show(f"/proc/self/fd/{host}{folder}", folder)
    for folder in spec["hidden"]:
        if any(folder.startswith(f"{shown}/") for shown in spec["shown"]) and os.path.isdir(folder):
            mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "mode=755,size=4k")
    for name in READ_ONLY_PROC:
        if os.path.exists(f"/proc/{name}"):
            show(f"/proc/{name}", f"/proc/{name}")
    resolver = read_small(f"/proc/self/fd/{host}/etc/resolv.conf")
    os.close(host)
    # Both roots are at "/"; the one on top, the host's, is the one that goes (pivot_root(2)).
    unmount(".")
    os.chdir("/")
    name_itself(spec, resolver)


def show(source: str, target: str) -> None:
    """Show `source` at `target`, read-only."""
    mount(source, target, "", MS_BIND)
    mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def read_small(path: str) -> str:
    """A text file, empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def write_plain(path: str, data: bytes, mode: int = 0o644) -> None:
    """A plain file in place of whatever is there, a link to elsewhere included; whole or not at all."""
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        os.rename(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def name_itself(spec: Spec, resolver: str) -> None:
    """Host name, hosts, resolver and machine id: its own, not those of the image."""
    name, short = spec["name"], spec["name"].partition(".")[0]
    names = name if name == short else f"{name} {short}"
    socket.sethostname(name)
    files = {
        "hostname": f"{name}\n",
        "hosts": f"127.0.0.1 localhost\n::1 localhost\n{spec['address']} {names}\n",
        "machine-id": f"{spec['uid']:0>32}\n",
        **({"resolv.conf": resolver} if resolver else {}),
    }
    for path, text in files.items():
        write_plain(f"/etc/{path}", text.encode())


def close_the_way_out() -> None:
    """Let the machine's root not reach this process's files, of which /proc/<pid>/exe is the host's interpreter.

    Must be so before the machine sees the process, which needs sys_ptrace then; processes that are forked from here
    inherit it, and lose it with exec, when their files are the machine's. Contract: PR_SET_DUMPABLE in prctl(2).
    """
    _check(_libc.prctl(PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0), "dumpable")


def give_up_capabilities() -> None:
    """Let go of what reaches beyond the machine, here and in everything that is started from here."""
    for number in CAPABILITIES_TAKEN:
        if _libc.prctl(PR_CAPBSET_READ, ctypes.c_ulong(number), 0, 0, 0) == 1:
            _check(_libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0), "capability")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, sets), "capabilities")
    taken = sum(1 << number for number in CAPABILITIES_TAKEN)
    for at, kept in enumerate(sets):
        sets[at] = kept & ~(taken >> 32 if at >= 3 else taken) & 0xFFFFFFFF
    _check(_libc.capset(header, sets), "capabilities")


def address_itself(spec: Spec) -> None:
    """Give eth0 its address, with the host's `ip`, while the host's root is still here."""
    lines = [
        "link set lo up",
        f"addr add {spec['address']}/{spec['prefix']} dev eth0",
        "link set eth0 up",
        f"route add default via {spec['gateway']}",
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True, capture_output=True)


class Services:
    """The commands that run as long as the machine does, started again when they end."""

    def __init__(self) -> None:
        self._wanted: dict[str, float] = {}
        """Line of the file -> when it may be started (seconds of the monotonic clock)."""
        self._running: dict[int, str] = {}

    def read(self) -> None:
        """Take new lines of the file; what runs is left alone."""
        for line in read_small(SERVICES).splitlines():
            self._wanted.setdefault(line, 0.0)

    def start_due(self) -> None:
        """Start what does not run and is due."""
        for line, due in self._wanted.items():
            if line not in self._running.values() and due <= time.monotonic():
                self._wanted[line] = time.monotonic() + RESTART_S
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    self._running[self._start(json.loads(line))] = line

    def ended(self, pid: int) -> None:
        """A child has ended, and may have been one of them."""
        self._running.pop(pid, None)

    @staticmethod
    def _start(command: Spec) -> int:
        console = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, CONSOLE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        argv: list[str] = command["argv"]
        return os.posix_spawnp(argv[0], argv, command["env"], file_actions=console, setsid=True, setsigmask=())


def be_process_one() -> None:
    """Run the services and reap whatever ends; on SIGTERM end everything. SIGHUP: look for new services."""
    heard = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    services = Services()
    services.read()
    while True:
        services.start_due()
        found = signal.sigtimedwait(heard, RESTART_S)
        if found and found.si_signo in (signal.SIGTERM, signal.SIGINT):
            return
        if found and found.si_signo == signal.SIGHUP:
            services.read()
        for pid in reap():
            services.ended(pid)


def reap() -> list[int]:
    """The children that have ended since the last call."""
    found: list[int] = []
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            found.append(pid)
    return found


def end_all() -> None:
    """End every other process of the machine, hard after STOP_S."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                signal.sigtimedwait((signal.SIGCHLD,), 0.05)


def boot() -> int:
    """Make the namespaces and process 1 in them.

    In: a line with the machine (name, uid, disk, image, hidden, shown, group). Out: the pid of process 1. In: a line
    with the network (address, prefix, gateway), once eth0 is there; without it, process 1 ends and nothing is left.
    Out: "up", or what failed.
    """
    close_the_way_out()
    spec: Spec = json.loads(sys.stdin.buffer.readline())
    join_group(spec["group"])
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    _check(_libc.unshare(sum(NAMESPACES.values())), "namespaces")
    pid = os.fork()
    if pid:
        print(pid, flush=True)  # noqa: T201 - the answer
        return 0
    _libc.prctl(PR_SET_NAME, TITLE, 0, 0, 0)
    network = sys.stdin.buffer.readline()
    if not network.endswith(b"\n"):
        return 1
    try:
        spec |= json.loads(network)
        address_itself(spec)
        os.umask(0o022)
        furnish(spec, enter_root(spec, spec["disk"]))
        give_up_capabilities()
        status = "up"
    except subprocess.CalledProcessError as error:
        status = f"ip: {error.stderr.strip()}"
    except OSError as error:
        status = f"{error.filename or 'system'}: {error.strerror}"
    # The machine stays even if its starter is gone.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{status}\n".encode())
    if status != "up":
        return 1
    detach()
    be_process_one()
    end_all()
    return 0


def detach() -> None:
    """Close the file descriptors of the starter."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, 4096)


def join_group(group: str) -> None:
    """Put this process into the control group, whose limits its children share: folders with ":" between, or ""."""
    for folder in filter(None, group.split(":")):
        with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))


def go_in(pid: int, group: str) -> None:
    """Go into the machine whose process 1 is `pid`: this process is there, but for the pids of its children."""
    close_the_way_out()
    join_group(group)
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    spaces = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind) for name, kind in NAMESPACES.items()]
    for space, kind in spaces:
        _check(_libc.setns(space, kind), "namespaces")
        os.close(space)
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    os.chdir("/")


def enter(pid: int, group: str, argv: list[str]) -> int:
    """Run a command in the machine; its exit code, 128 + n when signal n ended it, 127 when it does not start."""
    go_in(pid, group)
    try:
        child = os.fork()
    except OSError as error:
        print(f"the machine starts no process: {error.strerror}", file=sys.stderr)  # noqa: T201 - as a shell would
        return 127
    if child == 0:
        try:
            # The command ends with this process.
            _libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
            give_up_capabilities()
            os.execvp(argv[0], argv)  # noqa: S606 - that is what it is for
        except OSError as error:
            print(f"{argv[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201 - as a shell would
            os._exit(127)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def put(pid: int, group: str) -> int:
    """Write files in the machine. In: one JSON line with a list of {path, mode, data (base64)}. Out: what failed."""
    files: list[Spec] = json.loads(sys.stdin.buffer.readline())
    go_in(pid, group)
    os.umask(0o022)
    for file in files:
        path: str = file["path"]
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_plain(path, base64.b64decode(file["data"]), file["mode"])
        except OSError as error:
            print(f"{path}: {error.strerror}")  # noqa: T201 - the answer
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "boot":
        sys.exit(boot())
    if sys.argv[1] == "put":
        sys.exit(put(int(sys.argv[2]), sys.argv[3]))
    sys.exit(enter(int(sys.argv[2]), sys.argv[3], sys.argv[5:]))
