"""The content of one file: reading it, writing it, adding to it, cutting it off."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import (
    blocks,
    checked_path,
    existing,
    hold,
    pinned,
    read_whole,
    regular,
    sentence,
    shown,
    write_whole,
)

from ._text import UTF8, as_text

READ_BYTES_MAX = 64 * 1024 * 1024
"""Bytes that are returned at once: four times what a return may have, for other modules that go on with them."""

_FIRST_LINE_BYTES = 65536

__risk__ = {"truncate": "truncate"}


def read(path: str, binary: bool = False) -> str | bytes:
    """
    The content of a file as text, or with ``binary`` as bytes.

    A file of more than 64 MiB is refused: ``file.seek_read`` reads a part of it. Bytes that are no UTF-8 reach another
    module as they are; a person sees U+FFFD in their place.

    CLI Example::

        saltlite '*' file.read /etc/hostname
        saltlite '*' file.read /etc/machine-id binary=True
    """
    place = checked_path(path)
    size = existing(place).st_size
    if size > READ_BYTES_MAX:
        raise CommandExecutionError(
            f"{shown(place)} has {size} bytes, more than {READ_BYTES_MAX}: read a part of it with file.seek_read."
        )
    content = read_whole(place)
    return content if binary else content.decode(UTF8.name, UTF8.errors)


def write(path: str, *lines: str, args: str | list[str] | None = None, test: bool = False) -> str:
    """
    Make these lines the whole content of a file, which is made where there is none.

    Each argument is one line, or several where it has line breaks. A text with an equal sign in it has to be given as
    ``args``, which is one text or a list. ``test=True`` tells what would be written, and changes nothing.

    CLI Example::

        saltlite '*' file.write /etc/motd 'This machine is watched.'
        saltlite '*' file.write /etc/default/app args='["A=1", "B=2"]'
    """
    place, wanted = checked_path(path), _lines(lines, args)
    regular(place)
    if not test:
        write_whole(place, _joined(wanted, "\n"))
    return _report("Wrote", "Would write", wanted, path, test=test)


def append(path: str, *lines: str, args: str | list[str] | None = None, test: bool = False) -> str:
    """
    Add lines at the end of a file; a last line without a line break gets one first.

    Arguments are those of ``file.write``. The file has to be there. Where its lines end in CR LF, the new ones do.

    CLI Example::

        saltlite '*' file.append /etc/motd 'With all thine offerings thou shalt offer salt.'
        saltlite '*' file.append /etc/environment args='EDITOR=vi'
    """
    place, wanted = checked_path(path), _lines(lines, args)
    existing(place)
    if not test:
        end = _ending(place)
        between = b"" if _last_byte(place) in (b"", b"\n") else end.encode()
        write_whole(place, chain(blocks(place, to_edit=True), (between + _joined(wanted, end),)))
    return _report("Wrote", "Would write", wanted, path, test=test)


def prepend(path: str, *lines: str, args: str | list[str] | None = None, test: bool = False) -> str:
    """
    Add lines at the beginning of a file, which is made where there is none. Arguments are those of ``file.write``.

    CLI Example::

        saltlite '*' file.prepend /etc/motd 'This machine is watched.'
    """
    place, wanted = checked_path(path), _lines(lines, args)
    there = regular(place)
    if not test:
        end = _ending(place) if there else "\n"
        write_whole(place, chain((_joined(wanted, end),), blocks(place, to_edit=True) if there else ()))
    return _report("Prepended", "Would prepend", wanted, path, test=test)


def touch(name: str, atime: float | str | None = None, mtime: float | str | None = None) -> bool:
    """
    Make an empty file where there is none, and set its times: now, or seconds since 1970.

    CLI Example::

        saltlite '*' file.touch /var/log/emptyfile
        saltlite '*' file.touch /var/log/old mtime=0
    """
    place = checked_path(name)
    times = (_nanoseconds(atime, "atime"), _nanoseconds(mtime, "mtime"))
    try:
        with pinned(place) as end:
            if end.status() is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(end.name, flags, 0o666, dir_fd=end.folder))
            with hold(end, follow_symlinks=True) as same:
                os.utime(same, ns=times)
    except OSError as error:
        raise sentence(place, "touched", error) from error
    return os.path.exists(place)


def seek_read(path: str, size: int, offset: int) -> bytes:
    """
    Up to ``size`` bytes of a file from a position on; fewer at its end. More than 64 MiB are refused.

    CLI Example::

        saltlite '*' file.seek_read /path/to/file 4096 0
    """
    place, amount = checked_path(path), _count(size, "size")
    if amount > READ_BYTES_MAX:
        raise SaltInvocationError(f"size={amount} is more than can be read at once: {READ_BYTES_MAX}.")
    start = _count(offset, "offset")
    with _opened(place, os.O_RDONLY, "read") as file:
        return os.pread(file.fileno(), amount, start)


def seek_write(path: str, data: str, offset: int) -> int:
    """
    Write over a part of a file, from a position on; how many bytes were written.

    The file has to be there, and keeps its size or grows. What was there is put back when the disk is full.

    CLI Example::

        saltlite '*' file.seek_write /path/to/file 'some data' 4096
    """
    place, start = checked_path(path), _count(offset, "offset")
    new = as_text(data).encode(UTF8.name, UTF8.errors)
    if len(new) > READ_BYTES_MAX:
        raise SaltInvocationError(f"data has {len(new)} bytes, more than can be written at once: {READ_BYTES_MAX}.")
    with _opened(place, os.O_RDWR, "written") as file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        old = os.pread(fd, len(new), start)
        try:
            _write_at(fd, new, start)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)
            _write_at(fd, old, start)
            raise
    return len(new)


def truncate(path: str, length: int) -> None:
    """
    Cut a file off after so many bytes; a shorter one is filled up with zeros.

    CLI Example::

        saltlite '*' file.truncate /path/to/file 512
    """
    place, size = checked_path(path), _count(length, "length")
    with _opened(place, os.O_RDWR, "cut off") as file:
        os.ftruncate(file.fileno(), size)
        os.fsync(file.fileno())


@contextlib.contextmanager
def _opened(place: str, flags: int, verb: str) -> Iterator[io.FileIO]:
    """The regular file, open; whatever the kernel refuses then is an error that says the file cannot be `verb`."""
    existing(place)
    try:
        with pinned(place) as end:
            fd = os.open(end.name, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=end.folder)
        with open(fd, "rb" if flags == os.O_RDONLY else "rb+", buffering=0) as file:
            yield file
    except OSError as error:
        raise sentence(place, verb, error) from error


def _write_at(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def _lines(by_position: Iterable[Any], by_name: Any) -> list[str]:
    given = by_position if by_name is None else by_name
    return [as_text(each) for each in (given if isinstance(given, list | tuple) else [given])]


def _joined(lines: Iterable[str], end: str) -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode(UTF8.name, UTF8.errors)


def _ending(place: str) -> str:
    """How the lines of a file end: as its first one does, and with LF in a file without lines."""
    with _opened(place, os.O_RDONLY, "read") as file:
        first = os.pread(file.fileno(), _FIRST_LINE_BYTES, 0).partition(b"\n")[0]
    return "\r\n" if first.endswith(b"\r") else "\n"


def _last_byte(place: str) -> bytes:
    with _opened(place, os.O_RDONLY, "read") as file:
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), 1, size - 1) if size else b""


def _report(done: str, planned: str, lines: list[str], path: str, *, test: bool) -> str:
    return f'{planned if test else done} {len(lines)} lines to "{path}"'


def _count(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise SaltInvocationError(f"{name}={value!r} is not a number of bytes.") from error
    if not 0 <= number < 2**63:
        raise SaltInvocationError(f"{name}={number} is not a number of bytes that a file can have.")
    return number


def _nanoseconds(value: Any, name: str) -> int:
    if value is None:
        return time.time_ns()
    try:
        return int(float(value) * 10**9)
    except (TypeError, ValueError, OverflowError) as error:
        raise SaltInvocationError(
            f"{name}={value!r} is no time in seconds since 1970: atime and mtime are numbers."
        ) from error
