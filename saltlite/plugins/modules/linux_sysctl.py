"""Parameters of the running kernel, and those that are set at boot.

Values are read from and written to `/proc/sys`; names are written with dots or with slashes.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "sysctl"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:/*-]*")
_NOT_SHOWN = {"base_reachable_time", "retrans_time", "stat_refresh"}
"""Deprecated parameters, whose use the kernel logs, and one that has an effect when it is read."""
_HEADER = "#\n# Kernel sysctl configuration\n#\n"


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("kernel", "Linux") != "Linux":
        return False, "The linux_sysctl execution module cannot be loaded: only works on Linux."
    return __virtualname__


def default_config() -> str:
    """The file that ``persist`` writes: one that systemd reads, or /etc/sysctl.conf.

    CLI Example: ``saltlite '*' sysctl.default_config``
    """
    systemd = os.path.isdir(_machinefiles.place("/run/systemd/system"))
    return "/etc/sysctl.d/99-salt.conf" if systemd else "/etc/sysctl.conf"


def show(config_file: str | bool = False) -> dict[str, str] | list[str]:
    """All parameters, or those that a file sets; an empty list if there is no such file.

    Parameters that this minion's user may not read are skipped.

    CLI Example::

        saltlite '*' sysctl.show
        saltlite '*' sysctl.show config_file=/etc/sysctl.conf
    """
    if config_file:
        path = str(config_file)
        if not os.path.exists(_machinefiles.place(path)):
            return []
        found = {}
        for line in _machinefiles.read(path).splitlines():
            setting = _setting(line)
            if setting:
                found[setting[0]] = setting[1]
        return found
    top = _machinefiles.place("/proc/sys")
    every: dict[str, str] = {}
    for folder, _, files in os.walk(top):
        inner = [] if folder == top else os.path.relpath(folder, top).split(os.sep)
        for file in sorted(files):
            value = None if file in _NOT_SHOWN else _read(os.path.join(folder, file))
            if value is not None:
                # A part with dots, such as the interface eth0.5, is shown with slashes.
                every[".".join(part.replace(".", "/") for part in [*inner, file])] = value
    return every


def get(name: str) -> str:
    """The value of a parameter.

    CLI Example: ``saltlite '*' sysctl.get net.ipv4.ip_forward``
    """
    value = _read(_machinefiles.place(_path(name)))
    if value is None:
        raise CommandExecutionError(f"sysctl {name} cannot be read.")
    return value


def assign(name: str, value: str, test: bool = False) -> dict[str, str]:
    """Set a parameter until the next boot: ``{name: value}``. ``test=True`` only checks that it exists.

    CLI Example: ``saltlite '*' sysctl.assign net.ipv4.ip_forward 1``
    """
    path, text = _path(name), _value(value)
    if not test:
        try:
            # The kernel needs the value in one write, which fails if the value is invalid.
            descriptor = os.open(_machinefiles.place(path), os.O_WRONLY)
            try:
                os.write(descriptor, f"{text}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CommandExecutionError(f"sysctl {name} cannot be set to {text!r}: {error.strerror}.") from error
    return {str(name): text}


def persist(name: str, value: str, config: str | None = None, test: bool = False) -> str:
    """Set a parameter now and at every boot: ``Updated`` or ``Already set``.

    ``config`` is the file to write. ``test=True`` changes nothing.

    CLI Example: ``saltlite '*' sysctl.persist net.ipv4.ip_forward 1``
    """
    path, text = config or default_config(), _value(value)
    _path(name)
    before = _machinefiles.read_if_there(path)
    lines, written = [], False
    for line in (before or _HEADER).splitlines(keepends=True):
        setting = _setting(line)
        if setting is None or _dotted(setting[0]) != _dotted(name):
            lines.append(line)
        elif not written:
            written = True
            lines.append(line if _plain(setting[1]) == _plain(text) else f"{name} = {text}\n")
    if not written:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(f"{name} = {text}\n")
    after = "".join(lines)
    set_now = _plain(get(name)) == _plain(text)
    if after == before and set_now:
        return "Already set"
    # The kernel comes first: a value that it refuses must not be saved.
    if not set_now:
        assign(name, text, test=test)
    if after != before and not test:
        _machinefiles.replace(path, after)
    return "Updated"


def _path(name: Any) -> str:
    text = str(name)
    if not _NAME.fullmatch(text) or ".." in text or "//" in text or "/./" in text:
        raise SaltInvocationError(f"{text!r} cannot be the name of a parameter of the kernel.")
    path = f"/proc/sys/{_slashed(text)}"
    if not os.path.isfile(_machinefiles.place(path)):
        raise CommandExecutionError(f"sysctl {name} does not exist")
    return path


def _slashed(name: str) -> str:
    """The name with slashes, as sysctl reads names: the first dot or slash is the separator."""
    first = re.search(r"[./]", name)
    return name.translate(str.maketrans("./", "/.")) if first and first[0] == "." else name


def _dotted(name: str) -> str:
    return _slashed(str(name).removeprefix("-"))


def _value(value: Any) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value).strip()
    if "\n" in text or "\0" in text:
        raise SaltInvocationError(f"{text!r} cannot be a value: it has more than one line.")
    return text


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip("\n")
    except OSError:  # readable by root only, write-only, or rate-limited
        return None


def _setting(line: str) -> tuple[str, str] | None:
    name, equals, value = line.partition("=")
    if not equals or line.lstrip().startswith(("#", ";")):
        return None
    return name.strip(), value.strip()


def _plain(value: str) -> str:
    return " ".join(value.split())
