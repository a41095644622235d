"""The OpenSSH client as this type runs it: host settings, arguments, kept connections, secrets, errors as sentences.

No text from the pillar or a caller can become an option: it follows an option or `--`, and whatever runs on the host is
quoted for its shell. No secret is in an argument, the environment or a file: ssh runs a small script, which reads the
answer once from a pipe that only this user can open.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import selectors
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

# -- the settings of one host, checked: only these values reach the command line of ssh

TIMEOUT_S = 30.0
PACKAGES_TIMEOUT_S = 600.0
"""How long a command about packages may take, when the caller does not say."""
TIMEOUT_MAX_S = 86_400.0
SECRET_MAX = 1000
"""Bytes of a password in UTF-8; ssh itself reads no more than 1023."""

_HOST = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]{0,254}", re.ASCII)
# What ssh and the shells of both sides read otherwise than as a name stays out; the rest is the other side's business.
_USER = re.compile(r"[^\s\x00-\x20\x7f\-'\"`$;&<>|(){}*?!\\][^\s\x00-\x20\x7f'\"`$;&<>|(){}*?!]{0,254}")
_PATH = re.compile(r"[/~][^\x00-\x1f\x7f\"]{0,4095}")
_OPTION = re.compile(r"[A-Za-z0-9]+(?: *= *| +)[^\x00-\x1f\x7f]+", re.ASCII)
_CHECKS = {"accept_new_host_keys": "accept-new", "ignore_host_keys": "no", "no_host_keys": "no"}
"""Option of the pillar -> StrictHostKeyChecking; without any of them, only known keys are accepted."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where a resource is and how one gets there; times are seconds. Secrets are not shown."""

    resource_id: str
    host: str
    user: str = "root"
    port: int = 22
    priv: str | None = None
    priv_passwd: str | None = field(default=None, repr=False)
    passwd: str | None = field(default=None, repr=False)
    sudo: bool = False
    tty: bool = False
    timeout: float = TIMEOUT_S
    identities_only: bool = False
    use_auth_sock: bool = False
    accept_new_host_keys: bool = False
    ignore_host_keys: bool = False
    no_host_keys: bool = False
    known_hosts_file: str | None = None
    ssh_options: tuple[str, ...] = ()
    keepalive: bool = True
    keepalive_interval: int = 60
    keepalive_count_max: int = 3

    @property
    def place(self) -> str:
        """Where it is, for sentences."""
        return f"{self.user}@{self.host} port {self.port}"

    @property
    def has_secret(self) -> bool:
        """Whether ssh will ask something."""
        return self.passwd is not None or self.priv_passwd is not None

    @property
    def host_key_checking(self) -> str:
        """The value of StrictHostKeyChecking: `yes` unless the pillar names something else."""
        return next((check for name, check in _CHECKS.items() if getattr(self, name)), "yes")


_FIELDS = tuple(name for name in Host.__dataclass_fields__ if name != "resource_id")
_BOOLEANS = ("sudo", "tty", "identities_only", "use_auth_sock", *_CHECKS, "keepalive")
_NUMBERS = {"port": 65_535, "keepalive_interval": 86_400, "keepalive_count_max": 1000}


def host_of(resource_id: str, pillar: object) -> Host:
    """The host that the pillar describes under this id. Raises CommandExecutionError that names what is wrong."""
    where = f"Pillar of ssh, host {resource_id!r}:"
    if not isinstance(pillar, Mapping):
        raise CommandExecutionError(f"{where} it must be a mapping with at least `host`.")
    unknown = [name for name in pillar if name not in _FIELDS]
    if unknown:
        raise CommandExecutionError(f"{where} {unknown[0]!r} is not known; it may have {', '.join(_FIELDS)}.")
    given: dict[str, Any] = {name: value for name, value in pillar.items() if value is not None}
    if "host" not in given:
        raise CommandExecutionError(f"{where} `host` is missing: the name or address to connect to.")
    for name, value in given.items():
        problem = problem_of(name, value)
        if problem:
            raise CommandExecutionError(f"{where} {name} {problem}.")
    if sum(bool(given.get(name)) for name in _CHECKS) > 1:
        raise CommandExecutionError(f"{where} only one of {', '.join(_CHECKS)} can be set.")
    given["ssh_options"] = tuple(given.get("ssh_options", ()))
    given["timeout"] = float(given.get("timeout", TIMEOUT_S))
    return Host(resource_id, **given)


def check_user(name: object) -> str:
    """A user's name that is one to ssh, sudo and su. Raises CommandExecutionError."""
    if isinstance(name, str) and _USER.fullmatch(name):
        return name
    raise CommandExecutionError(f"{name!r} is not the name of a user.")


def problem_of(name: str, value: Any) -> str | None:  # noqa: C901, PLR0911, PLR0912, RUF100 - one case a kind of option
    """What is wrong with the value of an option, or None. The values of secrets are not repeated."""
    match name:
        case "host":
            return None if _matches(_HOST, value) else f"is {value!r}, which is neither a host name nor an address"
        case "user":
            return None if _matches(_USER, value) else f"is {value!r}, which is not a name of a user"
        case "passwd" | "priv_passwd":
            right = isinstance(value, str) and value.isprintable() and 0 < len(value.encode()) <= SECRET_MAX
            return None if right else f"must be text of 1 to {SECRET_MAX} bytes in one line; put it in quotes"
        case "priv" | "known_hosts_file":
            return None if _matches(_PATH, value) else f"is {value!r}; it must be an absolute path, or begin with ~"
        case "ssh_options":
            right = isinstance(value, Sequence) and not isinstance(value, str)
            wrong = [each for each in value if not _matches(_OPTION, each)] if right else [value]
            return f"has {wrong[0]!r}; each must be text like Name=value" if wrong else None
        case "timeout":
            right = not isinstance(value, bool) and isinstance(value, int | float) and 0 < value <= TIMEOUT_MAX_S
            return None if right else f"is {value!r}; it must be seconds, up to {TIMEOUT_MAX_S:g}"
        case _ if name in _BOOLEANS:
            return None if isinstance(value, bool) else f"is {value!r}; it must be True or False"
        case _:
            right = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _NUMBERS[name]
            return None if right else f"is {value!r}; it must be a whole number from 1 to {_NUMBERS[name]}"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


# -- messages of ssh as sentences with a way out


class NotReachedError(CommandExecutionError):
    """A host did not let ssh in, or let go of it. `denied`: what was offered is not taken there.

    `passing`: a host that is being made or restarted looks like this for a while.
    """

    def __init__(self, text: str, *, denied: bool = False, passing: bool = False) -> None:
        super().__init__(text)
        self.denied = denied
        self.passing = passing


_DENIED = ("permission denied:",)
_PASSING = ("connection refused:", "name not found:", "no route:", "timed out after", "connection closed:")

_NOISE = re.compile(r"ControlSocket |mux_client|.*disabling multiplexing|Shared connection to |@+$|\s*$")
_METHODS = re.compile(r"Permission denied \(([^)]*)\)")
_OFFERED = re.compile(r"no matching (.+?) found\. Their offer: (\S+)")


def _denied(host: Host, log: str) -> str:
    found = _METHODS.search(log)
    takes = f"; it takes {found[1].replace(',', ', ')}" if found else ""
    key = next((line for line in log.splitlines() if "Load key" in line or "load key" in line), "")
    return f"permission denied: {host.place} refused what was offered{takes}{'. ' + key.strip() if key else ''}"


def _unknown_key(host: Host, _log: str) -> str:
    file = host.known_hosts_file or "known_hosts"
    return (
        f"host key not known: {host.place} has no key in {file}. Compare its fingerprint and add it, "
        "or set accept_new_host_keys to take the first one that it shows"
    )


def _changed_key(host: Host, _log: str) -> str:
    file = host.known_hosts_file or "known_hosts"
    return (
        f"host key changed: {host.place} shows another key than the one in {file}. It may be another machine; "
        f"if it is meant to be, remove the old key with: ssh-keygen -R '[{host.host}]:{host.port}' -f {file}"
    )


def _no_agreement(host: Host, log: str) -> str:
    found = _OFFERED.search(log)
    what = f"{found[1]}, it offers {found[2]}" if found else "algorithms"
    return f"no agreement with {host.place} on {what}: name one that both know in ssh_options"


_CASES: tuple[tuple[str, str | Callable[[Host, str], str]], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", _changed_key),
    (r"Host key verification failed|No \S+ host key is known", _unknown_key),
    (r"Permission denied \(", _denied),
    (r"Too many authentication failures", "permission denied: {place} ends after too many keys; set identities_only"),
    (r"Connection refused", "connection refused: nothing listens at {place}"),
    (r"Could not resolve hostname", "name not found: {host} has no address"),
    (r"No route to host|Network is unreachable", "no route: {place} cannot be reached from here"),
    (r"Connection timed out|Operation timed out|timed out during", "timed out after {timeout:g} s: {place} is silent"),
    (r"Timeout, server", "connection lost: {place} stopped answering"),
    (r"Unable to negotiate", _no_agreement),
    (r"Connection closed|Connection reset|kex_exchange_identification", "connection closed: {place} hung up"),
    (r"onfiguration option|command-line", "ssh does not know one of the ssh_options: {last}"),
    (r"cannot bind to path|ControlPath", "no room for the connection's socket: {last}"),
)
_PATTERNS = [(re.compile(pattern), sentence) for pattern, sentence in _CASES]


def fault_of(host: Host, log: str) -> NotReachedError:
    """As an error: why a host was not reached, from what ssh wrote to its log."""
    text = sentence_of(host, log)
    why = text.removeprefix(f"{host.resource_id}: ")
    return NotReachedError(text, denied=why.startswith(_DENIED), passing=why.startswith(_PASSING))


def sentence_of(host: Host, log: str) -> str:
    """Why a host was not reached, from what ssh wrote to its log; the resource is named first."""
    lines = [line.strip() for line in log.splitlines() if not _NOISE.match(line)]
    output = "\n".join(lines)
    for pattern, sentence in _PATTERNS:
        if pattern.search(output):
            if not isinstance(sentence, str):
                return f"{host.resource_id}: {sentence(host, output)}."
            text = sentence.format(place=host.place, host=host.host, timeout=host.timeout, last=lines[-1])
            return f"{host.resource_id}: {text}."
    if lines:
        return f"{host.resource_id}: ssh to {host.place} failed: {lines[-1][:300]}"
    return f"{host.resource_id}: connection lost: {host.place} ended it while the command ran."


# -- one run of ssh: bounded output and a time limit

OUTPUT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes kept of each output stream; the rest is read and dropped, so that the other side never blocks."""

END_GRACE_S = 1.0
"""How long an ssh that was asked to end may take to tell the other side."""

_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Finished:
    """An ssh that ended. `late`: it was ended, because its time was up. `dropped` counts bytes."""

    retcode: int
    stdout: bytes
    stderr: bytes
    dropped: int
    late: bool


def run_to_end(argv: Sequence[str], env: Mapping[str, str], stdin: bytes | None, timeout_s: float) -> Finished:
    """Run a command until it ended and closed its output, or until its time is up.

    Raises CommandNotFoundError when there is no such program, CommandExecutionError when it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(
            f"There is no program {argv[0]} on this minion: install its OpenSSH client."
        ) from error
    except OSError as error:
        raise CommandExecutionError(f"{argv[0]} cannot be started: {error.strerror}.") from error
    with process:
        try:
            return _Run(process, stdin or b"").until(time.monotonic() + timeout_s)
        except BaseException:
            # Ctrl-C: the process must not stay.
            process.kill()
            raise


class _Run:
    """A started command, its streams, and what has passed through them."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        self._process = process
        self._left = memoryview(given)
        self._kept: dict[IO[bytes], bytearray] = {}
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self._kept[stream] = bytearray()
        self._dropped = 0

    def until(self, deadline: float) -> Finished:
        """Pass data until the end, or until the deadline (monotonic seconds) and the end that then is made."""
        in_time = self._pass_data(deadline) and self._wait(deadline)
        if not in_time:
            self._process.terminate()
            if not self._wait(time.monotonic() + END_GRACE_S):
                self._process.kill()
                self._process.wait()
        stdout, stderr = (bytes(data) for data in self._kept.values())
        return Finished(self._process.returncode, stdout, stderr, self._dropped, late=not in_time)

    def _pass_data(self, deadline: float) -> bool:
        """Until all streams are closed; False when the deadline came first."""
        with selectors.DefaultSelector() as selector:
            for stream in self._kept:
                selector.register(stream, selectors.EVENT_READ, partial(self._read, stream))
            source = self._process.stdin
            if source is not None:
                os.set_blocking(source.fileno(), False)
                selector.register(source, selectors.EVENT_WRITE, partial(self._write, source))
            while selector.get_map():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for key, _ in selector.select(left_s):
                    if not key.data():
                        selector.unregister(key.fileobj)
                        if source is not None and key.fileobj is source:
                            source.close()
        return True

    def _write(self, source: IO[bytes]) -> bool:
        """Write what fits; False if everything is written, or the reader is gone."""
        try:
            while self._left:
                self._left = self._left[os.write(source.fileno(), self._left[:_BLOCK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._left = self._left[:0]
        return False

    def _read(self, stream: IO[bytes]) -> bool:
        """Take what is there; False at the end."""
        block = os.read(stream.fileno(), _BLOCK)
        kept = self._kept[stream]
        room = OUTPUT_BYTES_MAX - len(kept)
        kept += block[:room]
        self._dropped += max(len(block) - room, 0)
        return bool(block)

    def _wait(self, deadline: float) -> bool:
        try:
            self._process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return False
        return True


CONNECTION_KEPT_S = 120
"""Seconds until an idle connection is closed."""

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
# Root on the host could use what is forwarded there; not even the operator's options may enable it.
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
            output = _text_of(log)
        if done.late:
            self._end(host)
            raise NotReachedError(f"{host.resource_id}: timed out after {limit_s:g} s at {host.place}.")
        return _outcome(host, done, output, tty=tty)

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
        output = (before.strip() or stderr.strip()).decode(errors="replace")[:300]
        raise CommandExecutionError(
            f"{host.resource_id}: {host.place} runs something else than the command that it is given: {output}"
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
    """Put a secret into a pipe for its first reader; the pipe is removed at the end."""
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
