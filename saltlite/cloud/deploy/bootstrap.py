"""A machine becomes a minion over one OpenSSH connection; a failed deployment is rolled back.

`bootstrap` is what drivers call as `salt.utils.cloud.bootstrap`; `retire` removes the minion from a machine that stays.
Both wait until the machine accepts a login, upload (`saltlite.cloud.deploy.upload`), and run the steps one by one.

Host keys come from the settings; otherwise the first key that the machine shows is kept in a file on this host.
Passwords reach ssh through a pipe and sudo through standard input, so no command line holds a secret.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from saltlite import __version__
from saltlite.cloud.api.driver import tell
from saltlite.cloud.api.exceptions import (
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudPasswordError,
)
from saltlite.cloud.api.port import Cloud, cloud
from saltlite.cloud.deploy import settings, upload
from saltlite.cloud.deploy.settings import Deployment, Readings, credentials_of, deployment_of, is_built_in, script_of
from saltlite.cloud.deploy.upload import Kind, Machine, version_of
from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh._client import Connections, NotReachedError, Outcome

log = logging.getLogger(__name__)


T = TypeVar("T")

PAUSE_MIN_S = 0.2
PAUSE_MAX_S = 3.0
DENIED_PAUSE_S = 2.0
"""Pause after a denied login: some machines ban fast retries."""


def until_let_in(
    attempt: Callable[[], T],
    *,
    within_s: float,
    denials: int,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> T:
    """Retry until a login works; returns the result. At most `denials` logins may be denied.

    Raises SaltCloudPasswordError after these, SaltCloudExecutionTimeout, and SaltCloudExecutionFailure for permanent
    errors such as a changed host key.
    """
    deadline = clock() + within_s
    pause_s = PAUSE_MIN_S
    while True:
        try:
            return attempt()
        except NotReachedError as error:
            if error.denied:
                denials -= 1
                if denials <= 0:
                    raise SaltCloudPasswordError(str(error)) from error
            elif not error.passing:
                raise SaltCloudExecutionFailure(str(error)) from error
            this_s = DENIED_PAUSE_S if error.denied else pause_s
            if clock() + this_s > deadline:
                raise SaltCloudExecutionTimeout(f"{str(error).rstrip('.')}; tried for {within_s:g} s.") from error
        sleep(this_s)
        pause_s = min(pause_s * 1.5, PAUSE_MAX_S)


# -- the session

LOOK_S = 60.0
"""Seconds for the first inspection of a machine; its Python may be cold."""

_MARK = "saltlite: input"
# sudo takes the password from the first line, or does not ask for it; what comes after the mark is the program's.
_SUDO_ASKED = 'IFS= read -r p; { printf "%s\\n%s\\n" "$p" "$2"; cat; } | sudo -S -p "" -- sh -c "$1" sh "$2"'
_AFTER_MARK = 'while IFS= read -r line; do [ "$line" != "$1" ] || break; done; '

_LOOK = r"""
umask 077
missing() { [ -d "$1" ] || { printf '%s\n' "$1" && missing "$(dirname "$1")"; }; }
# Whoever may rename a folder of the path could replace the upload, so only root and we may.
trusted() {
    at=$1
    while :; do
        set -- $(stat -c '%u %a' "$at")
        [ "$1" = 0 ] || [ "$1" = "$(id -u)" ] || { echo "$at belongs to another user" >&2; return 1; }
        [ "$((0$2 & 022))" = 0 ] || [ -k "$at" ] || { echo "other users may write to $at" >&2; return 1; }
        [ "$at" != / ] || return 0
        at=$(dirname "$at")
    done
}
undo() {
    printf '%s\n' "$made" | while IFS= read -r one; do rmdir "$one"; done 2>/dev/null
    exit 1
}
there=$1
while [ ! -d "$there" ]; do there=$(dirname "$there"); done
# Symbolic links are followed once, and the path that was checked is the one that is used.
base=$(cd "$there" && pwd -P) && trusted "$base" || exit 1
parent=$base${1#"$there"}
made=$(missing "$parent")
# Another user may have made the folder meanwhile if its parent is sticky.
mkdir -p "$parent" && parent=$(cd "$parent" && pwd -P) && trusted "$parent" || undo
folder=$(mktemp -d "$parent/saltlite-cloud.$5.XXXXXXXX") || undo
printf 'folder=%s\nuid=%s\n' "$folder" "$(id -u)"
[ -z "$made" ] || printf '%s\n' "$made" | sed 's/^/made=/'
installed=$("$2/bin/saltlite-minion" --version 2>/dev/null | sed 's/.* //')
printf 'installed=%s\n' "$installed"
[ "$installed" != "$3" ] || exit 0
for python in ${4:-python3.13 python3.12 python3.11 python3}; do
    found=$("$python" -c '
import os, sys, sysconfig, venv
assert sys.version_info >= (3, 11)
libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
print(sys.executable, sysconfig.get_config_var("SOABI"), libc, sep="\npython=", end="")
' 2>/dev/null) || continue
    printf 'python=%s\n' "$found"
    break
done
"""


class Session:
    """The connection to one machine; a context manager that closes it."""

    def __init__(self, deployment: Deployment) -> None:
        """Does not connect yet. Raises SaltCloudExecutionFailure without ssh, or if files cannot be written."""
        if shutil.which("ssh") is None:
            raise SaltCloudExecutionFailure("there is no program ssh here: install the OpenSSH client")
        self._deployment = deployment
        self._login = deployment.login
        try:
            self._connections = Connections(deployment.cachedir)
            self._pin()
        except OSError as error:
            raise SaltCloudExecutionFailure(f"{error.filename} cannot be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.close()

    @property
    def place(self) -> str:
        """The address, for messages."""
        return self._login.host.place

    def enter(self) -> Machine:
        """Log in as soon as the machine accepts it, make a private folder there, and inspect the machine.

        Raises SaltCloudPasswordError, SaltCloudExecutionTimeout, SaltCloudExecutionFailure.
        """
        login = self._login
        done = until_let_in(self._look, within_s=login.within_s, denials=login.denials * len(login.users))
        if done.retcode != 0 or b"folder=" not in done.stdout:
            self._no_folder(done)
        fields: dict[str, list[str]] = {}
        for line in done.stdout.decode(errors="replace").splitlines():
            name, _, value = line.partition("=")
            fields.setdefault(name, []).append(value)
        python, abi, libc = (*fields.get("python", []), "", "", "")[:3]
        return Machine(
            fields["folder"][0],
            int(fields["uid"][0]),
            python,
            Kind(abi, version_of(libc)),
            fields["installed"][0],
            tuple(fields.get("made", [])),
        )

    def run(self, script: str, *words: str, stdin: bytes = b"", within_s: float) -> Outcome:
        """Run a shell script there with these words as `$1` and so on, as root if the settings have `sudo`.

        Raises SaltCloudExecutionTimeout after `within_s` seconds, SaltCloudExecutionFailure if the machine is gone.
        """
        try:
            return self._run(script, *words, stdin=stdin, within_s=within_s)
        except NotReachedError as error:
            late = SaltCloudExecutionTimeout if "timed out" in str(error) else SaltCloudExecutionFailure
            raise late(str(error)) from error
        except CommandExecutionError as error:
            raise SaltCloudExecutionFailure(str(error)) from error

    def _run(self, script: str, *words: str, stdin: bytes, within_s: float) -> Outcome:
        login = self._login
        if login.sudo_password is not None:
            inner = f"{_AFTER_MARK}shift; {_with(script, words)}"
            line = _with(_SUDO_ASKED, (inner, _MARK))
            stdin = f"{login.sudo_password}\n".encode() + stdin
        else:
            line = _with(script, words)
            if login.sudo:
                line = f"exec sudo -n -- sh -c {shlex.quote(line)}"
        return self._connections.run(login.host, line, stdin=stdin, timeout_s=within_s)

    def _look(self) -> Outcome:
        install = self._deployment.install
        try:
            words = (self._deployment.tmp_dir, install.folder, __version__, install.python, self._deployment.name)
            return self._run(_LOOK, *words, stdin=b"", within_s=LOOK_S)
        except NotReachedError as error:
            if error.denied:
                self._next_user()
            raise

    def _next_user(self) -> None:
        users, now = self._login.users, self._login.host.user
        following = users[(users.index(now) + 1) % len(users)]
        self._login = replace(self._login, host=replace(self._login.host, user=following))

    def _no_folder(self, done: Outcome) -> NoReturn:
        """The error of the first inspection: sudo, or no space."""
        lines = done.stderr.decode(errors="replace").split("\n")
        output = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {done.retcode}")
        name, user = self._deployment.name, self._login.host.user
        if "sudo" in output or "password" in output:
            hint = "set sudo_password to the right one" if self._login.sudo_password else "set sudo_password"
            raise SaltCloudExecutionFailure(f"{name}: sudo does not let {user} become root ({output}); {hint}")
        raise SaltCloudExecutionFailure(
            f"{name}: no folder can be made in {self._deployment.tmp_dir} at {self.place}: {output}"
        )

    def _pin(self) -> None:
        """Prepare the known_hosts file: pinned keys, or none for a new machine."""
        host, path = self._login.host, self._login.host.known_hosts_file or ""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if self._login.host_keys:
            named = host.host if host.port == 22 else f"[{host.host}]:{host.port}"
            with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False) as file:
                file.writelines(f"{named} {key}\n" for key in self._login.host_keys)
            os.replace(file.name, path)
        elif not self._login.remembers:
            # A new machine with an old name has another host key than its predecessor.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _with(script: str, words: tuple[str, ...]) -> str:
    """A script as one line for a shell, with its words."""
    return f"sh -c {' '.join(map(shlex.quote, (script, 'sh', *words)))}"


CLEAN_UP_S = 60.0
"""Seconds for a rollback, including the end of running programs."""

OUTPUT_MAX = 400
"""Characters of a program's output in a message."""

_FULL = "No space left on device"

# `$1` is the folder, `$2` the program. The number is kept, so that an interrupted deployment can be ended.
_STEP = 'umask 022; echo $$ >"$1/pid" && exec sh "$1/$2" "$1"'
_UNPACK = 'cd "$1" && tar -x -o -f -'
# A running program is ended as a group, and has a moment to roll back by itself.
_END = """
end() {
    pid=$(cat "$1/pid" 2>/dev/null) && grep -q "$1" "/proc/$pid/cmdline" 2>/dev/null || return
    group=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 3)
    kill -TERM "-$group" 2>/dev/null
    tries=0
    while [ -d "/proc/$pid" ] && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
}
"""
_CLEAN_UP = f"""{_END}
end "$1"
[ "$2" = leave ] || [ ! -f "$1/$2" ] || sh "$1/$2" "$1"
[ "$3" != keep ] || exit 0
rm -rf "$1"
shift 3
[ "$#" = 0 ] || rmdir "$@" 2>/dev/null || :
"""
# Folders of deployments whose command has died; `$1` is their parent, `$2` the machine, `$3` our own folder.
_CLEAN_UP_OTHERS = f"""{_END}
for folder in "$1/saltlite-cloud.$2."????????; do
    [ -O "$folder" ] && [ ! -L "$folder" ] && [ "$folder" != "$3" ] || continue
    end "$folder"
    rm -rf "$folder"
done
"""


class DeployError(SaltCloudExecutionFailure):
    """A failed deployment. `left`: what could not be rolled back, on a machine that stays."""

    def __init__(self, text: str, left: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.left = left


def bootstrap(vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """Make the machine of these settings a minion; fires `deploying` first.

    Returns `deployed` (bool), `deploy_host`, and `started`: `systemd`, `detached`, or `script` for a custom script.
    Raises SaltCloudConfigError before it does anything, then DeployError and the errors of `Session.enter`; only what
    DeployError names is then left on the machine.
    """
    if settings.is_windows(vm_) and vm_.get("deploy") is not False:
        raise settings.refuse(vm_)
    deployment = deployment_of(vm_, opts)
    if not deployment.deploy and not deployment.steps.inline:
        return {"deployed": False}
    program = cloud()
    _conceal(deployment, program)
    tell("deploying", "deploying", vm_, deployment.details())
    program.progress(deployment.name, f"waits for {deployment.login.host.place}")
    with Session(deployment) as session:
        machine = session.enter()
        try:
            result = _carry_out(deployment, session, machine, program)
        except SaltCloudException as error:
            left = _roll_back(deployment, session, machine)
            # A machine that was made for this is destroyed next, with everything on it.
            raise DeployError(str(error), left if deployment.login.remembers else ()) from error
        except BaseException:  # Ctrl-C: the log has what is left
            left = _roll_back(deployment, session, machine)
            if left:
                log.warning("%s: what the deployment made is left at %s: %s", deployment.name, session.place, left)
            raise
        _clean_up(session, machine, "leave", keep=deployment.keep_tmp)
    return {"deployed": deployment.deploy, "deploy_host": deployment.login.host.host, **result}


def retire(vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
    """Undo `bootstrap` on a machine that stays; returns what could not be removed.

    The list of what was made may be missing only if the settings have `deployed: false`, because the command may have
    died before it was written. Raises SaltCloudException if the login fails.
    """
    listed = vm_.get("deployed") is not False and vm_.get("deploy") is not False and is_built_in(vm_.get("script"))
    deployment = deployment_of({**vm_, "file_map": None, "script": None, "script_args": None}, opts)
    program = cloud()
    _conceal(deployment, program)
    program.progress(deployment.name, "removes the minion")
    with Session(deployment) as session:
        machine = session.enter()
        try:
            folder = machine.folder
            session.run(_CLEAN_UP_OTHERS, os.path.dirname(folder), deployment.name, folder, within_s=CLEAN_UP_S)
            _unpack(session, machine, upload.rollback_of(deployment, machine, listed=listed), deployment)
        finally:
            left = _roll_back(deployment, session, machine)
    return left


def script_text(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> str:
    """The deploy script of this machine: of its setting `script`, or the built-in one."""
    return upload.text_of(script_of(Readings(vm_), opts))


def _conceal(deployment: Deployment, program: Cloud) -> None:
    login = deployment.login
    secrets = (login.host.passwd, login.host.priv_passwd, login.sudo_password, deployment.token)
    for secret in (*secrets, *credentials_of(deployment.install.index)):
        if secret:
            program.conceal(secret)


def _carry_out(deployment: Deployment, session: Session, machine: upload.Machine, program: Cloud) -> dict[str, str]:
    """Upload, and run the steps in order. Raises SaltCloudException."""
    program.progress(deployment.name, "uploads")
    archive, steps = upload.files_of(deployment, machine)
    _unpack(session, machine, archive, deployment)
    result: dict[str, str] = {"started": "script"} if deployment.steps.script else {}
    for step in steps:
        program.progress(deployment.name, f"runs {step.what}")
        done = session.run(_STEP, machine.folder, step.file, within_s=deployment.step_s)
        log.debug(
            "%s: %s wrote: %r %r", deployment.name, step.what, done.stdout[-OUTPUT_MAX:], done.stderr[-OUTPUT_MAX:]
        )
        if done.retcode != 0:
            raise SaltCloudExecutionFailure(f"{deployment.name}: {step.what} failed at {session.place}: {_why(done)}")
        if step == upload.DEPLOY and not deployment.steps.script:
            result["started"] = next(iter(_values(done, "started")), "")
    return result


def _unpack(session: Session, machine: upload.Machine, archive: bytes, deployment: Deployment) -> None:
    done = session.run(_UNPACK, machine.folder, stdin=archive, within_s=deployment.step_s)
    if done.retcode != 0:
        raise SaltCloudExecutionFailure(
            f"{deployment.name}: {session.place} did not take the upload of {len(archive)} bytes: {_why(done)}"
        )


def _roll_back(deployment: Deployment, session: Session, machine: upload.Machine) -> tuple[str, ...]:
    """End running programs and undo the deployment; returns what is left. It never raises, as an error is pending."""
    foreign: tuple[str, ...] = ()
    if deployment.deploy and deployment.steps.script:
        foreign = (f"what {deployment.steps.script_name} did at {session.place}",)
    try:
        left = _clean_up(session, machine, upload.UNDO, keep=deployment.keep_tmp)
    except SaltCloudException as error:
        log.warning("%s: the deployment could not be rolled back: %s", deployment.name, error)
        return (*foreign, f"what the deployment made at {session.place}, {machine.folder} included")
    return (*foreign, *left)


def _clean_up(session: Session, machine: upload.Machine, how: str, *, keep: bool) -> tuple[str, ...]:
    kept = "keep" if keep else ""
    done = session.run(_CLEAN_UP, machine.folder, how, kept, *machine.made_folders, within_s=CLEAN_UP_S)
    return tuple(f"{what} at {session.place}" for what in _values(done, "left"))


def _values(done: Outcome, wanted: str) -> list[str]:
    """The values of the lines `wanted=value` of a program's output."""
    pairs = (line.partition("=") for line in done.stdout.decode(errors="replace").splitlines())
    return [value.strip() for name, found, value in pairs if found and name == wanted]


def _why(done: Outcome) -> str:
    """The reason in a program's output: a full disk wherever it is mentioned, else the last line."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    full = next((line for line in lines if _FULL in line), "")
    if full:
        return f"its disk is full ({full[-OUTPUT_MAX:]})"
    lines = lines or [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    return f"{lines[-1][-OUTPUT_MAX:]} (exit code {done.retcode})" if lines else f"exit code {done.retcode}"
