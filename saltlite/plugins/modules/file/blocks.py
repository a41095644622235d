"""A block of lines between two marker lines of one file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError

from ._backups import suffix_of
from ._edits import begun
from ._text import as_text, compiled, ending, ending_of, lines_of


class _Block(NamedTuple):
    """The markers, and what is to be between them: lines without their endings."""

    start: str
    end: str
    content: Sequence[str]
    line_break: bool
    """Whether the last line of the content gets an ending; otherwise the end marker follows in the same line."""

    def body(self, end_line: str, separator: str) -> list[str]:
        """The lines of the content and the line of the end marker, `end_line`, which has its own ending."""
        lines = [f"{line}{separator}" for line in self.content]
        if self.line_break:
            return [*lines, end_line]
        return [*lines[:-1], self.content[-1] + end_line]

    def whole(self, separator: str) -> list[str]:
        """The block with both its markers."""
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
    """
    Replace what is between two markers: a diff of the changes, or with ``show_changes=False`` whether there are any.

    marker_start, marker_end
        Texts in the lines that hold the block. What stands before the second in its line is replaced, too.
    content
        What is to be between them. With ``append_newline=True`` it gets a line break at its end, with ``None`` only
        where it has none; with ``False`` the end marker follows at once.
    append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match
        Where the block goes, with its markers, when they are not there: the end or the beginning of the file, or before
        or after the first line in which a regular expression matches. At most one may be given.
    backup
        What the name of a copy of the old file ends in, ``False`` for no copy.
    dry_run, test
        Tell what would change, and change nothing.

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
    new = _exchanged(lines, block)
    if new is None:
        beside = insert_before_match or insert_after_match
        place = 0 if prepend_if_not_found else len(lines)
        if not append_if_not_found and not prepend_if_not_found:
            place = _place_beside(lines, beside, after=bool(insert_after_match))
        new = _inserted(lines, place, block)
    return edit.finished("".join(new), suffix=suffix, dry=dry_run or test, told=show_changes)


def _block(start: Any, end: Any, content: str, line_break: bool | None) -> _Block:
    if not start or not end:
        raise SaltInvocationError("marker_start and marker_end cannot be empty: every line would hold them.")
    wanted = not content.endswith("\n") if line_break is None else line_break
    return _Block(as_text(start), as_text(end), re.split(r"\r?\n", content), wanted)


def _exchanged(lines: Sequence[str], block: _Block) -> list[str] | None:
    """The lines with the content of each such block replaced; None where there is no block."""
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
    """The index at which the block goes, by the first line in which the expression matches."""
    if expression:
        wanted = compiled(expression)
        for index, line in enumerate(lines):
            if wanted.search(line):
                return index + after
    raise CommandExecutionError("Cannot edit marked block. Markers were not found in file.")


def _inserted(lines: Sequence[str], index: int, block: _Block) -> list[str]:
    separator, before = ending_of(lines), list(lines[:index])
    if before and not ending(before[-1]):
        before[-1] += separator
    return [*before, *block.whole(separator), *lines[index:]]
