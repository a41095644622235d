"""Files on their way through one `saltlite cp`: an environment of the file server for each command, removed afterwards.

Its name holds 128 bits by chance and is in no list: a minion that was not told it has no way to the files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator

from saltlite.errors import SaltliteError, UsageError
from saltlite.model.files import is_area, parse_path

NAME_BYTES = 16


class CopyAreas:
    """The folder of all areas. Every error is a SaltliteError."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def begin(self, entropy: Callable[[int], bytes]) -> str:
        """Make an area; its name."""
        area = f"copy-{entropy(NAME_BYTES).hex()}"
        with self._errors():
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            os.mkdir(os.path.join(self._folder, area), 0o700)
        return area

    def put(self, area: str, path: str, offset: int, data: bytes, mode: int) -> None:
        """Write a piece of a file; `mode` are its permission bits on the minion."""
        folder, name = self._place(area), parse_path(path)
        if not name or offset < 0:
            raise UsageError(f"{path!r} is no path of a file")
        place = os.path.join(folder, name)
        with self._errors():
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(fd, mode & 0o777 | 0o600)
                while data:
                    written = os.pwrite(fd, data, offset)
                    offset, data = offset + written, data[written:]
            finally:
                os.close(fd)
            # The age of an area whose client is gone.
            os.utime(folder)

    def end(self, area: str) -> None:
        """Remove an area and what is in it."""
        with self._errors():
            shutil.rmtree(self._place(area))

    def expire(self, before: float) -> None:
        """Remove the areas that were last written to before that time, wall-clock seconds."""
        with self._errors(), contextlib.suppress(FileNotFoundError):
            for area in filter(is_area, os.listdir(self._folder)):
                place = os.path.join(self._folder, area)
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(place).st_mtime < before:
                        shutil.rmtree(place)

    def _place(self, area: str) -> str:
        place = os.path.join(self._folder, area)
        if not is_area(area) or not os.path.isdir(place):
            raise UsageError("there are no such files to copy any more: begin the copy anew")
        return place

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SaltliteError(f"the files to copy cannot be kept in {self._folder}: {error.strerror}") from error
