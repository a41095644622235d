"""`salt.utils.path`: paths, and programs in PATH."""

from __future__ import annotations

import logging
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any

from saltlite.errors import CommandNotFoundError
from saltlite.salt.utils.args import invalid_kwargs
from saltlite.salt.utils.data import decode
from saltlite.salt.utils.decorators.jinja import jinja_filter
from saltlite.salt.utils.stringutils import to_str

log = logging.getLogger(__name__)

_ALWAYS_SEARCHED = ("/sbin", "/bin", "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
_WINDOWS_ILLEGAL = str.maketrans(dict.fromkeys("<>:|?*", "_"))


def islink(path: str) -> bool:
    return os.path.islink(path)


def readlink(path: str) -> str:
    return os.readlink(path)


@jinja_filter("which")
def which(exe: str | None = None) -> str | None:
    """The path of a program in PATH or one of the usual folders of programs, or None."""
    if not exe:
        log.error("salt.utils.path.which() needs the name of a program.")
        return None
    if _is_program(exe):
        return exe
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += [folder for folder in _ALWAYS_SEARCHED if folder not in folders]
    paths = (join(os.path.expandvars(folder), exe) for folder in folders)
    return next((path for path in paths if _is_program(path)), None)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def which_bin(exes: Iterable[str] | str | None) -> str | None:
    """The path of the first of the programs that `which` finds, or None."""
    if not isinstance(exes, Iterable):
        return None
    names = [exes] if isinstance(exes, str) else exes
    return next((path for name in names if (path := which(name))), None)


@jinja_filter("path_join")
def join(*parts: Any, **kwargs: Any) -> str:
    """The normalised path of the parts; those behind the first count as relative. `use_posixpath=True` is the only
    option."""
    options = {name: value for name, value in kwargs.items() if not name.startswith("__")}
    paths: Any = posixpath if options.pop("use_posixpath", False) else os.path
    if options:
        invalid_kwargs(options)
    if not parts:
        return ""
    first, *rest = [paths.normpath(to_str(part)) for part in parts]
    joined: str = paths.normpath(paths.join(first, *(part.lstrip(os.sep) for part in rest)))
    return joined


def check_or_die(command: str | None) -> None:
    """Raises CommandNotFoundError if the program is not in PATH."""
    if command is None:
        raise CommandNotFoundError("'None' is not a valid command.")
    if not which(command):
        raise CommandNotFoundError(f"'{command}' is not in the path")


def sanitize_win_path(winpath: Any) -> Any:
    """The path with `_` in place of characters that Windows does not allow in names."""
    return winpath.translate(_WINDOWS_ILLEGAL) if isinstance(winpath, str) else winpath


def safe_path(path: str, allow_path: str | list[str] | None = None) -> bool:
    """Whether a path of Windows is neither a drive nor below the system's folder, or is below `allow_path`."""
    system = re.escape(os.environ.get("SystemRoot", "C:\\Windows"))
    allowed = allow_path if isinstance(allow_path, list) else [allow_path] if allow_path else []
    if not any(re.match(pattern, path, re.IGNORECASE) for pattern in (r"[a-z]\:\\$", r"\\$", system)):
        return True
    return any(re.match(re.escape(one), path, re.IGNORECASE) for one in allowed)


def os_walk(top: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` with names as text."""
    for item in os.walk(to_str(top), *args, **kwargs):
        yield decode(item, preserve_tuples=True)


def expand(path: str) -> str:
    """The real path, with `~` and variables of the environment replaced."""
    return os.path.realpath(os.path.expandvars(os.path.expanduser(path)))
