"""Zip modules: `m.zip` holds one folder `m/` with an `__init__.py`, and whatever that imports beside it.

The archive is checked before anything of it is read, and read whole before anything of it runs; nothing is unpacked
to disk. Only `.py` files are of use.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator

ARCHIVE_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is no module."""

MEMBERS_MAX = 10_000
"""Files and folders in one archive."""

TEXT_BYTES_MAX = 32 * 1024 * 1024
"""All Python files of one archive together, unpacked."""

_ENCRYPTED = 0x1
_CHUNK = 64 * 1024


class ArchiveError(ImportError):
    """The archive is no module; the text is a sentence."""


def read_main(path: str, stem: str) -> bytes:
    """The text of `stem/__init__.py`. Raises ArchiveError and OSError."""
    with _opened(path) as archive:
        wanted = f"{stem}/__init__.py"
        for member in _python_files(archive, stem):
            if member.filename == wanted:
                return _text(archive, member, TEXT_BYTES_MAX)
    raise ArchiveError(f"the archive holds no {wanted}: a zip module is one folder with its own name")


def read_all(path: str, stem: str) -> dict[str, bytes]:
    """Every Python file of the module: path below `stem/` -> text. Raises ArchiveError and OSError."""
    texts: dict[str, bytes] = {}
    left = TEXT_BYTES_MAX
    with _opened(path) as archive:
        for member in _python_files(archive, stem):
            text = _text(archive, member, left)
            left -= len(text)
            texts[member.filename[len(stem) + 1 :]] = text
    return texts


@contextlib.contextmanager
def _opened(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        with open(path, "rb") as stream:
            if stream.seek(0, 2) > ARCHIVE_BYTES_MAX:
                raise ArchiveError(f"the archive is larger than {ARCHIVE_BYTES_MAX} bytes")
            with zipfile.ZipFile(stream) as archive:
                yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"the archive cannot be read: {error}") from error


def _python_files(archive: zipfile.ZipFile, stem: str) -> list[zipfile.ZipInfo]:
    """The members that matter, after all of them were checked."""
    members = archive.infolist()
    if len(members) > MEMBERS_MAX:
        raise ArchiveError(f"the archive has {len(members)} members, a module may have {MEMBERS_MAX}")
    seen: set[str] = set()
    for member in members:
        # orig_filename: zipfile cuts a name at its first null byte.
        if _leaves(member.orig_filename):
            raise ArchiveError(f"the archive is unsafe: member {member.orig_filename!r} would leave its folder")
        if member.filename in seen:
            raise ArchiveError(f"the archive is unsafe: it holds {member.filename!r} twice")
        seen.add(member.filename)
    found = [one for one in members if one.filename.startswith(f"{stem}/") and one.filename.endswith(".py")]
    for member in found:
        if member.flag_bits & _ENCRYPTED:
            raise ArchiveError(f"the archive is encrypted: member {member.filename!r}")
    if sum(member.file_size for member in found) > TEXT_BYTES_MAX:
        raise ArchiveError(_too_large())
    return found


def _leaves(name: str) -> bool:
    return name.startswith("/") or "\\" in name or "\0" in name or ":" in name or ".." in name.split("/")


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    """What is announced may be less than what comes out, so that is counted too."""
    text = bytearray()
    with archive.open(member) as stream:
        while chunk := stream.read(_CHUNK):
            text += chunk
            if len(text) > limit:
                raise ArchiveError(_too_large())
    return bytes(text)


def _too_large() -> str:
    return f"the Python files of the archive are larger than {TEXT_BYTES_MAX} bytes"
