"""The versions of saltlite that are installed beside that of the machine's package, and the change to one of them.

`saltlite upgrade` puts each version into a virtual environment of its own, `versions/<tree>` beside the minion's
data_dir. `version.json` in data_dir says which one runs; it is replaced as a whole, so the change is atomic. The minion
always starts as the base, the version of the package, which becomes the chosen one by exec(2):

    (no file) -> trial -> trial, begun -> current       the new version had a session with a master
                                       -> rolled back   it ended, or had none in time: the version before runs again

A process of the version before restarts the minion and watches the trial, so that a new version that cannot even start
is rolled back, too. Where that process is gone, as after a power failure, the new version rolls itself back after the
same time, and the base does it at its next start: a trial begins once. When the package brings another version, the
file is of no use any more, and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite import __version__
from saltlite.errors import StartupError

if TYPE_CHECKING:
    import subprocess

log = logging.getLogger(__name__)

FILE = "version.json"
UPGRADED, ROLLED_BACK = "upgraded", "rolled back"
SETTLE_S = 1.0
"""How long the job that installed a version has to report, before the minion is restarted."""
STOP_S = 20.0
"""How long a minion may take to stop; as in its unit."""
POLL_S = 0.2
_TREE = re.compile(r"(?![.])[A-Za-z0-9.+_-]+", re.ASCII)
"""The name of a tree: no path leads out of the folder of the versions."""
WITHIN_S = 60.0
"""How long a trial may take whose file does not say it."""
GRACE_S = 30.0
"""How much later than the process that watches a trial the new version rolls itself back."""
ENDED = "it ended before it was connected"

State = dict[str, Any]
"""`base`: its version; `command`: how it is started; `current`: the tree that runs, "" for the base; `trial`: None, or
`tree`, `version`, `begun` and `within`, in seconds; `last`: the end of the last trial: `tree`, `version`, `outcome`,
`reason`, `at`."""


def folder_of(data_dir: str) -> str:
    """The folder of the versions. Other users may read it, because jobs run as other users."""
    return os.path.join(os.path.dirname(os.path.abspath(data_dir)), "versions")


def own_tree(data_dir: str) -> str:
    """The tree that this process runs from, "" for the base."""
    above, name = os.path.split(sys.prefix)
    return name if above == folder_of(data_dir) else ""


def read_state(data_dir: str) -> State | None:
    """The content of the file; None if there is none, or it cannot be read."""
    try:
        with open(os.path.join(data_dir, FILE), encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict) or not {"base", "current", "trial"} <= found.keys():
            return None
        trees = [found["current"] or "none", found["trial"]["tree"] if found["trial"] else "none"]
        return found if all(map(_TREE.fullmatch, trees)) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def enter(data_dir: str) -> None:
    """Become the chosen version, if this process is the base and another one was chosen. Then it does not return.

    A file that cannot be written, as on a full disk, keeps no minion from starting: it goes on as the base.
    """
    state = read_state(data_dir)
    if state is None or own_tree(data_dir):
        return
    try:
        _enter(data_dir, state)
    except OSError as error:
        log.error("%s cannot be changed: %s; %s runs", os.path.join(data_dir, FILE), error.strerror, __version__)  # noqa: TRY400 - a sentence


def _enter(data_dir: str, state: State) -> None:
    if state["base"] != __version__:
        log.warning("saltlite %s of the package takes the place of what `saltlite upgrade` did", __version__)
        os.unlink(os.path.join(data_dir, FILE))
        return
    trial, tree = state["trial"], state["current"]
    if trial is not None and trial["begun"]:
        settle(data_dir, trial["tree"], ROLLED_BACK, ENDED)
    elif trial is not None:
        _write(data_dir, {**state, "trial": {**trial, "begun": True}})
        tree = trial["tree"]
    if tree:
        place = os.path.join(folder_of(data_dir), tree, "bin")
        python = os.path.join(place, "python")
        try:
            os.execv(python, [python, os.path.join(place, "saltlite-minion"), *sys.argv[1:]])  # noqa: S606 - no shell
        except OSError as error:
            why = f"it cannot be started: {error.strerror}"
            log.error("saltlite in %s: %s; %s runs", place, why, __version__)  # noqa: TRY400 - a sentence
            settle(data_dir, tree, ROLLED_BACK, why)


def confirm(data_dir: str) -> None:
    """This minion has a session: the trial of its version, if it is one, has gone well. Logs an OSError."""
    tree = own_tree(data_dir)
    try:
        if tree:
            settle(data_dir, tree, UPGRADED, "")
    except OSError as error:
        log.error("the upgrade cannot be confirmed: %s; make room in %s", error.strerror, data_dir)  # noqa: TRY400 - a sentence


def trial_s(data_dir: str) -> float | None:
    """How many seconds the trial of this process's version may take; None if it is not in one."""
    state = read_state(data_dir)
    if state is None or state["trial"] is None or state["trial"]["tree"] != own_tree(data_dir):
        return None
    return float(state["trial"].get("within", WITHIN_S))


def give_up(data_dir: str, tree: str, reason: str) -> bool:
    """Roll back the trial of a tree; whether the minion is to be started again.

    Where the file cannot be written the trial stays begun, and the base rolls it back at its start.
    """
    try:
        return settle(data_dir, tree, ROLLED_BACK, reason)
    except OSError as error:
        log.error("the upgrade cannot be rolled back in %s: %s", data_dir, error.strerror)  # noqa: TRY400 - a sentence
        return True


def give_up_own(data_dir: str) -> bool:
    """Roll back the trial of this process's version, which was not connected in time; as `give_up`."""
    within_s = trial_s(data_dir)
    return within_s is not None and give_up(data_dir, own_tree(data_dir), _not_connected(data_dir, within_s))


def start_base(data_dir: str) -> None:
    """Become the base again. Returns never; raises StartupError if it cannot be started."""
    command = list((read_state(data_dir) or {}).get("command", ()))
    # The other processes of this minion end when their sockets are closed, and hold its lock until then.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    deadline = time.monotonic() + STOP_S
    while _is_locked(data_dir) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell
    except (OSError, IndexError) as error:
        raise StartupError("the version of the package cannot be started: start saltlite-minion again") from error


def settle(data_dir: str, tree: str, outcome: str, reason: str) -> bool:
    """End the trial of a tree; whether there was one."""
    with _locked(data_dir):
        state = read_state(data_dir)
        if state is None or state["trial"] is None or state["trial"]["tree"] != tree:
            return False
        last = {"tree": tree, "version": state["trial"]["version"], "outcome": outcome, "reason": reason}
        current = tree if outcome == UPGRADED else state["current"]
        _write(data_dir, {**state, "current": current, "trial": None, "last": {**last, "at": time.time()}})
        return True


def try_out(data_dir: str, tree: str, version: str, within_s: float) -> None:
    """Begin the trial of an installed tree: restart the minion soon, and watch it, in a process that outlives both.

    Called in a job's process. Raises OSError.
    """
    state = read_state(data_dir) or {"base": __version__, "command": sys.orig_argv, "current": "", "last": None}
    _write(data_dir, {**state, "trial": {"tree": tree, "version": version, "begun": False, "within": within_s}})
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _detach()
            _watch(data_dir, tree, list(state["command"]), within_s)
    finally:
        os._exit(0)


def _detach() -> None:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _watch(data_dir: str, tree: str, command: list[str], within_s: float) -> None:
    """The life of the process that watches a trial."""
    time.sleep(SETTLE_S)
    minion = _Minion(data_dir, command)
    minion.restart()
    deadline, reason = time.monotonic() + within_s, ""
    while time.monotonic() < deadline:
        time.sleep(POLL_S)
        state = read_state(data_dir)
        if state is None or state["trial"] is None or state["trial"]["tree"] != tree:
            return
        if not minion.runs():
            reason = ENDED
            break
    if give_up(data_dir, tree, reason or _not_connected(data_dir, within_s)):
        minion.restart()


def _not_connected(data_dir: str, within_s: float) -> str:
    return f"it was not connected within {within_s:g}s{_status(data_dir)}"


def _status(data_dir: str) -> str:
    """The reason that the new version gave for having no session."""
    try:
        with open(os.path.join(data_dir, "status.json"), encoding="utf-8") as file:
            reason = str(json.load(file).get("reason", ""))[:200]
    except (OSError, ValueError):
        return ""
    return f": {reason}" if reason else ""


class _Minion:
    """The minion of a data_dir, as it can be stopped and started from outside."""

    def __init__(self, data_dir: str, command: list[str]) -> None:
        self._data_dir = data_dir
        self._command = command
        self._pid = self._running_pid()
        """Its first process; 0 when it does not run."""
        self._environment = _environment(self._pid)
        self._output = _output(self._pid)
        self._started: subprocess.Popen[bytes] | None = None
        self._unit = _unit(self._pid) if "NOTIFY_SOCKET" in self._environment else ""
        """Its unit, "" where systemd has not started it."""

    def runs(self) -> bool:
        """Whether it runs, or is going to: systemd starts it again after some of its ends."""
        if self._unit:
            import subprocess  # noqa: PLC0415 - the minion's processes need it for upgrades only

            found = subprocess.run(
                ["systemctl", "is-active", self._unit], stdout=subprocess.PIPE, text=True, check=False
            )
            return found.stdout.strip() in ("active", "activating", "reloading", "deactivating")
        if self._started is not None:
            return self._started.poll() is None
        return bool(self._pid) and _is_alive(self._pid)

    def restart(self) -> None:
        """Stop and start it, by systemd where that has started it."""
        import subprocess  # noqa: PLC0415 - as above

        if self._unit:
            subprocess.run(["systemctl", "restart", self._unit], check=False)
            return
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if self.runs():
                os.kill(self._pid, signum)
            # Its other processes end a moment after it, and hold its lock until then.
            deadline = time.monotonic() + STOP_S
            while (self.runs() or _is_locked(self._data_dir)) and time.monotonic() < deadline:
                time.sleep(POLL_S)
        with open(self._output, "ab") as output:
            self._started = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )
        self._pid = self._started.pid

    def _running_pid(self) -> int:
        try:
            with open(os.path.join(self._data_dir, "lock"), encoding="ascii") as file:
                pid = int(file.read(20))
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return pid if b"saltlite-minion" in file.read(4096) else 0
        except (OSError, ValueError):
            return 0


def _is_locked(data_dir: str) -> bool:
    """Whether a process of a minion runs on this data_dir."""
    try:
        with open(os.path.join(data_dir, "lock"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_alive(pid: int) -> bool:
    """Whether the process runs; one that its parent has not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def _environment(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="surrogateescape") as file:
            return dict(entry.split("=", 1) for entry in file.read().split("\0") if "=" in entry)
    except OSError:
        return dict(os.environ)


def _output(pid: int) -> str:
    """The file that it writes its messages to, or the one that forgets them."""
    with contextlib.suppress(OSError):
        path = os.readlink(f"/proc/{pid}/fd/2")
        if os.path.isfile(path):
            return path
    return os.devnull


def _unit(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        name = file.read().strip().rpartition("/")[2]
        return name if name.endswith(".service") else ""
    return ""


@contextlib.contextmanager
def _locked(data_dir: str) -> Iterator[None]:
    fd = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _write(data_dir: str, state: State) -> None:
    path = os.path.join(data_dir, FILE)
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(fd)
    os.rename(f"{path}.new", path)
