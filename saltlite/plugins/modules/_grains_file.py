"""The file of the grains that were set by hand: read, and written whole under a lock.

What belongs here: the file `grains` beside the configuration, as `saltlite.plugins.grains.kept` reads it. It knows
nothing of
what is changed in it. The lock is on the folder, so nothing is left behind, and nobody locks a file that is replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import write_whole

LOCK_S = 30.0
"""How long to wait for others that set grains."""

FILE_BYTES_MAX = 1024 * 1024
"""The most that the file may have: a minion does not read a larger one."""

DEPTH_MAX = 32
"""Maps and lists inside of each other."""

_LOOK_S = 0.02
_PLAIN = (str, int, float, bool, type(None))


@contextlib.contextmanager
def changing(path: str) -> Iterator[dict[str, Any]]:
    """The grains of the file, which are written when the block ends without an error and has changed them.

    Nobody else changes them meanwhile. Raises CommandExecutionError when it cannot be read or written, and
    SaltInvocationError for what is no value of a grain.
    """
    with _locked(os.path.dirname(path)):
        header, grains = _read(path)
        before = _text(grains)
        yield grains
        for value in grains.values():
            _check(value, DEPTH_MAX)
        after = _text(grains)
        if after != before:
            _write(path, header + after)


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise SaltInvocationError(f"A grain has at most {DEPTH_MAX} maps and lists inside of each other.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, _PLAIN):
                raise SaltInvocationError(f"{key!r} cannot be a key inside of a grain.")
            _check(inner, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner, depth - 1)
    elif not isinstance(value, _PLAIN):
        import datetime  # values of a file that somebody wrote

        if not isinstance(value, datetime.date):
            raise SaltInvocationError(f"A grain is text, a number, true, false, a list or a map, not {value!r:.80}.")


def _text(grains: dict[str, Any]) -> str:
    import yaml  # only who sets grains needs it

    class Plain(yaml.SafeDumper):
        """No anchors: whoever edits the file by hand sees each value where it stands."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    plain: Any = Plain
    plain.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
    plain.add_multi_representer(str, yaml.SafeDumper.represent_str)
    plain.add_multi_representer(tuple, yaml.SafeDumper.represent_list)
    try:
        text: str = yaml.dump(grains, Dumper=plain, default_flow_style=False, allow_unicode=True, sort_keys=False)
    except (yaml.YAMLError, RecursionError) as error:
        raise SaltInvocationError(f"That cannot be written as YAML: {error}") from error
    return text if grains else ""


def _read(path: str) -> tuple[str, dict[str, Any]]:
    """The lines of comments at the top, and the grains."""
    import yaml

    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(FILE_BYTES_MAX + 1)
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise CommandExecutionError(f"The grains file {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CommandExecutionError(f"The grains file {path} is not YAML, and stays as it is: {reason}") from error
    if len(text) > FILE_BYTES_MAX or not isinstance(found, dict | None):
        raise CommandExecutionError(f"The grains file {path} is no map of grains, and stays as it is.")
    header = ""
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            break
        header += line
    return header, {str(name): value for name, value in (found or {}).items()}


def _write(path: str, text: str) -> None:
    data = text.encode()
    if len(data) > FILE_BYTES_MAX:
        raise SaltInvocationError(f"Grains that are set have at most {FILE_BYTES_MAX} bytes together: nothing is set.")
    try:
        write_whole(path, data, new_mode=0o644)
    except CommandExecutionError as error:
        reason = getattr(error.__cause__, "strerror", None) or str(error).rstrip(".")
        raise CommandExecutionError(f"The grains file {path} cannot be written, and is as it was: {reason}.") from error


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandExecutionError(f"The folder {folder} of the grains cannot be opened: {error.strerror}.") from error
    try:
        give_up_at = time.monotonic() + LOCK_S
        while not _lock(fd):
            if time.monotonic() > give_up_at:
                raise CommandExecutionError(f"Somebody else has been changing the grains in {folder} for {LOCK_S:g} s.")
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
