"""Which programs and shells there are."""

from __future__ import annotations

import shutil

_SHELLS = "/etc/shells"


def which(cmd: str) -> str | None:
    """
    The path of a program, or None.

    CLI Example::

        saltlite '*' cmd.which cat
    """
    return shutil.which(str(cmd))


def which_bin(cmds: list[str]) -> str | None:
    """
    The path of the first of these programs that is installed, or None.

    CLI Example::

        saltlite '*' cmd.which_bin '[pip3, pip, pip-python]'
    """
    return next((path for cmd in cmds if (path := which(cmd))), None)


def has_exec(cmd: str) -> bool:
    """
    Whether a program is installed.

    CLI Example::

        saltlite '*' cmd.has_exec cat
    """
    return which(cmd) is not None


def shells() -> list[str]:
    """
    The shells that users may log in with, as /etc/shells lists them.

    CLI Example::

        saltlite '*' cmd.shells
    """
    try:
        with open(_SHELLS, encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream]
    except FileNotFoundError:
        return []
    return [line for line in lines if line and not line.startswith("#")]
