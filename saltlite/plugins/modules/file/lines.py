"""Single lines of one file: placing, replacing and deleting one, commenting some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, regular, shown

from ._backups import keep_dated, suffix_of
from ._edits import Edit, begun
from ._text import as_text, compiled, diff, ending, ending_of, lines_of, read_text

_MODES = ("insert", "ensure", "delete", "replace")


def line(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    content: str | None = None,
    match: str | None = None,
    mode: str | None = None,
    location: str | None = None,
    before: str | None = None,
    after: str | None = None,
    show_changes: bool = True,
    backup: bool = False,
    quiet: bool = False,
    indent: bool = True,
    test: bool = False,
) -> str | bool:
    """
    Edit one line of a file: a diff of the change, or True with ``show_changes=False``; False for no change.

    ``match``, ``before`` and ``after`` are regular expressions of Python, or parts of a line as they stand.

    mode
        ``ensure``: the line is right before ``before``, or right after ``after``, or alone between both.
        ``insert``: the same, with any lines between both; the line goes right before ``before``.
        ``replace``: the first line that matches ``match`` becomes the line; ``delete``: it goes, with its equals.
    content
        The line. For ``delete`` and ``replace`` it is what to match, too, when nothing else says that.
    location
        With ``insert``: ``start`` or ``end`` of the file; ``before`` and ``after`` do not count then.
    before, after
        Neither may match more than one line. Of both, one that matches nothing does not count.
    backup
        Keep a copy beside the file, with year-month-day-hour-minute-second behind its name.
    quiet, indent, test
        A file that is missing is no error. The line is indented as the one that it takes the place of, or as one beside
        it. Nothing is changed, and told what would be.

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
    return edit.finished("".join(new), suffix="", dry=test, told=show_changes and changed)


class _Line(NamedTuple):
    """What is to be done: the line without its ending, and how."""

    mode: str
    content: str
    location: str
    indent: bool

    def like(self, neighbour: str) -> str:
        """The line with the indentation of another one."""
        if not self.indent:
            return self.content
        return neighbour[: len(neighbour) - len(neighbour.lstrip(" \t"))] + self.content.lstrip()

    def is_like(self, present: str, neighbour: str) -> bool:
        """Whether a line that is there is what this one would be beside that neighbour."""
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
    """Indexes of the lines that hold the text or match the expression."""
    if not wanted:
        return []
    expression, text = compiled(wanted, re.DOTALL), as_text(wanted)
    # With one kind of line break, so that `$` means the end of a line in files of every kind.
    plain = [_bare(each) + "\n" for each in lines]
    return [index for index, each in enumerate(plain) if expression.search(each) or text in each]


def _single(lines: Sequence[str], wanted: Any, name: Literal["before", "after"]) -> int | None:
    """The index of the one line that matches; None where none does, or nothing is asked for."""
    found = _matching(lines, wanted)
    if len(found) > 1:
        raise CommandExecutionError(f'Found more than expected occurrences in "{name}" expression')
    return found[0] if found else None


def _exchanged(lines: Sequence[str], found: Sequence[int], wanted: _Line) -> list[str]:
    """The lines with the first that was found replaced, or deleted with all its equals."""
    if not found:
        return list(lines)
    old = lines[found[0]]
    if wanted.mode == "delete":
        return [each for each in lines if each != old]
    return [*lines[: found[0]], wanted.like(old) + ending(old), *lines[found[0] + 1 :]]


def _at_the_edge(lines: Sequence[str], wanted: _Line) -> list[str]:
    """The lines with the line first, as it stands, or last, indented as the line before it."""
    if wanted.location == "start":
        return [wanted.content + ending_of(lines), *lines]
    return _inserted(lines, len(lines), wanted, lines[-1]) if lines else [wanted.content]


def _placed(lines: Sequence[str], before_text: Any, after_text: Any, wanted: _Line) -> list[str]:
    """The lines with the line before one of them, after another, or between both."""
    before, after = _single(lines, before_text, "before"), _single(lines, after_text, "after")
    if before is not None and after is not None:
        return _between(lines, before, after, wanted)
    if before is not None:
        # Salt indents what it ensures as the line above, and what it inserts as the line below.
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
    """The lines with the line at that index, indented as its neighbour. No line break at the end stays none."""
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
    """
    Comment the lines that a regular expression matches, or with ``cmnt=False`` uncomment them.

    The answer is a diff, in which only these lines stand, or False when none matches. A match begins where the line
    does; for uncommenting that is behind ``char`` and white space. ``backup`` is what the name of a copy of the old
    file ends in, ``False`` for no copy. ``test=True`` tells what would change, and changes nothing.

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
    edit.finished("".join(lines), suffix=suffix, dry=test, told=False)
    return diff(before, after)


def comment(
    path: str, regex: str, char: str = "#", backup: str | bool | None = ".bak", test: bool = False
) -> str | bool:
    """
    Comment the lines that a regular expression matches. See ``file.comment_line``.

    CLI Example::

        saltlite '*' file.comment /etc/modules pcspkr
    """
    return comment_line(path, regex, char, cmnt=True, backup=backup, test=test)


def uncomment(
    path: str, regex: str, char: str = "#", backup: str | bool | None = ".bak", test: bool = False
) -> str | bool:
    """
    Uncomment the commented lines that a regular expression matches. See ``file.comment_line``.

    CLI Example::

        saltlite '*' file.uncomment /etc/hosts.deny 'ALL: PARANOID'
    """
    return comment_line(path, regex, char, cmnt=False, backup=backup, test=test)


def _without(line: str, mark: str) -> str:
    """The line without the marks at its beginning."""
    while line.startswith(mark):
        line = line[len(mark) :]
    return line
