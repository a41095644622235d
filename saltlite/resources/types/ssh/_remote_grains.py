"""The grains of a host: a small script that any POSIX shell runs, and a strict reading of what it prints.

The other side may be broken or hostile: known names only, short values without control characters, and the last
line has to be there.
"""

from __future__ import annotations

import ipaddress
import shlex
from typing import Any

from saltlite.errors import CommandExecutionError

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


def read_grains(output: bytes) -> dict[str, Any]:
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
            raise CommandExecutionError(f"The host printed a line that is no grain: {line[:80]!r}")
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
        raise CommandExecutionError(f"The host printed a number that is none: {text[:40]!r}")
    return int(text)


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise CommandExecutionError(f"The host printed an address that is none: {text[:40]!r}") from error
