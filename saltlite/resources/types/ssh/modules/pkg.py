"""Packages of hosts with apt, dnf, yum, zypper or apk; which of them is found on the host.

Functions that change something return ``{name: {"old": version, "new": version}}`` of all that changed. They may
take ``timeout`` seconds, 600 if not said.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.resources.types.ssh._client import PACKAGES_TIMEOUT_S as TIMEOUT_S

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __resource__, __resource_funcs__

__risk__ = {"remove": "remove", "purge": "remove"}

Changes = dict[str, dict[str, str]]

# No sign at the end, but for `g++`: to apt-get `name-` means to remove it, and `name+` to install it.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.+:~-]{0,253}[A-Za-z0-9_])?(?:\+\+)?", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+:~^-]{0,254}", re.ASCII)
_HEAD = "LC_ALL=C; export LC_ALL\nPATH=$PATH:/usr/sbin:/sbin\nDEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND\n"
_FIND = "for m in apt-get dnf yum zypper apk; do command -v $m >/dev/null && { echo $m; exit 0; }; done; exit 1"
_MANAGER = "ssh.package_managers"


def _pairs(text: str) -> dict[str, str]:
    """Lines of `name version`; zero as an epoch is none."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: re.sub(r"^(?:\(none\)|0):", "", row[1]) for row in rows if len(row) >= 2}


def _of_dnf(text: str) -> dict[str, str]:
    """Lines of `name.architecture version repository`, between titles."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rpartition(".")[0]: re.sub(r"^0:", "", row[1]) for row in rows if len(row) == 3 and "." in row[0]}


def _of_apt(text: str) -> dict[str, str]:
    """What `apt-cache policy` prints: the candidate, where it is another than the installed version."""
    found = {}
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        rows = dict(re.findall(r"^  (Installed|Candidate): (\S+)", block, re.MULTILINE))
        candidate = rows.get("Candidate", "(none)")
        if candidate not in {"(none)", rows.get("Installed")}:
            found[block.partition(":\n")[0]] = candidate
    return found


def _of_zypper(text: str) -> dict[str, str]:
    """What `zypper info` prints: name, version, and whether it is up to date."""
    found = {}
    for block in re.split(r"^(?=Name +:)", text, flags=re.MULTILINE):
        rows = dict(re.findall(r"^(Name|Version|Status) +: (.+?) *$", block, re.MULTILINE))
        if "Name" in rows and not rows.get("Status", "").startswith("up-to-date"):
            found[rows["Name"]] = rows.get("Version", "")
    return found


def _of_apk(text: str) -> dict[str, str]:
    """Words of `name-version-r0`."""
    return dict(found.groups() for word in text.split() if (found := re.fullmatch(r"(.+?)-(\d[^-]*-r\d+)", word)))  # type: ignore[misc]  # there are two groups


@dataclass(frozen=True, slots=True)
class _Words:
    """The command lines of a package manager; names go behind `install`, `remove`, `purge` and `latest`."""

    installed: str
    install: str
    remove: str
    purge: str
    refresh: str
    latest: str
    upgrade: str
    pins: str
    read_installed: Callable[[str], dict[str, str]]
    read_latest: Callable[[str], dict[str, str]]


_KEEP = "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold"
_APT = _Words(
    installed="dpkg-query -W -f '${db:Status-Status} ${binary:Package} ${Version}\\n' | sed -n 's/^installed //p'",
    install=f"apt-get -q -y {_KEEP} install --",
    remove="apt-get -q -y remove --",
    purge="apt-get -q -y purge --",
    refresh="apt-get -q update",
    latest="apt-cache -q policy --",
    upgrade=f"apt-get -q -y {_KEEP} upgrade",
    pins="=",
    read_installed=_pairs,
    read_latest=_of_apt,
)
_RPMS = "rpm -qa --qf '%{NAME} %{EPOCH}:%{VERSION}-%{RELEASE}\\n'"


def _redhat(command: str) -> _Words:
    return _Words(
        installed=_RPMS,
        install=f"{command} -q -y install --",
        remove=f"{command} -q -y remove --",
        purge=f"{command} -q -y remove --",
        refresh=f"{command} -q makecache",
        latest=f'list() {{ {command} -q list available "$@"; {command} -q list updates "$@"; true; }} 2>&1; list',
        upgrade=f"{command} -q -y upgrade",
        pins="-",
        read_installed=_pairs,
        read_latest=_of_dnf,
    )


_MANAGERS = {
    "apt-get": _APT,
    "dnf": _redhat("dnf"),
    "yum": _redhat("yum"),
    "zypper": _Words(
        installed=_RPMS,
        install="zypper -n -q install --",
        remove="zypper -n -q remove --",
        purge="zypper -n -q remove --",
        refresh="zypper -n -q refresh",
        latest="zypper -n -q info --",
        upgrade="zypper -n -q update",
        pins="=",
        read_installed=_pairs,
        read_latest=_of_zypper,
    ),
    "apk": _Words(
        installed="apk info -v 2>/dev/null",
        install="apk add -q --",
        remove="apk del -q --",
        purge="apk del -q --purge --",
        refresh="apk update -q",
        latest="apk search -x --",
        upgrade="apk upgrade -q",
        pins="=",
        read_installed=_of_apk,
        read_latest=_of_apk,
    ),
}


def list_pkgs() -> dict[str, str]:
    """
    The installed packages: ``{name: version}``. Of several versions of one, the last.

    CLI Example: ``saltlite web-1 pkg.list_pkgs``
    """
    manager = _manager()
    return manager.read_installed(_output(manager.installed))


def version(*names: str) -> str | dict[str, str]:
    """
    The installed version of a package, or a dict of versions for several; an empty text for none.

    CLI Example::

        saltlite web-1 pkg.version openssl
        saltlite web-1 pkg.version openssl curl
    """
    installed = list_pkgs()
    return _one_or_all({name: installed.get(name, "") for name in map(_name, names)})


def latest_version(*names: str, refresh: bool = False) -> str | dict[str, str]:
    """
    The version that an install or upgrade would bring, or an empty text when the package is up to date or unknown.

    CLI Example::

        saltlite web-1 pkg.latest_version openssl
        saltlite web-1 pkg.latest_version openssl curl refresh=True
    """
    wanted = [_name(name) for name in names]
    if not wanted:
        return ""
    if refresh:
        refresh_db()
    manager = _manager()
    offered = manager.read_latest(_output(f"{manager.latest} {shlex.join(wanted)}"))
    installed = list_pkgs()
    return _one_or_all(
        {name: "" if offered.get(name) == installed.get(name) else offered.get(name, "") for name in wanted}
    )


def refresh_db(timeout: float = TIMEOUT_S) -> bool:
    """
    Fetch the lists of packages.

    CLI Example: ``saltlite -C 'T@ssh' pkg.refresh_db``
    """
    _output(_manager().refresh, timeout)
    return True


def install(
    name: str | None = None,
    version: str | None = None,
    pkgs: list[Any] | None = None,
    refresh: bool = False,
    timeout: float = TIMEOUT_S,
) -> Changes:
    """
    Install a package, or the ``pkgs`` of a list: names, or ``{name: version}``.

    CLI Example::

        saltlite web-1 pkg.install vim
        saltlite web-1 pkg.install vim version=2:9.0.1378-2
        saltlite web-1 pkg.install pkgs='[foo, {bar: 1.2.3}]' refresh=True
    """
    if refresh:
        refresh_db(timeout)
    manager = _manager()
    return _change(manager.install, _wanted(name, version, pkgs, manager.pins), timeout)


def remove(name: str | None = None, pkgs: list[Any] | None = None, timeout: float = TIMEOUT_S) -> Changes:
    """
    Remove packages and leave their configuration files, where the system knows the difference.

    CLI Example: ``saltlite web-1 pkg.remove vim``
    """
    return _change(_manager().remove, _wanted(name, None, pkgs, ""), timeout)


def purge(name: str | None = None, pkgs: list[Any] | None = None, timeout: float = TIMEOUT_S) -> Changes:
    """
    Remove packages with their configuration files.

    CLI Example: ``saltlite web-1 pkg.purge vim``
    """
    return _change(_manager().purge, _wanted(name, None, pkgs, ""), timeout)


def upgrade(refresh: bool = True, timeout: float = TIMEOUT_S) -> Changes:
    """
    Upgrade all packages.

    CLI Example: ``saltlite web-1 pkg.upgrade``
    """
    if refresh:
        refresh_db(timeout)
    return _change(_manager().upgrade, [], timeout)


def _manager() -> _Words:
    """The package manager of the host; asked for once. Raises CommandExecutionError when there is none we know."""
    known: dict[str, str] = __context__.setdefault(_MANAGER, {})
    own_id = __resource__["id"]
    if own_id not in known:
        done = __resource_funcs__["ssh.run"](_HEAD + _FIND)
        found = done.stdout.decode(errors="replace").strip()
        if found not in _MANAGERS:
            raise CommandExecutionError(f"{own_id}: the host has no {', '.join(_MANAGERS)}.")
        known[own_id] = found
    return _MANAGERS[known[own_id]]


def _output(command: str, timeout: float | None = None) -> str:
    limit = None if timeout is None else float(timeout)
    printed: bytes = __resource_funcs__["ssh.checked"](_HEAD + command, timeout=limit)
    return printed.decode(errors="replace")


def _change(command: str, names: Sequence[str], timeout: float) -> Changes:
    before = list_pkgs()
    _output(f"{command} {shlex.join(names)}", timeout)
    after = list_pkgs()
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }


def _wanted(name: str | None, version: str | None, pkgs: list[Any] | None, pins: str) -> list[str]:
    """The names that a call is about, with their versions behind `pins`. Raises SaltInvocationError."""
    found = []
    for each in pkgs if pkgs is not None else [{name: version}] if name else []:
        for own_name, wanted in each.items() if isinstance(each, Mapping) else [(each, None)]:
            text = _name(own_name)
            if wanted is not None and not _VERSION.fullmatch(str(wanted)):
                raise SaltInvocationError(f"{wanted!r} is not a version.")
            found.append(f"{text}{pins}{wanted}" if pins and wanted is not None else text)
    if not found:
        raise SaltInvocationError("Name a package, or give a list as pkgs.")
    return found


def _name(name: Any) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise SaltInvocationError(f"{name!r} is not the name of a package.")


def _one_or_all(found: dict[str, str]) -> str | dict[str, str]:
    return next(iter(found.values())) if len(found) == 1 else found
