"""Hosts that are reached by SSH: no software of saltlite on them, only a shell.

The system's own `ssh` makes the connections, and keeps each for the next call. The pillar of the minion says which
hosts there are:

    resources:
      ssh:
        hosts:
          web-1:
            host: 192.0.2.7            # name or address; nothing else is needed
            user: root
            port: 22
            priv: /etc/keys/web        # the file of a key; `priv_passwd` is its passphrase
            passwd: '…'                # a password
            sudo: False                # run everything as root by `sudo -n`
            tty: False                 # with a terminal, as some sudo rules want it; not for what has input
            timeout: 30                # seconds that a command may take; a call has twice as many if they are more
            identities_only: False     # offer `priv` only, and no other key
            use_auth_sock: False       # offer the keys of the ssh-agent behind the minion's SSH_AUTH_SOCK
            known_hosts_file: /etc/…   # instead of those of the minion's user
            accept_new_host_keys: False  # take the first key that a host shows, and no other later
            ignore_host_keys: False    # take any key; `no_host_keys` also remembers none
            ssh_options: [Name=value]  # options of ssh_config(5); these come before all others
            keepalive: True            # with `keepalive_interval` (60 s) and `keepalive_count_max` (3)

Neither an agent nor a display nor a ticket is forwarded to a host, and no local command is run, whatever `ssh_options`
and the files of ssh say. A host's key must be known, unless the pillar says otherwise. What a host does when a call's
time is up is not known: its connection is ended, a command that does not notice runs on.

What belongs here: the connection module of the type; `modules` has its slots. What does not: anything that needs
more on the host than a POSIX shell and its usual tools.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh._client import Connections, Outcome
from saltlite.resources.types.ssh._host import PACKAGES_TIMEOUT_S, TIMEOUT_S, Host, host_of
from saltlite.resources.types.ssh._process import OUTPUT_BYTES_MAX
from saltlite.resources.types.ssh._remote_grains import SCRIPT, read_grains

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __pillar__, __resource__

PING_TIMEOUT_S = 10.0
"""How long a host may take for a ping, when the pillar gives it no less."""

_CONNECTIONS = "ssh.connections"


def __virtual__() -> bool | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    return True if shutil.which("ssh") else (False, "there is no ssh here: install the OpenSSH client")


def init(opts: dict[str, Any]) -> None:
    """Prepare to connect; nothing is connected yet."""
    if _CONNECTIONS not in __context__:
        __context__[_CONNECTIONS] = Connections(opts["cachedir"])


def initialized() -> bool:
    """Whether `init` has run."""
    return _CONNECTIONS in __context__


def discover(opts: dict[str, Any]) -> list[str]:  # noqa: ARG001 - the contract of connection modules
    """The ids of all hosts of the pillar; what is wrong with one is said when it is called."""
    return [str(name) for name in _hosts()]


def grains() -> dict[str, Any]:
    """Ask the host for its grains. Raises CommandExecutionError when it does not tell them."""
    host = _host()
    # What slots have found out about the host may be another now.
    __context__.get("ssh.package_managers", {}).pop(host.resource_id, None)
    own = {"resource_type": "ssh", "resource_id": host.resource_id, "host": host.host}
    return read_grains(checked("sh -s", stdin=SCRIPT.encode())) | own


def grains_refresh() -> dict[str, Any]:
    """The same: nothing is kept."""
    return grains()


def timeout(fun: str, args: list[Any], kwargs: Mapping[str, Any]) -> float | None:  # noqa: ARG001 - the contract
    """Twice what its longest command may take, as calls have several; None where that is not above the usual."""
    try:
        own = _host().timeout
    except CommandExecutionError:
        return None  # the call says it
    asked = kwargs.get("timeout")
    if asked is None:
        asked = PACKAGES_TIMEOUT_S if fun.startswith("pkg.") else 0
    longest = max(own, float(asked))
    return 2 * longest if longest > TIMEOUT_S else None


def ping() -> bool:
    """Whether the host runs a command. Raises CommandExecutionError that says why it cannot be reached."""
    return checked("echo ping", timeout=min(PING_TIMEOUT_S, _host().timeout)).strip() == b"ping"


def cmd_run(cmd: str, timeout: float | None = None) -> dict[str, Any]:
    """Run a command line: `{"stdout", "stderr", "retcode"}`, texts. Raises as `run` does."""
    done = run(cmd, timeout=timeout)
    return {
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
        "retcode": done.retcode,
    }


def run(
    script: str,
    *,
    stdin: bytes | None = None,
    timeout: float | None = None,
    runas: str | None = None,
    shell: str = "/bin/sh",
) -> Outcome:
    """Run a shell script on the host, as a user of it if given; `timeout` in seconds, otherwise the host's.

    Raises CommandExecutionError when the host is not reached, the time is up, or sudo wants something, and
    SaltInvocationError for a script, a shell or a user that cannot be used.
    """
    host = _host()
    connections: Connections = __context__[_CONNECTIONS]
    done = connections.run(host, script, stdin=stdin, timeout_s=timeout, runas=runas, shell=shell)
    said = (done.stdout + done.stderr if host.tty else done.stderr).strip()
    if done.retcode == 1 and (runas or host.sudo) and said.startswith(b"sudo: ") and b"password is required" in said:
        raise CommandExecutionError(
            f"{host.resource_id}: sudo wants a password of {host.user}: allow it in sudoers with NOPASSWD"
        )
    return done


def checked(script: str, **surroundings: Any) -> bytes:
    """The output of a script that has to succeed; arguments of `run`. Raises CommandExecutionError if it does not."""
    done = run(script, **surroundings)
    if done.retcode:
        said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")[-1000:]
        raise CommandExecutionError(said or f"The command returned {done.retcode} and said nothing.")
    if done.dropped:
        raise CommandExecutionError(f"There is more output than the {OUTPUT_BYTES_MAX} bytes that are kept.")
    return done.stdout


def shutdown(opts: dict[str, Any]) -> None:  # noqa: ARG001 - the contract of connection modules
    """End all connections."""
    connections: Connections | None = __context__.pop(_CONNECTIONS, None)
    if connections is not None:
        connections.close()


def _hosts() -> Mapping[Any, Any]:
    types = __pillar__.get(__opts__.get("resource_pillar_key") or "resources")
    own = types.get("ssh") if isinstance(types, Mapping) else None
    hosts = own.get("hosts") if isinstance(own, Mapping) else None
    return hosts if isinstance(hosts, Mapping) else {}


def _host() -> Host:
    """The host of this call, as the pillar describes it now. Raises CommandExecutionError."""
    own_id, hosts = __resource__["id"], _hosts()
    found = next((value for name, value in hosts.items() if str(name) == own_id), None)
    if found is None:
        raise CommandExecutionError(f"The pillar has no ssh host {own_id!r} any more.")
    return host_of(own_id, found)
