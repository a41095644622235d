"""Paths as texts: nothing here asks the disk."""

from __future__ import annotations

import os


def pardir() -> str:
    """
    The name that means the folder above: ``..``.

    CLI Example::

        saltlite '*' file.pardir
    """
    return os.path.pardir


def normpath(path: str) -> str:
    """
    A path without double slashes, ``.`` and ``..``.

    CLI Example::

        saltlite '*' file.normpath 'a/b/c/..'
    """
    return os.path.normpath(path)


def basename(path: str) -> str:
    """
    The last part of a path.

    CLI Example::

        saltlite '*' file.basename 'test/test.config'
    """
    return os.path.basename(path)


def dirname(path: str) -> str:
    """
    A path without its last part.

    CLI Example::

        saltlite '*' file.dirname 'test/path/filename.config'
    """
    return os.path.dirname(path)


def join(*args: str) -> str:
    """
    One path of several parts; a part that begins with a slash begins anew.

    CLI Example::

        saltlite '*' file.join '/' 'usr' 'local' 'bin'
    """
    return os.path.join(*args) if args else ""
