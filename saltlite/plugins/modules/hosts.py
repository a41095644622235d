"""Entries of the file of host names, /etc/hosts.

The file is replaced atomically, and unrelated lines are preserved.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _machinefiles

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__


def list_hosts() -> dict[str, Any]:
    """All entries: ``{address: {"aliases": [name], "comment": text}}``; comment lines are ``comment-0`` …

    CLI Example: ``saltlite '*' hosts.list_hosts``
    """
    found: dict[str, Any] = {}
    comments = 0
    for line in _machinefiles.read_if_there(_file()).splitlines():
        if line.lstrip().startswith("#"):
            found[f"comment-{comments}"] = [line.strip()]
            comments += 1
            continue
        address, names, comment = _parts(line)
        if address:
            row = found.setdefault(address, {"aliases": []})
            row["aliases"] += names
            if comment:
                row["comment"] = comment
    return found


def get_ip(host: str) -> str:
    """The first address of a name, or an empty string.

    CLI Example: ``saltlite '*' hosts.get_ip localhost``
    """
    for address, names in _entries():
        if host in names:
            return address
    return ""


def get_alias(ip: str) -> list[str]:
    """The names of an address.

    CLI Example: ``saltlite '*' hosts.get_alias 127.0.0.1``
    """
    return [name for address, names in _entries() if address == str(ip) for name in names]


def has_pair(ip: str, alias: str | list[str]) -> bool:
    """Whether an address has a name, or all names in a list.

    CLI Example: ``saltlite '*' hosts.has_pair 127.0.0.1 localhost``
    """
    wanted = [alias] if isinstance(alias, str) else alias
    return set(map(str, wanted)) <= set(get_alias(ip))


def set_host(ip: str, alias: str, comment: str | None = None, test: bool = False) -> bool:
    """Set the names of an address, separated by white space. An empty string removes its entries.

    CLI Example: ``saltlite '*' hosts.set_host 192.0.2.7 'web web.example.org' comment='behind the proxy'``
    """
    address, names = _address(ip), _names(alias)
    line = _line(address, names, _comment(comment)) if names else ""
    lines, written = [], False
    for each in _lines():
        if _parts(each)[0] != address:
            lines.append(each)
        elif not written:
            written = True
            lines.append(line)
    return _write(lines if written else [*lines, line], test=test)


def rm_host(ip: str, alias: str, test: bool = False) -> bool:
    """Remove a name from an address. An entry without names is removed.

    CLI Example: ``saltlite '*' hosts.rm_host 192.0.2.7 web``
    """
    address, gone = _address(ip), set(_names(alias))
    lines = []
    for line in _lines():
        found, names, comment = _parts(line)
        if found != address or not gone & set(names):
            lines.append(line)
            continue
        kept = [name for name in names if name not in gone]
        if kept:
            lines.append(_line(address, kept, comment))
    return _write(lines, test=test)


def add_host(ip: str, alias: str, test: bool = False) -> bool:
    """Add a name to an address.

    CLI Example: ``saltlite '*' hosts.add_host 192.0.2.7 web``
    """
    address, names = _address(ip), _names(alias)
    if not names:
        raise SaltInvocationError("Give a name for the address.")
    missing = [name for name in names if not has_pair(address, name)]
    if not missing:
        return True
    lines = _changed(address, lambda known, comment: _line(address, [*known, *missing], comment))
    return _write(lines or [*_lines(), _line(address, missing, "")], test=test)


def set_comment(ip: str, comment: str, test: bool = False) -> bool:
    """Set the comment of the first entry of an address; False if there is no entry.

    CLI Example: ``saltlite '*' hosts.set_comment 127.0.0.1 'myself'``
    """
    address, text = _address(ip), _comment(comment)
    lines = _changed(address, lambda names, _: _line(address, names, text))
    return lines is not None and _write(lines, test=test)


def _file() -> str:
    return str(__opts__.get("hosts.file") or "/etc/hosts")


def _lines() -> list[str]:
    lines = _machinefiles.read_if_there(_file()).splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _changed(address: str, change: Callable[[list[str], str], str]) -> list[str] | None:
    """The lines after `change` of names and comment of the first entry of an address; None if it has no entry."""
    lines = _lines()
    for number, line in enumerate(lines):
        found, names, comment = _parts(line)
        if found == address:
            lines[number] = change(names, comment)
            return lines
    return None


def _entries() -> list[tuple[str, list[str]]]:
    return [(address, names) for address, names, _ in map(_parts, _lines()) if address]


def _parts(line: str) -> tuple[str, list[str], str]:
    """Address, names and comment; the address is empty for a line that is not an entry."""
    entry, _, comment = line.partition("#")
    address, *names = entry.split() or [""]
    return address, names, comment.strip() if address else ""


def _line(address: str, names: list[str], comment: str) -> str:
    return f"{address}\t\t{' '.join(names)}" + (f"\t\t# {comment}\n" if comment else "\n")


def _write(lines: list[str], *, test: bool) -> bool:
    if not test and lines != _lines():
        _machinefiles.replace(_file(), "".join(lines))
    return True


def _address(ip: Any) -> str:
    try:
        ipaddress.ip_address(str(ip).partition("%")[0])
    except ValueError as error:
        raise SaltInvocationError(f"{ip!r} is not an address.") from error
    return str(ip)


def _names(alias: Any) -> list[str]:
    text = " ".join(map(str, alias)) if isinstance(alias, list) else str(alias)
    if any(bad in text for bad in "#\n\r\0"):
        raise SaltInvocationError(f"{text!r} cannot be the names of a host: they stand on one line, without a #.")
    return text.split()


def _comment(comment: Any) -> str:
    text = str(comment or "").strip()
    if any(bad in text for bad in "\n\r\0"):
        raise SaltInvocationError(f"{text!r} cannot be a comment: it has more than one line.")
    return text
