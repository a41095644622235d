"""The content of a file as text and back, without harm to a single byte: the mechanics behind what edits here.

What belongs here: reading a file to be edited, its lines and their endings, flags of regular expressions, the diff. It
writes nothing, and knows nothing of single functions.

Bytes that are no UTF-8 are kept as lone surrogates, one a byte, and come out as the bytes that they were.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import existing, read_whole, shown

EDIT_BYTES_MAX = 256 * 1024 * 1024
"""Size of a file that can be edited here: its text is in memory twice, before and after."""

DIFF_LINES_MAX = 200_000
"""Lines of both sides of a diff together; comparing more would take minutes."""

BINARY_LOOK_BYTES = 8192
"""A NUL among so many bytes at the start makes a file binary."""

_BYTE_ORDERS = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    "utf-8-sig": ((codecs.BOM_UTF8, "utf-8"),),
}


class Encoding(NamedTuple):
    """How the text of one file became characters; `mark` is what stood before the text and goes there again."""

    name: str = "utf-8"
    errors: str = "surrogateescape"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """The bytes of the text. Raises CommandExecutionError when the encoding has no room for a character."""
        try:
            return self.mark + text.encode(self.name, self.errors)
        except UnicodeEncodeError as error:
            missing = text[error.start : error.end][:20]
            raise CommandExecutionError(f"The encoding {self.name} cannot express {missing!r}.") from error


UTF8 = Encoding()


def read_text(
    path: str, encoding: str | None = None, *, binary_too: bool = False, to_edit: bool = False
) -> tuple[str, Encoding]:
    """The text of a file, and the way back. Without an `encoding` it is UTF-8, and other bytes are kept as they are.

    `to_edit` is for what is going to be written back, see `blocks`. Raises SaltInvocationError for a binary file
    (unless its encoding is given, or `binary_too`) and for an unknown encoding, CommandExecutionError for one that is
    missing, too large, special or not of that encoding.
    """
    size = existing(path).st_size
    if size > EDIT_BYTES_MAX:
        raise CommandExecutionError(
            f"{shown(path)} has {size} bytes, and files of up to {EDIT_BYTES_MAX} can be edited here."
        )
    data = read_whole(path, to_edit=to_edit)
    if encoding is None:
        if not binary_too and is_binary(data):
            raise SaltInvocationError(f"Cannot perform string replacements on a binary file: {shown(path)}")
        return data.decode(UTF8.name, UTF8.errors), UTF8
    try:
        way = _way(encoding, data)
        return data.removeprefix(way.mark).decode(way.name), way
    except LookupError as error:
        raise SaltInvocationError(f"{encoding!r} is not the name of an encoding, such as utf-16.") from error
    except UnicodeDecodeError as error:
        raise CommandExecutionError(f"{shown(path)} is not encoded as {encoding}: {error.reason}.") from error


def is_binary(data: bytes) -> bool:
    """Whether the content is no text: it has a NUL near its start."""
    return b"\0" in data[:BINARY_LOOK_BYTES]


def lines_of(text: str) -> list[str]:
    """The lines with their endings, each as it is: `\\n`, `\\r\\n` or `\\r`. Other separators are part of a line."""
    return list(io.StringIO(text, newline=""))


def ending(line: str) -> str:
    """The ending of one line, "" for none."""
    return "\r\n" if line.endswith("\r\n") else line[-1:] if line.endswith(("\n", "\r")) else ""


def ending_of(lines: Sequence[str]) -> str:
    """The line ending of a file: that of its first line, or this system's."""
    return (ending(lines[0]) if lines else "") or os.linesep


def diff(old: Iterable[str], new: Iterable[str], old_name: str = "", new_name: str = "") -> str:
    """A unified diff of two lists of lines; an empty text for equal ones. Bytes that are no UTF-8 show as Latin-1."""
    before, after = list(old), list(new)
    if before == after:
        return ""
    if len(before) + len(after) > DIFF_LINES_MAX:
        return f"(no diff of more than {DIFF_LINES_MAX} lines: {len(before)} became {len(after)})\n"
    from difflib import unified_diff

    compared = unified_diff([_legible(each) for each in before], [_legible(each) for each in after], old_name, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in compared)


def flags_of(flags: Any) -> re.RegexFlag:
    """Flags of a regular expression: a number, a name as in Python's `re`, or a list of names.

    Raises CommandExecutionError for others.
    """
    if isinstance(flags, re.RegexFlag):
        return flags
    if isinstance(flags, int):
        return re.RegexFlag(flags)
    if isinstance(flags, Mapping) or not isinstance(flags, str | Iterable):
        raise CommandExecutionError(f"Invalid re flags: {flags!r} is neither a number, a name nor a list of names.")
    combined = re.RegexFlag(0)
    for name in [flags] if isinstance(flags, str) else flags:
        flag = getattr(re.RegexFlag, str(name).upper(), None)
        if not isinstance(flag, re.RegexFlag):
            raise CommandExecutionError(f"Invalid re flag given: {name}")
        combined |= flag
    return combined


def compiled(pattern: Any, flags: Any = 0) -> re.Pattern[str]:
    """The regular expression. Raises SaltInvocationError when it is none."""
    wanted = flags_of(flags)
    try:
        return re.compile(as_text(pattern), wanted)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise SaltInvocationError(f"{pattern!r} is not a regular expression: {error}.") from error


def as_text(value: Any) -> str:
    """A value as the text that it is written as: bytes become what they say, a number its digits."""
    return bytes(value).decode(UTF8.name, UTF8.errors) if isinstance(value, bytes | bytearray) else str(value)


def _way(encoding: str, data: bytes) -> Encoding:
    name = codecs.lookup(encoding).name
    for mark, plain in _BYTE_ORDERS.get(name, ()):
        if data.startswith(mark):
            return Encoding(plain, "strict", mark)
    if name in _BYTE_ORDERS and name != "utf-8-sig":
        return Encoding(f"{name}-le", "strict")
    return Encoding("utf-8" if name == "utf-8-sig" else name, "strict")


def _legible(line: str) -> str:
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode(errors="surrogateescape").decode("latin-1")
    return line
