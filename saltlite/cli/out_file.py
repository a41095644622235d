"""`--out-file`: a file that holds the whole output of a command, or does not appear."""

from __future__ import annotations

import os
import stat

from saltlite.errors import SaltliteError, UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from typing import TextIO


class OutFile:
    """`--out-file`: a context whose value is the stream to write to. The file is complete or does not appear.

    When an exception ends the context, the output is deleted and an existing file stays unchanged. With `append` the
    output is added to the file at the end of the context. A path to something other than a file, such as a pipe, is
    written directly. Raises UsageError when the file cannot be created, SaltliteError when it cannot be completed.
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
            # By the given name, so that the kernel refuses another user's link in a shared folder.
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
        assert self._stream is not None  # noqa: S101 - __enter__ ran
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
            os.fsync(stream.fileno())  # some file systems report only now that they are full
            if self._append and os.path.exists(self._final):
                self._join(self._final)
                return
            os.rename(self._temporary, self._final)
            self._temporary = ""

    def _join(self, final: str) -> None:
        import shutil  # slow to import

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
                self._stream = None  # discarded output need not be written
        if self._temporary:
            os.unlink(self._temporary)

    def _sentence(self, error: OSError) -> str:
        return f"--out-file {self._path} cannot be written: {error.strerror}"
