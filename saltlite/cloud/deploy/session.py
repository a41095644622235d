"""One OpenSSH connection to a machine: every command of a deployment goes through it.

Host keys: those of the settings, or the first one that the machine shows, kept in a file of this machine. Passwords go
to ssh through a pipe, and to sudo through standard input. What stands on command lines, here and there, is names.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from types import TracebackType
from typing import NoReturn, Self

from saltlite import __version__
from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure, SaltCloudExecutionTimeout
from saltlite.cloud.deploy.script import Machine
from saltlite.cloud.deploy.settings import Deployment
from saltlite.cloud.deploy.wait import until_let_in
from saltlite.cloud.deploy.wheel import Kind, version_of
from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh._client import Connections, Outcome
from saltlite.resources.types.ssh._faults import NotReachedError

LOOK_S = 60.0
"""How long the first look at a machine may take; its Python may be cold."""

_MARK = "saltlite: input"
# sudo takes the password from the first line, or does not ask for it; what comes after the mark is the program's.
_SUDO_ASKED = 'IFS= read -r p; { printf "%s\\n%s\\n" "$p" "$2"; cat; } | sudo -S -p "" -- sh -c "$1" sh "$2"'
_AFTER_MARK = 'while IFS= read -r line; do [ "$line" != "$1" ] || break; done; '

_LOOK = r"""
umask 077
folder=$(mktemp -d "$1/saltlite-cloud.$5.XXXXXXXX") || exit 1
printf 'folder=%s\nuid=%s\n' "$folder" "$(id -u)"
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
    """The connection to one machine; a context manager that ends it."""

    def __init__(self, deployment: Deployment) -> None:
        """Nothing is connected yet. Raises SaltCloudExecutionFailure where there is no ssh, or no room for files."""
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
        """Where it leads, for sentences."""
        return self._login.host.place

    def enter(self) -> Machine:
        """Log in, as soon as the machine lets us, make a private folder there, and look what the machine is.

        Raises SaltCloudPasswordError, SaltCloudExecutionTimeout, SaltCloudExecutionFailure.
        """
        login = self._login
        done = until_let_in(self._look, within_s=login.within_s, denials=login.denials * len(login.users))
        if done.retcode != 0 or b"folder=" not in done.stdout:
            self._no_folder(done)
        said: dict[str, list[str]] = {}
        for line in done.stdout.decode(errors="replace").splitlines():
            name, _, value = line.partition("=")
            said.setdefault(name, []).append(value)
        python, abi, libc = (*said.get("python", []), "", "", "")[:3]
        return Machine(
            said["folder"][0], int(said["uid"][0]), python, Kind(abi, version_of(libc)), said["installed"][0]
        )

    def run(self, script: str, *words: str, stdin: bytes = b"", within_s: float) -> Outcome:
        """Run a shell script there with these words as `$1` and so on, as root where the settings say `sudo`.

        Raises SaltCloudExecutionTimeout after `within_s` seconds, SaltCloudExecutionFailure when the machine is gone.
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
        """The first look at the machine found no way in: sudo, or no room."""
        lines = done.stderr.decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {done.retcode}")
        name, user = self._deployment.name, self._login.host.user
        if "sudo" in said or "password" in said:
            hint = "set sudo_password to the right one" if self._login.sudo_password else "set sudo_password"
            raise SaltCloudExecutionFailure(f"{name}: sudo does not let {user} become root ({said}); {hint}")
        raise SaltCloudExecutionFailure(
            f"{name}: no folder can be made in {self._deployment.tmp_dir} at {self.place}: {said}"
        )

    def _pin(self) -> None:
        """Have the file of host keys hold what may be known of this machine before it is met."""
        host, path = self._login.host, self._login.host.known_hosts_file or ""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if self._login.host_keys:
            named = host.host if host.port == 22 else f"[{host.host}]:{host.port}"
            with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False) as file:
                file.writelines(f"{named} {key}\n" for key in self._login.host_keys)
            os.replace(file.name, path)
        elif not self._login.remembers:
            # A new machine under an old name: what its predecessor showed is nothing to hold against it.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _with(script: str, words: tuple[str, ...]) -> str:
    """A script as one line for a shell, with its words."""
    return f"sh -c {' '.join(map(shlex.quote, (script, 'sh', *words)))}"
