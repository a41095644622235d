"""Temporary files and folders that only their owner can access.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import os
import tempfile

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import refuse_strange_links


def dir(suffix: str = "", prefix: str = "tmp", parent: str | None = None) -> str:
    """Create a temporary folder and return its path.

    CLI Example::

        saltlite '*' temp.dir
        saltlite '*' temp.dir prefix='mytemp-' parent=/var/run/
    """
    _check(suffix, prefix, parent)
    try:
        return tempfile.mkdtemp(suffix, prefix, parent or None)
    except OSError as error:
        raise _failed(parent, error) from error


def file(suffix: str = "", prefix: str = "tmp", parent: str | None = None) -> str:
    """Create an empty temporary file and return its path.

    CLI Example::

        saltlite '*' temp.file
        saltlite '*' temp.file prefix='mytemp-' parent=/var/run/
    """
    _check(suffix, prefix, parent)
    try:
        fd, path = tempfile.mkstemp(suffix, prefix, parent or None)
    except OSError as error:
        raise _failed(parent, error) from error
    os.close(fd)
    return path


def _check(suffix: str, prefix: str, parent: str | None) -> None:
    for part in (suffix, prefix):
        if "/" in str(part) or "\0" in str(part):
            raise SaltInvocationError(f"{part!r} cannot be a part of a name: give the folder as parent.")
    if parent and (not os.path.isabs(parent) or "\0" in parent):
        raise SaltInvocationError(f"{parent!r} is not an absolute path of a folder.")
    if parent:
        refuse_strange_links(parent)


def _failed(parent: str | None, error: OSError) -> CommandExecutionError:
    return CommandExecutionError(f"Nothing can be made in {parent or tempfile.gettempdir()}: {error.strerror}.")
