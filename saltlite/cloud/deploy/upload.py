"""What travels to the machine, as one tar stream: names, contents, modes, and nothing of who made it here."""

from __future__ import annotations

import io
import os
import tarfile

from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure

SECRET = 0o600
PROGRAM = 0o700

BYTES_MAX = 512 << 20
"""Of one upload: it is put together in memory. Larger things are better fetched by the machine itself."""


class Upload:
    """Files to be: added one by one, then sent as `stream()`."""

    def __init__(self) -> None:
        self._made = io.BytesIO()
        self._size = 0
        self._tar = tarfile.open(fileobj=self._made, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - ends in stream()

    def add(self, name: str, data: bytes | str, mode: int = SECRET) -> None:
        """One file. Raises SaltCloudExecutionFailure when it becomes too much."""
        content = data.encode() if isinstance(data, str) else data
        self._grow(len(content))
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        entry.mode = mode
        self._tar.addfile(entry, io.BytesIO(content))

    def add_tree(self, name: str, path: str) -> None:
        """A file or folder of this machine, with its modes and links; owned by whoever unpacks it.

        Raises SaltCloudExecutionFailure when it cannot be read, or becomes too much.
        """
        try:
            self._tar.add(os.path.realpath(path), name, filter=self._taken)
        except OSError as error:
            raise SaltCloudExecutionFailure(f"{error.filename or path} cannot be read: {error.strerror}") from error

    def stream(self) -> bytes:
        """The whole; nothing can be added afterwards."""
        self._tar.close()
        return self._made.getvalue()

    def _taken(self, entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """The entry without its owner; None for sockets and devices, which are of this machine."""
        if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
            return None
        self._grow(entry.size)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > BYTES_MAX:
            raise SaltCloudExecutionFailure(
                f"what is to be uploaded is more than {BYTES_MAX >> 20} MiB: let the machine fetch it by itself"
            )


def name_of_file(number: int, path: str) -> str:
    """Where the upload has the file or folder of this number, under its own name."""
    return f"files/{number}/{os.path.basename(os.path.normpath(path))}"
