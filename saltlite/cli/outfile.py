"""`--out-file`: the output in a file that is there whole, or not at all."""

from __future__ import annotations

import os
import shutil
import stat

from saltlite.errors import SaltliteError, UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from typing import TextIO


class OutFile:
    """A context whose value is the stream to write to; the file gets its name at the end of it.

    When an exception ends the context, what was written is gone and a file of that name is what it was before. With
    `append` the output comes behind what is in the file, all of it at the end of the context.
    A path that names something else than a file, a pipe for one, is written as it is.
    Raises UsageError when it cannot be created, and SaltliteError when it cannot be completed.
    """

    def __init__(self, path: str, *, append: bool = False) -> None:
        self._path = path
        self._append = append
        self._final = os.path.realpath(path)
        self._temporary = ""
        self._stream: TextIO | None = None

    def __enter__(self) -> TextIO:
        try:
            descriptor = self._open()
        except OSError as error:
            raise UsageError(self._sentence(error)) from error
        self._stream = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
        return self._stream

    def _open(self) -> int:
        try:
            # By the name that was given: then the kernel refuses a link that somebody else left in a shared folder.
            old = os.stat(self._path)
        except FileNotFoundError:
            old = None
        if old is not None and not stat.S_ISREG(old.st_mode):
            return os.open(self._final, os.O_WRONLY | os.O_CLOEXEC)
        folder, name = os.path.split(self._final)
        self._temporary = os.path.join(folder, f".{name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._temporary, flags, 0o666)
        if old is not None:
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        return descriptor

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        assert self._stream is not None  # noqa: S101 - a context is left after it was entered
        try:
            if kind is None:
                self._complete(self._stream)
        except OSError as error:
            raise SaltliteError(self._sentence(error)) from error
        finally:
            self._discard()

    def _complete(self, stream: TextIO) -> None:
        stream.flush()
        if self._temporary:
            os.fsync(stream.fileno())  # some file systems say only now that there is no room
            if self._append and os.path.exists(self._final):
                self._join(self._final)
                return
            os.rename(self._temporary, self._final)
            self._temporary = ""

    def _join(self, final: str) -> None:
        with open(self._temporary, "rb") as written, open(final, "ab") as old:
            before = old.tell()
            try:
                shutil.copyfileobj(written, old)
                old.flush()
                os.fsync(old.fileno())
            except OSError:
                os.ftruncate(old.fileno(), before)
                raise

    def _discard(self) -> None:
        if self._stream is not None:
            try:
                self._stream.close()
            except OSError:
                self._stream = None  # of what is thrown away nothing needs to be written
        if self._temporary:
            os.unlink(self._temporary)

    def _sentence(self, error: OSError) -> str:
        return f"--out-file {self._path} cannot be written: {error.strerror}"
