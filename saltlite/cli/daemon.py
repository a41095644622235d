"""The command line of the daemons, how they go to the background, and how they report a failed start."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from saltlite import __version__
from saltlite.config.paths import DEFAULT_CONFIG_DIR, is_url, require_path
from saltlite.errors import SaltliteError, UsageError

TYPE_CHECKING = False  # typing costs start-up time
if TYPE_CHECKING:
    import socket
    from typing import Any, TypeVar

    T = TypeVar("T")


class DaemonLine:
    """The command line of a daemon. `options` are those of the configuration that it overrides."""

    __slots__ = ("config_dir", "daemon", "options", "pid_file")

    def __init__(
        self, config_dir: str, *, daemon: bool = False, pid_file: str = "", options: dict[str, Any] | None = None
    ) -> None:
        self.config_dir = config_dir
        self.daemon = daemon
        self.pid_file = pid_file
        self.options = options or {}

    def applied(self, config: T) -> T:
        """The configuration with the options of the command line. Raises UsageError for a daemon without a log."""
        if self.daemon and not getattr(config, "log_file", ""):
            raise UsageError("a process in the background needs a log: set log_file, or leave -d out")
        if not self.options:
            return config
        import copy  # most command lines have no such options

        changed = copy.copy(config)
        for name, value in self.options.items():
            object.__setattr__(changed, name, value)
        return changed


def line_of(program: str, what: str, argv: list[str] | None) -> DaemonLine:
    """The command line of a daemon."""
    match sys.argv[1:] if argv is None else argv:
        case []:
            return DaemonLine(DEFAULT_CONFIG_DIR)
        case ["-c" | "--config-dir", folder] if not folder.startswith("-") and not is_url(folder):
            return DaemonLine(folder)
        case words:
            return _parsed(program, what, words)


def _parsed(program: str, what: str, words: list[str]) -> DaemonLine:
    import argparse  # 1 MiB of each process of the daemon, and the usual command lines need no parser

    from saltlite.config.values import LOG_LEVELS

    def path(text: str) -> str:
        try:
            return require_path(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    parser = argparse.ArgumentParser(prog=program, description=what, allow_abbrev=False)
    parser.add_argument(
        "-c",
        "--config-dir",
        default=DEFAULT_CONFIG_DIR,
        metavar="DIR",
        type=path,
        help=f"default: {DEFAULT_CONFIG_DIR}",
    )
    parser.add_argument(
        "-d", "--daemon", action="store_true", help="go to the background; this command ends when the daemon is ready"
    )
    parser.add_argument("--pid-file", "--pidfile", default="", metavar="PATH", type=path, help="write the pid there")
    parser.add_argument("-l", "--log-level", choices=LOG_LEVELS, metavar="LEVEL", help="overrides log_level")
    parser.add_argument("--log-file", metavar="PATH", type=path, help="overrides log_file")
    parser.add_argument("-u", "--user", metavar="NAME", help="overrides user")
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    found = parser.parse_args(words)
    options = {name: getattr(found, name) for name in ("log_level", "log_file", "user") if getattr(found, name)}
    for name in ("pid_file", "log_file"):
        given = getattr(found, name)
        if given and not given.startswith("/"):
            parser.error(f"--{name.replace('_', '-')} takes an absolute path, not {given}")
    return DaemonLine(found.config_dir, daemon=found.daemon, pid_file=found.pid_file, options=options)


def reported(program: str, line: DaemonLine, run: Callable[[], None]) -> int:
    """Run the daemon; an error becomes one sentence on stderr and its exit code."""
    tell: Callable[[str], None] = _print
    try:
        if line.daemon:
            tell = _detached(tell)
        if line.pid_file:
            _write_pid(line.pid_file)
        run()
    except SaltliteError as error:
        tell(f"{program}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        if line.pid_file:
            _remove_pid(line.pid_file)
    return 0


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - the log may not exist yet


def _write_pid(path: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"the file {path} for the pid cannot be written: {error.strerror}") from error
    with open(fd, "w") as file:
        file.write(f"{os.getpid()}\n")


def _remove_pid(path: str) -> None:
    """Remove the file, if it is that of this process."""
    try:
        with open(path) as file:
            if file.read().strip() == str(os.getpid()):
                os.unlink(path)
    except OSError:
        return  # the daemon may no longer write there


# --- In the background: this process waits until the daemon, its child, is ready or has failed ---

_CREDENTIALS_SIZE = 256
"""Room for the credentials of a sender, which the kernel adds to a message."""
_SENTENCE = "STATUS=failed: "
"""Begins the line of a notification that has the sentence of a failed start."""


def _detached(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Continue in a child in a session of its own, without this terminal; how it tells the sentence of a failed start.

    The child notifies its parent as it would notify systemd; nothing of the child keeps the caller's pipes open.
    """
    import socket

    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    # Before it has a name: every local user may send to that.
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    heard.bind("")  # the kernel chooses a name
    address = heard.getsockname()
    pid = os.fork()
    if pid:
        code, sentence = _outcome(heard, pid)
        if sentence:
            tell(sentence)
        sys.stderr.flush()
        os._exit(code)
    heard.close()
    os.setsid()
    os.environ["NOTIFY_SOCKET"] = f"@{address[1:].decode()}"
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)

    def notify(sentence: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto((_SENTENCE + sentence).encode(), address)

    return notify


def _outcome(heard: socket.socket, pid: int) -> tuple[int, str]:
    """The exit code of this command, and why the start failed."""
    sentence = ""
    while True:
        # What a child has sent is there when it has ended, so it is read after that.
        ended, status = os.waitpid(pid, os.WNOHANG)
        heard.settimeout(0 if ended else 0.1)
        try:
            while True:
                data, credentials, _flags, _address = heard.recvmsg(65536, _CREDENTIALS_SIZE)
                said = data.decode(errors="replace")
                if not _is_of(pid, credentials):
                    continue
                if said.startswith(_SENTENCE):
                    sentence = "".join(filter(str.isprintable, said.removeprefix(_SENTENCE)))
                elif "READY=1" in said.split("\n"):
                    return 0, ""
        except OSError:
            if ended:
                return os.waitstatus_to_exitcode(status), sentence


def _is_of(pid: int, credentials: list[tuple[int, int, bytes]]) -> bool:
    """Whether the sender is the child `pid`, a process of its session, root, or this user."""
    import socket
    import struct

    for level, kind, data in credentials:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender, uid, _gid = struct.unpack("iII", data[:12])
            if sender == pid or uid in (0, os.geteuid()):
                return True
            try:
                return os.getsid(sender) == pid
            except OSError:
                return False  # it has ended
    return False
