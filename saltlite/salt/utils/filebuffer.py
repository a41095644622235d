"""`salt.utils.filebuffer`: reading a file in blocks that overlap."""

from __future__ import annotations

from collections.abc import Iterator

from saltlite.errors import SaltliteError as SaltException
from saltlite.salt.utils.files import fopen
from saltlite.salt.utils.stringutils import to_str


class InvalidFileMode(SaltException):
    """A file is to be opened for writing."""


class BufferedReader:
    """Yields the last `max_in_mem` characters read, which move on by `chunk_size` each time."""

    def __init__(self, path: str, max_in_mem: int = 256 * 1024, chunk_size: int = 32 * 1024, mode: str = "r") -> None:
        if "a" in mode or "w" in mode:
            raise InvalidFileMode("Cannot open file in write or append mode")
        self._file = fopen(path, mode)
        self._most = max_in_mem
        self._step = chunk_size
        self.buffered: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        size = self._most // self._step * self._step if self.buffered is None else self._step
        kept = "" if self.buffered is None else self.buffered[self._step :]
        block = to_str(self._file.read(size))
        self.buffered = kept
        if not block:
            self._file.close()
            raise StopIteration
        self.buffered += block
        return self.buffered

    next = __next__

    def __enter__(self) -> BufferedReader:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()
