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

import ipaddress
import shlex
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh._client import (
    OUTPUT_BYTES_MAX,
    PACKAGES_TIMEOUT_S,
    TIMEOUT_S,
    Connections,
    Host,
    Outcome,
    host_of,
)

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __pillar__, __resource__


# -- the grains of a host: a script for any POSIX shell, and a strict parser of its output
# The host may be broken or hostile: known names and short printable values only, and the last line must be there.


OUTPUT_MAX = 65_536
"""Bytes that the script may print."""

VALUE_MAX = 512
"""Characters of one value."""

ADDRESSES_MAX = 256
"""IPv4 addresses of one host."""

SCRIPT = r"""
LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin
say() { printf '%s=%s\n' "$1" "$(printf '%s\n' "$2" | head -n 1)"; }
say kernel "$(uname -s)"
say kernelrelease "$(uname -r)"
say cpuarch "$(uname -m)"
say nodename "$(uname -n)"
say fqdn "$(hostname -f 2>/dev/null || hostname 2>/dev/null)"
say num_cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null)"
[ ! -r /proc/meminfo ] || say mem_kib "$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)"
[ ! -r /etc/machine-id ] || say machine_id "$(cat /etc/machine-id)"
if [ -d /run/systemd/system ]; then say init systemd
elif command -v openrc >/dev/null 2>&1; then say init openrc
elif [ -d /etc/init.d ]; then say init sysvinit
fi
for name in ID ID_LIKE NAME PRETTY_NAME VERSION_ID VERSION_CODENAME; do
  [ ! -r /etc/os-release ] || say "release_$name" "$(sed -n "s/^$name=//p" /etc/os-release)"
done
{ ip -4 -o addr show 2>/dev/null || ifconfig -a 2>/dev/null; } |
  sed -n 's/.*inet \(addr:\)\{0,1\}\([0-9.]*\).*/ipv4=\2/p'
echo end=end
"""

_RELEASE = ("ID", "ID_LIKE", "NAME", "PRETTY_NAME", "VERSION_ID", "VERSION_CODENAME")
_NAMES = {f"release_{name}" for name in _RELEASE} | {
    "kernel", "kernelrelease", "cpuarch", "nodename", "fqdn", "num_cpus", "mem_kib", "machine_id", "init", "ipv4",
}  # fmt: skip

# ID of os-release -> the grains `os` and `os_family`, as on a minion.
_SYSTEMS = {
    "almalinux": ("AlmaLinux", "RedHat"),
    "alpine": ("Alpine", "Alpine"),
    "amzn": ("Amazon", "RedHat"),
    "arch": ("Arch", "Arch"),
    "centos": ("CentOS", "RedHat"),
    "debian": ("Debian", "Debian"),
    "fedora": ("Fedora", "RedHat"),
    "linuxmint": ("Linuxmint", "Debian"),
    "ol": ("OEL", "RedHat"),
    "opensuse-leap": ("SUSE", "Suse"),
    "opensuse-tumbleweed": ("SUSE", "Suse"),
    "raspbian": ("Raspbian", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "sles": ("SUSE", "Suse"),
    "suse": ("SUSE", "Suse"),
    "ubuntu": ("Ubuntu", "Debian"),
}


def _read_grains(output: bytes) -> dict[str, Any]:
    """The grains in what the script printed. Raises CommandExecutionError when that is not what it prints."""
    values, addresses = _values(output)
    grains: dict[str, Any] = {
        name: values[name]
        for name in ("kernel", "kernelrelease", "cpuarch", "nodename", "fqdn", "machine_id", "init")
        if values.get(name)
    }
    if "num_cpus" in values:
        grains["num_cpus"] = _whole(values["num_cpus"])
    if "mem_kib" in values:
        grains["mem_total"] = _whole(values["mem_kib"]) // 1024
    grains["ipv4"] = sorted(set(addresses), key=ipaddress.IPv4Address)
    return grains | _system(values)


def _values(output: bytes) -> tuple[dict[str, str], list[str]]:
    """What was printed: the values by name, and the addresses."""
    if len(output) > OUTPUT_MAX or not output.endswith(b"\nend=end\n"):
        raise CommandExecutionError("The host printed something else than its grains.")
    values: dict[str, str] = {}
    addresses: list[str] = []
    for line in output.decode(errors="replace").split("\n")[:-2]:
        name, _, value = line.partition("=")
        if name not in _NAMES or len(value) > VALUE_MAX or not (value.isprintable() or not value):
            raise CommandExecutionError(f"The host printed a line that is not a grain: {line[:80]!r}")
        if name == "ipv4":
            addresses.append(_address(value))
        else:
            values[name] = value.strip()
    return values, addresses[:ADDRESSES_MAX]


def _system(values: dict[str, str]) -> dict[str, Any]:
    """The grains about the operating system, from os-release or the kernel."""
    release = {name: _unquoted(values.get(f"release_{name}", "")) for name in _RELEASE}
    full_name, version = release["NAME"] or values.get("kernel", ""), release["VERSION_ID"]
    likes = [release["ID"].lower(), *release["ID_LIKE"].split()]
    family = next((_SYSTEMS[like][1] for like in likes if like in _SYSTEMS), "")
    name = _SYSTEMS.get(likes[0], (full_name.split(" ")[0] or "Unknown", ""))[0]
    numbers = [_whole(part) for part in version.split(".") if part.isdecimal()]
    finger = name if name in {"Debian", "Raspbian"} else full_name
    grains: dict[str, Any] = {
        "os": name,
        "os_family": family or name,
        "osfullname": full_name,
        "osrelease": version,
        "osrelease_info": numbers,
        "oscodename": release["VERSION_CODENAME"] or release["PRETTY_NAME"],
        "osfinger": finger,
    }
    if numbers:
        grains["osmajorrelease"] = numbers[0]
        grains["osfinger"] = f"{finger}-{version if name == 'Ubuntu' else numbers[0]}"
    return grains


def _unquoted(text: str) -> str:
    try:
        return " ".join(shlex.split(text))
    except ValueError:
        return ""


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise CommandExecutionError(f"The host printed something else instead of a number: {text[:40]!r}")
    return int(text)


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise CommandExecutionError(f"The host printed something else instead of an address: {text[:40]!r}") from error


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
    return _read_grains(checked("sh -s", stdin=SCRIPT.encode())) | own


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
    output = (done.stdout + done.stderr if host.tty else done.stderr).strip()
    if (
        done.retcode == 1
        and (runas or host.sudo)
        and output.startswith(b"sudo: ")
        and b"password is required" in output
    ):
        raise CommandExecutionError(
            f"{host.resource_id}: sudo wants a password of {host.user}: allow it in sudoers with NOPASSWD"
        )
    return done


def checked(script: str, **surroundings: Any) -> bytes:
    """The output of a script that has to succeed; arguments of `run`. Raises CommandExecutionError if it does not."""
    done = run(script, **surroundings)
    if done.retcode:
        output = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")[-1000:]
        raise CommandExecutionError(output or f"The command returned {done.retcode} and wrote nothing.")
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
