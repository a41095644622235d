"""The ssh command as this type runs it: its arguments, kept connections, answers to its questions.

Nothing that the pillar or a caller says is an option: it stands behind one, or behind `--`, and what runs on the
host is quoted for the shell there. A secret is in no argument, no environment and no file: ssh asks a small script,
which reads the answer from a pipe that only this user can open, once.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shlex
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.resources.types.ssh._faults import NotReachedError, fault_of
from saltlite.resources.types.ssh._host import Host, check_user
from saltlite.resources.types.ssh._process import Finished, run_to_end

CONNECTION_KEPT_S = 120
"""How long a connection that nobody uses stays open."""

CONNECTIONS_KEPT_MAX = 200
"""Connections kept open at once: each is a process. Further hosts are reached anew by each call."""

SCRIPT_BYTES_MAX = 100_000
"""Of one command: Linux takes 128 KiB as one argument, and quoting adds to it. More goes through standard input."""

SOCKETS_IN = "/tmp"  # noqa: S108 - the folder that is made there is private
"""Short on purpose: the path of a socket has 107 bytes at most, and ssh adds 17 of its own for a moment."""

_FOLDER = "saltlite-ssh-"
_SOCKET = "to-"
_PASSED_ON = ("HOME", "PATH")
_AUTH_SOCK = "SSH_AUTH_SOCK"
# Whoever has root on the host could use what is forwarded there; not even the operator's options bring it back.
_NEVER = ("-a", "-k", "-x", "-o", "PermitLocalCommand=no")
_FAILED_ITSELF = 255
_COMMAND_255 = b"saltlite: the command itself returned 255\n"
_CONTROL_S = 5.0

_ASKPASS = """\
#!/bin/sh
# Answers one question of ssh. The answer is in a pipe that only this user can open, and it is there once.
case "$1" in
  "Enter passphrase for "*) pipe=$SALTLITE_ANSWERS.key ;;
  *) pipe=$SALTLITE_ANSWERS.login ;;
esac
[ -p "$pipe" ] || exit 1
IFS= read -r answer <"$pipe" || exit 1
rm -f "$pipe"
printf '%s\\n' "$answer"
"""

_AS_LOGIN = '"$2" -c "$1"'
_AS_ROOT = 'sudo -n -- "$2" -c "$1"'
_AS_USER = (
    'if command -v sudo >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then sudo -n -u "$3" -- "$2" -c "$1"; '
    'else su -s "$2" -c "$1" -- "$3"; fi'
)
# What the login shell's own files print is no output of the command, and what prints no such mark is not our command.
_BEGIN = b"saltlite: begin\n"
_TELL_BEGIN = f"printf %s\\\\n {shlex.quote(_BEGIN.decode().strip())}; "
# ssh returns 255 for its own failures: a command that returns it says so.
_TELL_255 = f"; r=$?; [ $r != 255 ] || printf %s\\\\n {shlex.quote(_COMMAND_255.decode().strip())} >&2; exit $r"


class Outcome(NamedTuple):
    """What a command on a host did. `dropped` counts bytes of output that were too many."""

    retcode: int
    stdout: bytes
    stderr: bytes
    dropped: int


class Connections:
    """All kept connections of one process. Several threads may run commands, each on another host."""

    def __init__(self, cachedir: str) -> None:
        """Write the script that answers ssh into a folder of `cachedir`. Raises OSError."""
        folder = os.path.join(cachedir, "ssh-resources")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.chmod(folder, 0o700)  # a folder that was there may be more open
        self._askpass = os.path.join(folder, "askpass")
        # Replaced, never written to: another process may be running it.
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as stream:
            stream.write(_ASKPASS)
        os.chmod(stream.name, 0o700)
        os.replace(stream.name, self._askpass)
        _tidy()
        self._lock = threading.Lock()
        self._folder: str | None = None
        self._used: dict[str, Host] = {}

    def run(
        self,
        host: Host,
        script: str,
        *,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        runas: str | None = None,
        shell: str = "/bin/sh",
    ) -> Outcome:
        """Run a shell script on a host, as root where the pillar says `sudo`, or as `runas`.

        Raises CommandExecutionError with a sentence when the host is not reached or the time is up, and
        SaltInvocationError for a script that is too long or holds a zero byte.
        """
        limit_s = host.timeout if timeout_s is None else timeout_s
        remote = _remote_line(script, shell, runas, sudo=host.sudo)
        tty = host.tty and stdin is None
        with self._answers(host) as (env, log):
            argv = self._argv(host, log, tty=tty)
            done = run_to_end([*argv, "--", host.host, remote], env, stdin, limit_s)
            said = _text_of(log)
        if done.late:
            self._end(host)
            raise NotReachedError(f"{host.resource_id}: timed out after {limit_s:g} s at {host.place}.")
        return _outcome(host, done, said, tty=tty)

    def close(self) -> None:
        """End all kept connections."""
        for host in list(self._used.values()):
            self._end(host)
        with self._lock:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _argv(self, host: Host, log: str, *, tty: bool) -> list[str]:
        own = self._options(host) | self._control(host)
        argv = ["ssh", "-tt" if tty else "-T", *_NEVER, "-E", log]
        # The first word about an option counts: after those the operator's comes first.
        for option in (*host.ssh_options, *(f"{name}={value}" for name, value in own.items())):
            argv += ["-o", option]
        if host.priv:
            argv += ["-i", host.priv]
        return [*argv, "-l", host.user, "-p", str(host.port)]

    def _options(self, host: Host) -> dict[str, str]:
        options = {
            "LogLevel": "ERROR",
            "EscapeChar": "none",
            "RemoteCommand": "none",
            "ClearAllForwardings": "yes",
            "BatchMode": "no" if host.has_secret else "yes",
            "NumberOfPasswordPrompts": "1",
            "StrictHostKeyChecking": host.host_key_checking,
            "ConnectTimeout": str(max(1, int(host.timeout))),
            "ServerAliveInterval": str(host.keepalive_interval if host.keepalive else 0),
            "ServerAliveCountMax": str(host.keepalive_count_max),
        }
        if host.passwd is None and host.priv_passwd is not None:
            options["PreferredAuthentications"] = "publickey"
        if host.passwd is not None and host.priv is None:
            # The keys of the minion's user would use up the attempts that the other side allows.
            options["PubkeyAuthentication"] = "no"
        if host.identities_only:
            options["IdentitiesOnly"] = "yes"
        if host.no_host_keys:
            options["UserKnownHostsFile"] = options["GlobalKnownHostsFile"] = "/dev/null"
        elif host.known_hosts_file:
            options["UserKnownHostsFile"] = _quoted(host.known_hosts_file)
        return options

    def _control(self, host: Host) -> dict[str, str]:
        """Options that keep the connection for the next call, while not too many are kept."""
        folder, name = self._place(), _name_of(host)
        kept = os.listdir(folder)
        if name not in kept and sum(each.startswith(_SOCKET) for each in kept) >= CONNECTIONS_KEPT_MAX:
            return {"ControlMaster": "no", "ControlPath": "none"}
        self._used[name] = host
        path = _quoted(os.path.join(folder, name))
        return {"ControlMaster": "auto", "ControlPath": path, "ControlPersist": str(CONNECTION_KEPT_S)}

    def _end(self, host: Host) -> None:
        """End the kept connection of a host, if there is one: after a time limit it may lead nowhere."""
        name = _name_of(host)
        path = os.path.join(self._place(), name)
        self._used.pop(name, None)
        if os.path.exists(path):
            argv = ["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={_quoted(path)}", "--", host.host]
            run_to_end(argv, _environment(host), None, _CONTROL_S)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _place(self) -> str:
        """The private folder of the sockets; a new one, when something has tidied it away."""
        with self._lock:
            if self._folder is None or not os.path.isdir(self._folder):
                self._folder = tempfile.mkdtemp(prefix=_FOLDER, dir=SOCKETS_IN)
            return self._folder

    @contextlib.contextmanager
    def _answers(self, host: Host) -> Iterator[tuple[dict[str, str], str]]:
        """The environment of one ssh, and the file for its log; its questions are answered until the end."""
        with contextlib.ExitStack() as stack:
            log = _new_file(self._place())
            stack.callback(_remove, log)
            env = _environment(host)
            if host.has_secret:
                # DISPLAY is for an ssh older than 8.4, which asks a program only where there is one.
                env |= {"SSH_ASKPASS": self._askpass, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
                env["SALTLITE_ANSWERS"] = log
                for ending, secret in (("key", host.priv_passwd), ("login", host.passwd)):
                    if secret is not None:
                        _offer(f"{log}.{ending}", secret, stack)
            yield env, log


def _outcome(host: Host, done: Finished, log: str, *, tty: bool) -> Outcome:
    stdout, stderr = done.stdout, done.stderr
    if tty:
        stdout = stdout.replace(b"\r\n", b"\n")
    if done.retcode == _FAILED_ITSELF:
        if stderr.endswith(_COMMAND_255):
            stderr = stderr.removesuffix(_COMMAND_255)
        elif stdout.endswith(_COMMAND_255):
            stdout = stdout.removesuffix(_COMMAND_255)
        elif not done.dropped:
            # Of options that it does not know ssh complains before it has a log.
            early = stderr.decode(errors="replace") if b"onfiguration option" in stderr else ""
            raise fault_of(host, log or early)
    elif done.retcode < 0:
        raise CommandExecutionError(f"{host.resource_id}: ssh was killed by signal {-done.retcode}.")
    before, begun, stdout = stdout.partition(_BEGIN)
    if not begun:
        said = (before.strip() or stderr.strip()).decode(errors="replace")[:300]
        raise CommandExecutionError(
            f"{host.resource_id}: {host.place} runs something else than the command that it is given: {said}"
        )
    return Outcome(done.retcode, stdout, stderr, done.dropped)


def _remote_line(script: str, shell: str, runas: str | None, *, sudo: bool) -> str:
    """The text that the login shell on the other side reads: one `sh` with quoted arguments."""
    if "\0" in script or len(script.encode(errors="surrogateescape")) > SCRIPT_BYTES_MAX:
        raise SaltInvocationError(
            f"A command has at most {SCRIPT_BYTES_MAX} bytes, and no zero byte; more data goes in as stdin."
        )
    if not shell.startswith("/") or "\0" in shell:
        raise SaltInvocationError(f"{shell!r} is not the path of a shell.")
    if script[:1] in {"-", "+"}:
        script = f"\n{script}"  # or the shell there takes it for an option
    how = _AS_USER if runas is not None else _AS_ROOT if sudo else _AS_LOGIN
    words = [_TELL_BEGIN + how + _TELL_255, "sh", script, shell]
    if runas is not None:
        words.append(check_user(runas))
    return f"exec sh -c {' '.join(map(shlex.quote, words))}"


def _name_of(host: Host) -> str:
    """The name of the socket: hosts that differ in anything but secrets share no connection."""
    return _SOCKET + hashlib.sha256(repr(host).encode()).hexdigest()[:16]


def _quoted(path: str) -> str:
    """A path as the value of an option of ssh, which has blanks between values and `%` before its variables."""
    return '"' + path.replace("%", "%%") + '"'


def _environment(host: Host) -> dict[str, str]:
    """Little of the minion's: ssh passes the locale on to the other side, and secrets have no business there."""
    source: Mapping[str, str] = os.environ
    passed_on = (*_PASSED_ON, _AUTH_SOCK) if host.use_auth_sock and not host.identities_only else _PASSED_ON
    return {name: source[name] for name in passed_on if name in source}


def _new_file(folder: str) -> str:
    """The path of a new file. Raises CommandExecutionError when there is no room for it."""
    try:
        with tempfile.NamedTemporaryFile(prefix="log", dir=folder, delete=False) as stream:
            return stream.name
    except OSError as error:
        raise CommandExecutionError(f"No log for ssh can be made in {folder}: {error.strerror}.") from error


def _offer(path: str, secret: str, stack: contextlib.ExitStack) -> None:
    """Have a secret wait in a pipe for whoever reads it first; it is gone at the end."""
    os.mkfifo(path, 0o600)
    stack.callback(_remove, path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    stack.callback(os.close, pipe)
    os.write(pipe, f"{secret}\n".encode())


def _tidy() -> None:
    """Remove the folders of processes that were killed, once the last of their connections has ended itself."""
    for path in glob.glob(f"{SOCKETS_IN}/{_FOLDER}*"):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(65_536)
    except FileNotFoundError:
        return ""
