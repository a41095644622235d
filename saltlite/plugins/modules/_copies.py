"""What `cp` needs beside the file server: which of many files are meant, and how a text takes its place.

What belongs here: decisions about names, and files that are no copy of a served one.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _safe_files


def matcher(patterns: Any) -> Callable[[str], bool]:
    """Whether a pattern matches a path: a glob on all of it, or behind `E@` a regular expression anywhere in it.

    Raises SaltInvocationError for what is no regular expression.
    """
    texts = [str(one) for one in patterns] if isinstance(patterns, list) else [str(patterns)]
    try:
        each = [re.compile(text[2:] if text.startswith("E@") else rf"\A{fnmatch.translate(text)}") for text in texts]
    except re.error as error:
        raise SaltInvocationError(f"{patterns!r} holds what is no regular expression: {error}.") from error
    return lambda path: any(one.search(path) for one in each)


def make_folders(folder: str) -> None:
    """Make a folder and those above it, over no link of others that leads to what is not theirs.

    Raises CommandExecutionError.
    """
    _safe_files.refuse_strange_links(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CommandExecutionError(f"{folder} cannot be made: {error.strerror}") from error


def need_folder(folder: str, *, makedirs: bool) -> None:
    """Return when the folder is there, made if need be. Raises CommandExecutionError."""
    if makedirs:
        make_folders(folder)
    elif not os.path.isdir(folder):
        raise CommandExecutionError(f"There is no folder {folder}: makedirs=True makes it.")


def write(dest: str, text: str, *, makedirs: bool) -> None:
    """A new file in the place of the old one, with its mode and owner; nobody but its owner reads one that is new.

    Raises CommandExecutionError.
    """
    need_folder(os.path.dirname(dest), makedirs=makedirs)
    _safe_files.write_whole(dest, text.encode(), new_mode=0o600)
