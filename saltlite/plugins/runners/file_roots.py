"""The files below `file_roots` of the master, with the names and answers of Salt's wheel functions.

They are read with the rights of whoever runs them; the API runs them as its own user. Nothing here writes a file.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.plugins._roots import files_at, text_of_files, tree_of_env, trees_of_all

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

__outputter__ = dict.fromkeys(("find", "list_env", "list_roots", "read"), "nested")


def find(path: str, saltenv: str = "base") -> list[dict[str, str]]:
    """Return each file with this path in the environment, and whether it is ``txt`` or ``bin``.

    CLI Example: ``saltlite-run file_roots.find top.sls``
    """
    return files_at(__opts__["file_roots"], path, saltenv)


def list_env(saltenv: str = "base") -> dict[str, Any]:
    """Return the folders of an environment with their trees, in which a file is ``f``.

    CLI Example: ``saltlite-run file_roots.list_env``
    """
    return tree_of_env(__opts__["file_roots"], saltenv)


def list_roots() -> dict[str, list[dict[str, Any]]]:
    """Return ``list_env`` of each environment.

    CLI Example: ``saltlite-run file_roots.list_roots``
    """
    return trees_of_all(__opts__["file_roots"])


def read(path: str, saltenv: str = "base") -> list[dict[str, str]]:
    """Return the text of each file with this path in the environment; binary files are omitted.

    CLI Example: ``saltlite-run file_roots.read top.sls``
    """
    return text_of_files(__opts__["file_roots"], path, saltenv)
