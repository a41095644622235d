"""What the file server needs of a disk: folders of environments, read only, and nothing outside them.

`saltlite.files.roots` has the folders of `file_roots`, `saltlite.files.memory` their twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from saltlite.wire.messages import Message


class ServedFile(Protocol):
    """An open regular file. Close it."""

    size: int
    mode: int
    """Permission bits."""
    mtime: int
    """Seconds since 1970."""
    identity: tuple[int, ...]
    """Another value when the content may be another."""

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; b"" at the end. Raises OSError."""
        ...

    def close(self) -> None: ...


class FileRoots(Protocol):
    """The served files, by environment and path. Paths are those of `saltlite.model.files.parse_path`.

    A file that is missing, ignored, too large, no regular file, outside the folders or not readable is not there: who
    asks does not learn which.
    """

    def envs(self) -> Sequence[str]:
        """The environments that may be listed, sorted."""
        ...

    def names(self, env: str, prefix: str, *, folders: bool) -> Sequence[str]:
        """Files, or folders, below `prefix` ("" for all), sorted; relative to the root of the environment.

        A folder is listed with all that are above it; the root itself is "" and is not listed.
        """
        ...

    def links(self, env: str) -> Mapping[str, str]:
        """Files and folders of `names` that are symbolic links, sorted -> what is written in them."""
        ...

    def open(self, env: str, path: str) -> ServedFile | None:
        """The file of the first folder of the environment that has it."""
        ...


class FileAsker(Protocol):
    """Whoever answers `file_request` and `file_put`: the master, or files of this machine."""

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """A `response` for each question, in order; `n` says nothing. Raises CommandExecutionError."""
        ...
