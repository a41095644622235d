"""`salt.utils.atomicfile`: files that are replaced at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any

from saltlite.salt.utils import files

CAN_RENAME_OPEN_FILE = True
_NOT_MODES = ("r", "rb", "r+", "rb+", "a", "ab")

atomic_rename = os.rename


class _AtomicWFile:
    """An open temporary file that takes the place of `filename` when it is closed, with that file's owner and mode.

    In a `with` block that fails, it is removed instead.
    """

    def __init__(self, fhanle: Any, tmp_filename: str, filename: str) -> None:
        self._fh = fhanle
        self._tmp_filename = tmp_filename
        self._filename = filename

    def __getattr__(self, attr: str) -> Any:
        return getattr(self._fh, attr)

    def __enter__(self) -> _AtomicWFile:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        if exc_type is None:
            self.close()
            return
        self._fh.close()
        files.safe_rm(self._tmp_filename)

    def close(self) -> None:
        if self._fh.closed:
            return
        self._fh.flush()
        os.fsync(self._fh.fileno())
        self._fh.close()
        if os.path.isfile(self._filename):
            status = os.stat(self._filename)
            shutil.copymode(self._filename, self._tmp_filename)
            os.chown(self._tmp_filename, status.st_uid, status.st_gid)
        else:
            os.chmod(self._tmp_filename, 0o666 & ~files.get_umask())
        atomic_rename(self._tmp_filename, self._filename)


def atomic_open(filename: str, mode: str = "w") -> _AtomicWFile:
    """Open a file for writing, whose content takes its place when it is closed. Raises TypeError for another mode."""
    if mode in _NOT_MODES:
        raise TypeError("Read or append modes don't work with atomic_open")
    text: Any = {} if "b" in mode else {"newline": ""}
    folder = os.path.dirname(filename)
    made: Any = tempfile.NamedTemporaryFile(mode, prefix=".___atomic_write", dir=folder, delete=False, **text)  # noqa: SIM115 - _AtomicWFile closes it
    return _AtomicWFile(made, made.name, filename)


def safe_atomic_write(dst: str, data: Any, backup_mode: str = "", cachedir: str = "") -> None:
    """Replace the content of a file by a text or bytes at once; see `files.copyfile` for the backup."""
    temporary = files.mkstemp(prefix=files.TEMPFILE_PREFIX)
    with contextlib.ExitStack() as stack:
        stack.callback(files.safe_rm, temporary)
        with files.fopen(temporary, "wb" if isinstance(data, bytes) else "w") as file:
            file.write(data)
        files.copyfile(temporary, dst, backup_mode, cachedir)
