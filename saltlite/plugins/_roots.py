"""The files below the folders of `file_roots` or `pillar_roots`, as Salt's wheel functions answer them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

Roots = Mapping[str, Sequence[str]]

TEXT_LOOKED_AT = 4096
"""Bytes at the beginning of a file by which text is known."""
READ_MAX = 4 * 1024 * 1024
"""Bytes of a file that is read."""


def files_at(roots: Roots, path: str, env: str) -> list[dict[str, str]]:
    """`{file: txt or bin}` of each file with this path below the folders of an environment."""
    found = []
    for whole in _files(roots, path, env):
        with open(whole, "rb") as file:
            found.append({whole: "txt" if _is_text(file.read(TEXT_LOOKED_AT)) else "bin"})
    return found


def tree_of_env(roots: Roots, env: str) -> dict[str, Any]:
    """Folder -> its tree; a file of it is `f`. Symbolic links to folders are not followed."""
    return {root: _tree(root) for root in roots.get(env, ())}


def trees_of_all(roots: Roots) -> dict[str, list[dict[str, Any]]]:
    """Environment -> its `tree_of_env`, as the one item of a list."""
    return {env: [tree_of_env(roots, env)] for env in roots}


def text_of_files(roots: Roots, path: str, env: str) -> list[dict[str, str]]:
    """`{file: text}` of each text file with this path."""
    found = []
    for whole in _files(roots, path, env):
        if os.path.getsize(whole) > READ_MAX:
            raise CommandExecutionError(f"{whole} has more than {READ_MAX} bytes.")
        with open(whole, "rb") as file:
            content = file.read(READ_MAX)
        if _is_text(content):
            found.append({whole: content.decode()})
    return found


def _files(roots: Roots, path: str, env: str) -> Iterator[str]:
    if not isinstance(path, str) or not path or "\0" in path:
        raise SaltInvocationError("path is that of a file below a root, such as web/init.sls")
    for root in roots.get(env, ()):
        real_root, whole = os.path.realpath(root), os.path.join(root, path)
        # Neither `..` nor a symbolic link leaves the folder.
        if os.path.realpath(whole).startswith(f"{real_root}{os.sep}") and os.path.isfile(whole):
            yield whole


def _tree(folder: str) -> dict[str, Any]:
    try:
        with os.scandir(folder) as entries:
            rows = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandExecutionError(f"{folder} cannot be read: {error.strerror}") from error
    return {row.name: _tree(row.path) if row.is_dir(follow_symlinks=False) else "f" for row in rows}


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError as error:
        # The beginning of a file may end within a character.
        return len(content) == TEXT_LOOKED_AT and error.start > len(content) - 4
    return True
