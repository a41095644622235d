"""The name of this machine, and giving it another one."""

from __future__ import annotations

import os
import re
import socket

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


def get_hostname() -> str:
    """
    The name of this machine.

    CLI Example::

        saltlite '*' network.get_hostname
    """
    return socket.gethostname()


def get_fqdn() -> str:
    """
    The name of this machine with its domain, as the resolver knows it.

    CLI Example::

        saltlite '*' network.get_fqdn
    """
    return socket.getfqdn()


def mod_hostname(hostname: str, test: bool = False) -> bool:
    """
    Give this machine another name: at once, in /etc/hostname, and wherever /etc/hosts has the old one.

    On Red Hat's systems /etc/sysconfig/network follows where it names the machine.

    CLI Example::

        saltlite '*' network.mod_hostname master.example.org
    """
    name = str(hostname)
    if not _NAME.fullmatch(name) or ".." in name:
        raise SaltInvocationError(f"{hostname!r} cannot be the name of a machine.")
    if test:
        return True
    old = socket.gethostname()
    if _programs.find("hostnamectl") and os.path.isdir(_machinefiles.place("/run/systemd/system")):
        _programs.output(["hostnamectl", "set-hostname", "--", name])
    else:
        try:
            socket.sethostname(name)
        except OSError as error:
            raise CommandExecutionError(f"This machine cannot be given a name: {error.strerror}.") from error
        _machinefiles.replace("/etc/hostname", f"{name}\n")
    _exchange("/etc/hosts", rf"(?<![^\s]){re.escape(old)}(?![^\s#])", name)
    _exchange("/etc/sysconfig/network", r"(?m)(?<=^HOSTNAME=)[^\n]*", name)
    return True


def _exchange(path: str, expression: str, name: str) -> None:
    text = _machinefiles.read_if_there(path)
    # What stands behind a # in /etc/hosts is for people.
    lines = []
    for line in text.splitlines(keepends=True):
        said, mark, comment = line.partition("#")
        lines.append(re.sub(expression, name, said) + mark + comment)
    changed = "".join(lines)
    if changed != text:
        _machinefiles.replace(path, changed)
