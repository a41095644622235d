"""Edit lines and blocks of one file, and read and write whole content."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

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

from .backups import keep_dated, suffix_of
from .text import UTF8, Edit, as_text, begun, compiled, diff, ending, ending_of, lines_of, read_text

_MODES = ("insert", "ensure", "delete", "replace")


def line(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str, content: str | None = None, match: str | None = None, mode: str | None = None,
    location: str | None = None, before: str | None = None, after: str | None = None, show_changes: bool = True,
    backup: bool = False, quiet: bool = False, indent: bool = True, test: bool = False,
) -> str | bool:  # fmt: skip
    """Edit one line of a file. Return a diff, or True with ``show_changes=False``; False for no change.

    ``match``, ``before`` and ``after`` are Python regular expressions, or literal parts of a line.

    mode
        ``ensure``: the line is right before ``before``, right after ``after``, or alone between both.
        ``insert``: as above with any lines between both; the line goes right before ``before``.
        ``replace``: the line replaces the first match of ``match``. ``delete``: all lines equal to it are removed.
    content
        The line. For ``delete`` and ``replace`` also the default of ``match``.
    location
        With ``insert``: ``start`` or ``end`` of the file; ``before`` and ``after`` are then ignored.
    before, after
        Neither may match more than one line. If both are given, one without a match is ignored.
    backup
        Keep a copy beside the file, with year-month-day-hour-minute-second appended to its name.
    quiet, indent, test
        ``quiet``: a missing file is no error. ``indent``: copy the indentation of the replaced or neighbouring line.
        ``test``: only report what would change.

    CLI Example::

        saltlite '*' file.line /etc/nsswitch.conf 'networks: files dns' after='hosts:.*?' mode=ensure
        saltlite '*' file.line /etc/app.conf mode=delete match='^debug'
    """
    place = checked_path(path)
    if regular(place) is None:
        if quiet:
            return False
        raise CommandExecutionError(f'File "{shown(place)}" does not exist or is not a file.')
    wanted = _line_of(content, mode, location, indent=indent)
    edit = Edit(place, *read_text(place, binary_too=True, to_edit=True))
    lines = lines_of(edit.old)
    if not match and before is None and after is None and content is not None:
        match = as_text(content)
    if wanted.mode in ("delete", "replace"):
        new = _exchanged(lines, _matching(lines, match), wanted)
    elif wanted.mode == "insert" and wanted.location:
        new = _at_the_edge(lines, wanted)
    else:
        new = _placed(lines, before, after, wanted)
    changed = "".join(new) != edit.old
    if changed and backup and not test:
        keep_dated(place)
    return edit.finished("".join(new), suffix="", dry=test, show_diff=show_changes and changed)


class _Line:
    """The edit: the line without its ending, and where it goes."""

    def __init__(self, mode: str, content: str, location: str, indent: bool) -> None:
        self.mode = mode
        self.content = content
        self.location = location
        self.indent = indent

    def like(self, neighbour: str) -> str:
        """Return the line with the indentation of a neighbour."""
        if not self.indent:
            return self.content
        return neighbour[: len(neighbour) - len(neighbour.lstrip(" \t"))] + self.content.lstrip()

    def is_like(self, present: str, neighbour: str) -> bool:
        """Whether an existing line equals this line, with or without the indentation of that neighbour."""
        return _bare(present) in (self.content, self.like(neighbour))


def _line_of(content: Any, mode: str | None, location: str | None, *, indent: bool) -> _Line:
    if mode is None:
        raise CommandExecutionError("Mode was not defined. How to process the file?")
    chosen = str(mode).lower()
    if chosen not in _MODES:
        raise CommandExecutionError(f'Unknown mode: "{mode}": it is one of {", ".join(_MODES)}.')
    if content is None and chosen != "delete":
        raise CommandExecutionError('Content can only be empty if mode is "delete"')
    if location not in (None, "", "start", "end"):
        raise CommandExecutionError(f"location={location!r} is neither `start` nor `end`.")
    return _Line(chosen, as_text(content).rstrip("\r\n") if content is not None else "", location or "", indent)


def _matching(lines: Sequence[str], wanted: Any) -> list[int]:
    """Return the indexes of lines that contain the text or match the expression."""
    if not wanted:
        return []
    expression, text = compiled(wanted, re.DOTALL), as_text(wanted)
    # Normalised line breaks, so that `$` matches the end of a line in all files.
    plain = [_bare(each) + "\n" for each in lines]
    return [index for index, each in enumerate(plain) if expression.search(each) or text in each]


def _single(lines: Sequence[str], wanted: Any, name: Literal["before", "after"]) -> int | None:
    """Return the index of the only matching line, or None."""
    found = _matching(lines, wanted)
    if len(found) > 1:
        raise CommandExecutionError(f'Found more than expected occurrences in "{name}" expression')
    return found[0] if found else None


def _exchanged(lines: Sequence[str], found: Sequence[int], wanted: _Line) -> list[str]:
    """Return the lines with the first match replaced, or it and all equal lines deleted."""
    if not found:
        return list(lines)
    old = lines[found[0]]
    if wanted.mode == "delete":
        return [each for each in lines if each != old]
    return [*lines[: found[0]], wanted.like(old) + ending(old), *lines[found[0] + 1 :]]


def _at_the_edge(lines: Sequence[str], wanted: _Line) -> list[str]:
    """Return the lines with the new line first, or last with the previous line's indentation."""
    if wanted.location == "start":
        return [wanted.content + ending_of(lines), *lines]
    return _inserted(lines, len(lines), wanted, lines[-1]) if lines else [wanted.content]


def _placed(lines: Sequence[str], before_text: Any, after_text: Any, wanted: _Line) -> list[str]:
    """Return the lines with the new line before one, after another, or between both."""
    before, after = _single(lines, before_text, "before"), _single(lines, after_text, "after")
    if before is not None and after is not None:
        return _between(lines, before, after, wanted)
    if before is not None:
        # As in Salt, `ensure` indents like the line above, and `insert` like the line below.
        neighbour = lines[before - 1] if wanted.mode == "ensure" and before else lines[before]
        there = before > 0 and wanted.is_like(lines[before - 1], neighbour)
        return list(lines) if there else _inserted(lines, before, wanted, neighbour)
    if after is not None:
        there = after + 1 < len(lines) and wanted.is_like(lines[after + 1], lines[after])
        return list(lines) if there else _inserted(lines, after + 1, wanted, lines[after])
    if (before_text, after_text) != (None, None):
        raise CommandExecutionError("Neither before or after was found in file")
    if wanted.mode == "insert":
        raise CommandExecutionError('On insert either "location" or "before/after" conditions are required.')
    raise CommandExecutionError(
        "Wrong conditions? Unable to ensure line without knowing where to put it before and/or after."
    )


def _between(lines: Sequence[str], before: int, after: int, wanted: _Line) -> list[str]:
    if wanted.mode == "insert":
        return _inserted(lines, before, wanted, lines[before])
    if before <= after:
        raise CommandExecutionError('The line of "before" does not come after the line of "after".')
    inner = lines[after + 1 : before]
    if any(wanted.is_like(each, lines[after]) for each in inner):
        return list(lines)
    if len(inner) > 1:
        raise CommandExecutionError('Found more than one line between boundaries "before" and "after".')
    rest = [*lines[: after + 1], *lines[before:]]
    return _inserted(rest, after + 1, wanted, lines[after])


def _inserted(lines: Sequence[str], index: int, wanted: _Line, neighbour: str = "") -> list[str]:
    """Return the lines with the new line inserted and indented; a missing final line break stays missing."""
    separator, before = ending_of(lines), list(lines[:index])
    own = separator
    if before and not ending(before[-1]):
        before[-1] += separator
        own = ""
    return [*before, wanted.like(neighbour) + own, *lines[index:]]


def _bare(line: str) -> str:
    return line.removesuffix(ending(line))


def comment_line(
    path: str, regex: str, char: str = "#", cmnt: bool = True, backup: str | bool | None = ".bak", test: bool = False
) -> str | bool:
    """Comment the lines that a regular expression matches, or uncomment them with ``cmnt=False``.

    Returns a diff of these lines, or False without a match. The expression must match at the start of a line; for
    uncommenting, after ``char`` and white space. ``backup`` is the suffix of a backup, or ``False`` for none.
    ``test=True`` only reports what would change.

    CLI Example::

        saltlite '*' file.comment_line /etc/modules '^pcspkr'
        saltlite '*' file.comment_line /etc/app.conf '^log_level: (warning|info)' '#' False .bk
    """
    mark, pattern, suffix = as_text(char), as_text(regex).lstrip("^"), suffix_of(backup)
    if not mark:
        raise SaltInvocationError("char cannot be empty: it is what makes a line a comment.")
    end = "$" if pattern.endswith("$") and not pattern.endswith("\\$") else ""
    core = compiled(pattern.removesuffix(end)).pattern
    expression = compiled(f"({core}){end}" if cmnt else rf"{re.escape(mark)}\s*({core}){end}")
    edit = begun(path)
    before, after, lines = [], [], []
    for each in lines_of(edit.old):
        new = each
        if expression.match(_bare(each)):
            new = f"{mark}{each}" if cmnt else _without(each, mark)
            before.append(each)
            after.append(new)
        lines.append(new)
    if not before:
        return False
    edit.finished("".join(lines), suffix=suffix, dry=test, show_diff=False)
    return diff(before, after)


def comment(
    path: str, regex: str, char: str = "#", backup: str | bool | None = ".bak", test: bool = False
) -> str | bool:
    """Comment the lines that a regular expression matches. See ``file.comment_line``.

    CLI Example: ``saltlite '*' file.comment /etc/modules pcspkr``
    """
    return comment_line(path, regex, char, cmnt=True, backup=backup, test=test)


def uncomment(
    path: str, regex: str, char: str = "#", backup: str | bool | None = ".bak", test: bool = False
) -> str | bool:
    """Uncomment the commented lines that a regular expression matches. See ``file.comment_line``.

    CLI Example: ``saltlite '*' file.uncomment /etc/hosts.deny 'ALL: PARANOID'``
    """
    return comment_line(path, regex, char, cmnt=False, backup=backup, test=test)


def _without(line: str, mark: str) -> str:
    """Return the line without its leading marks."""
    while line.startswith(mark):
        line = line[len(mark) :]
    return line


# --- Blocks between two marker lines ---


class _Block:
    """The markers and the lines between them, without line endings."""

    def __init__(self, start: str, end: str, content: Sequence[str], line_break: bool) -> None:
        self.start = start
        self.end = end
        self.content = content
        self.line_break = line_break
        """Whether the last line of the content gets an ending; otherwise the end marker follows on the same line."""

    def body(self, end_line: str, separator: str) -> list[str]:
        """Return the content and the end marker's line `end_line`, which has its own ending."""
        lines = [f"{line}{separator}" for line in self.content]
        if self.line_break:
            return [*lines, end_line]
        return [*lines[:-1], self.content[-1] + end_line]

    def whole(self, separator: str) -> list[str]:
        """Return the block with both markers."""
        return [f"{self.start}{separator}", *self.body(self.end.rstrip("\r\n") + separator, separator)]


def blockreplace(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    marker_start: str = "#-- start managed zone --",
    marker_end: str = "#-- end managed zone --",
    content: str = "",
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    backup: str | bool | None = ".bak",
    dry_run: bool = False,
    show_changes: bool = True,
    append_newline: bool | None = False,
    insert_before_match: str | None = None,
    insert_after_match: str | None = None,
    test: bool = False,
) -> str | bool:
    """Replace the block between two markers. Return a diff, or with ``show_changes=False`` whether there are changes.

    marker_start, marker_end
        Texts in the lines around the block. Text before the second marker on its line is replaced too.
    content
        The new block. ``append_newline=True`` adds a line break, ``None`` adds a missing one, and with ``False`` the
        end marker follows at once.
    append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match
        Where to add a missing block with its markers: at the end or start of the file, or before or after the first
        line that matches a regular expression. At most one may be given.
    backup
        Suffix of a backup, ``False`` for none.
    dry_run, test
        Only report what would change.

    CLI Example::

        saltlite '*' file.blockreplace /etc/hosts '#-- start' '#-- end' '10.0.1.1 foo' append_if_not_found=True
    """
    if sum(map(bool, (append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match))) > 1:
        raise SaltInvocationError(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match "
            "is permitted"
        )
    suffix, block = suffix_of(backup), _block(marker_start, marker_end, as_text(content), append_newline)
    edit = begun(path)
    lines = lines_of(edit.old)
    new = _exchanged_block(lines, block)
    if new is None:
        beside = insert_before_match or insert_after_match
        place = 0 if prepend_if_not_found else len(lines)
        if not append_if_not_found and not prepend_if_not_found:
            place = _place_beside(lines, beside, after=bool(insert_after_match))
        new = _inserted_block(lines, place, block)
    return edit.finished("".join(new), suffix=suffix, dry=dry_run or test, show_diff=show_changes)


def _block(start: Any, end: Any, content: str, line_break: bool | None) -> _Block:
    if not start or not end:
        raise SaltInvocationError("marker_start and marker_end cannot be empty: every line would hold them.")
    wanted = not content.endswith("\n") if line_break is None else line_break
    return _Block(as_text(start), as_text(end), re.split(r"\r?\n", content), wanted)


def _exchanged_block(lines: Sequence[str], block: _Block) -> list[str] | None:
    """Return the lines with the content of each block replaced; None if there is no block."""
    separator, new = ending_of(lines), []
    inside = found = False
    for line in lines:
        if block.start in line:
            inside = True
        elif inside:
            at = line.find(block.end)
            if at >= 0:
                inside, found = False, True
                new += block.body(line[at:], separator)
            continue
        new.append(line)
    if inside:
        raise CommandExecutionError("Unterminated marked block. End of file reached before marker_end.")
    return new if found else None


def _place_beside(lines: Sequence[str], expression: str | None, *, after: bool) -> int:
    """Return the index for the block, next to the first line that matches."""
    if expression:
        wanted = compiled(expression)
        for index, line in enumerate(lines):
            if wanted.search(line):
                return index + after
    raise CommandExecutionError("Cannot edit marked block. Markers were not found in file.")


def _inserted_block(lines: Sequence[str], index: int, block: _Block) -> list[str]:
    separator, before = ending_of(lines), list(lines[:index])
    if before and not ending(before[-1]):
        before[-1] += separator
    return [*before, *block.whole(separator), *lines[index:]]


# --- Content: read, write, append, truncate ---

READ_BYTES_MAX = 64 * 1024 * 1024
"""Maximum bytes to return at once: four times the maximum return, because other modules may process them."""

_FIRST_LINE_BYTES = 65536

__risk__ = {"truncate": "truncate"}


def read(path: str, binary: bool = False) -> str | bytes:
    """Return the content of a file as text, or as bytes with ``binary``.

    Files over 64 MiB are refused; use ``file.seek_read``. Bytes that are not UTF-8 reach other modules unchanged, and
    people as U+FFFD.

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
    """Replace the content of a file with these lines, creating it if needed.

    Each argument is one or more lines. A text with an equal sign must be passed as ``args``, a text or a list.
    ``test=True`` only reports what would be written.

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
    """Append lines to a file, after completing a last line without a line break.

    Arguments are those of ``file.write``. The file must exist. New lines end in CR LF if its lines do.

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
    """Prepend lines to a file, creating it if needed. Arguments are those of ``file.write``.

    CLI Example: ``saltlite '*' file.prepend /etc/motd 'This machine is watched.'``
    """
    place, wanted = checked_path(path), _lines(lines, args)
    there = regular(place)
    if not test:
        end = _ending(place) if there else "\n"
        write_whole(place, chain((_joined(wanted, end),), blocks(place, to_edit=True) if there else ()))
    return _report("Prepended", "Would prepend", wanted, path, test=test)


def touch(name: str, atime: float | str | None = None, mtime: float | str | None = None) -> bool:
    """Create an empty file if it is missing, and set its times, to now or to seconds since 1970.

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
    """Return up to ``size`` bytes of a file from an offset; fewer at its end. More than 64 MiB are refused.

    CLI Example: ``saltlite '*' file.seek_read /path/to/file 4096 0``
    """
    place, amount = checked_path(path), _count(size, "size")
    if amount > READ_BYTES_MAX:
        raise SaltInvocationError(f"size={amount} is more than can be read at once: {READ_BYTES_MAX}.")
    start = _count(offset, "offset")
    with _opened(place, os.O_RDONLY, "read") as file:
        return os.pread(file.fileno(), amount, start)


def seek_write(path: str, data: str, offset: int) -> int:
    """Overwrite a part of a file from an offset; return the number of bytes written.

    The file must exist and may grow. If the disk is full, the old content is restored.

    CLI Example: ``saltlite '*' file.seek_write /path/to/file 'some data' 4096``
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
    """Truncate a file to this many bytes; a shorter file is extended with zeros.

    CLI Example: ``saltlite '*' file.truncate /path/to/file 512``
    """
    place, size = checked_path(path), _count(length, "length")
    with _opened(place, os.O_RDWR, "cut off") as file:
        os.ftruncate(file.fileno(), size)
        os.fsync(file.fileno())


@contextlib.contextmanager
def _opened(place: str, flags: int, verb: str) -> Iterator[io.FileIO]:
    """Open a regular file; OSErrors become errors that say the file cannot be `verb`."""
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
    """Return the line ending of a file, taken from its first line; LF without lines."""
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
            f"atime and mtime must be integers, or other numbers of seconds since 1970: {name} is {value!r}."
        ) from error
