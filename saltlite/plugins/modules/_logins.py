"""Who is logged in, by the file in which login programs write it down (utmp(5)).

What belongs here: the records of that file, as plain data.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from saltlite.plugins.modules import _machinefiles

_RECORD = struct.Struct("=hxxi32s4s32s256shhiii16s20x")
_USER_PROCESS = 7
_PLACES = ("/run/utmp", "/var/run/utmp")


class Login(NamedTuple):
    """`started` is in seconds since 1970."""

    name: str
    terminal: str
    host: str
    started: int
    pid: int


def logins() -> list[Login]:
    """Everybody who is logged in; nobody where this machine keeps no such file."""
    for path in _PLACES:
        try:
            with open(_machinefiles.place(path), "rb") as stream:
                data = stream.read()
        except OSError:
            continue
        whole = len(data) - len(data) % _RECORD.size
        return [
            Login(_text(name), _text(line), _text(host), started, pid)
            for kind, pid, line, _, name, host, _, _, _, started, _, _ in _RECORD.iter_unpack(data[:whole])
            if kind == _USER_PROCESS
        ]
    return []


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")
