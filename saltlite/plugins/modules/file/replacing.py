"""Finding and replacing by regular expression in one file."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules._safe_files import blocks, checked_path, regular

from ._backups import suffix_of
from ._edits import begun
from ._text import as_text, compiled, ending, ending_of, flags_of, lines_of, read_text


def replace(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    pattern: str,
    repl: str,
    count: int = 0,
    flags: int | str | list[str] = 8,
    bufsize: int | str = 1,
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    not_found_content: str | None = None,
    backup: str | bool | None = ".bak",
    dry_run: bool = False,
    search_only: bool = False,
    show_changes: bool = True,
    ignore_if_missing: bool = False,
    preserve_inode: bool = True,
    backslash_literal: bool = False,
    encoding: str | None = None,
    test: bool = False,
) -> str | bool:
    """
    Replace what a regular expression of Python matches: a diff of the changes, an empty text for none.

    ``pattern`` and ``repl`` are those of Python's ``re.sub``; ``backslash_literal`` takes ``repl`` as it stands.
    ``count`` matches are replaced, with 0 all. ``flags`` are a number, a name such as ``IGNORECASE``, or a list of
    names; ``8`` is ``MULTILINE``. ``bufsize`` is a number or ``file``: the file is looked at as a whole with either.
    A symbolic link is followed; further hard links go on sharing the file, or with ``preserve_inode=False`` become
    names of the copy. With ``show_changes=False`` the answer is whether something changed; ``search_only`` only tells
    whether the pattern matches; ``dry_run`` and ``test`` tell what would change. With any of them nothing does.

    append_if_not_found, prepend_if_not_found
        When nothing matches, add ``not_found_content``, or else ``repl``, as lines of their own that are not there yet.
    backup
        What the name of a copy of the old file ends in, ``False`` for no copy.
    ignore_if_missing
        Answer False where there is no file; otherwise that is an error.
    encoding
        The encoding of the file, such as ``utf-16``. Without it a file with NULs is refused, and bytes that are no
        UTF-8 are left as they are.

    CLI Example::

        saltlite '*' file.replace /etc/httpd/httpd.conf pattern='LogLevel warn' repl='LogLevel info'
        saltlite '*' file.replace /some/file pattern=before repl=after flags='[MULTILINE, IGNORECASE]' test=True
    """
    _refuse_odd(append_if_not_found, prepend_if_not_found, search_only, bufsize, count)
    template = as_text(repl).replace("\\", "\\\\") if backslash_literal else as_text(repl)
    change = _Change(compiled(pattern, flags), template, int(count))
    suffix = suffix_of(backup)
    if ignore_if_missing and regular(checked_path(path)) is None:
        return False
    edit = begun(path, encoding, to_edit=not search_only)
    if search_only:
        return change.expression.search(edit.old) is not None
    new = change.applied(edit.old)
    if new is None and (append_if_not_found or prepend_if_not_found):
        new = _with_line(edit.old, as_text(repl), not_found_content, change.expression, first=prepend_if_not_found)
    new = edit.old if new is None else new
    return edit.finished(new, suffix=suffix, dry=dry_run or test, told=show_changes, keep_hard_links=preserve_inode)


def search(
    path: str,
    pattern: str,
    flags: int | str | list[str] = 8,
    bufsize: int | str = 1,
    ignore_if_missing: bool = False,
    multiline: bool = False,
) -> bool:
    """
    Whether a regular expression of Python matches somewhere in a file. Arguments are those of ``file.replace``;
    ``multiline`` adds ``MULTILINE`` to the flags.

    CLI Example::

        saltlite '*' file.search /etc/crontab 'mymaintenance.sh'
    """
    wanted = flags_of(flags) | re.MULTILINE if multiline else flags_of(flags)
    return bool(
        replace(
            path, pattern, "", flags=int(wanted), bufsize=bufsize, search_only=True, ignore_if_missing=ignore_if_missing
        )
    )


def contains(path: str, text: str) -> bool:
    """
    Whether a text, without white space around it, is somewhere in a file; False where there is none.

    CLI Example::

        saltlite '*' file.contains /etc/crontab 'mymaintenance.sh'
    """
    place, wanted = checked_path(path), as_text(text).strip().encode("utf-8", "surrogateescape")
    if regular(place) is None:
        return False
    kept = b""  # the end of what was read: the text may begin there
    for block in blocks(place):
        kept += block
        if wanted in kept:
            return True
        kept = kept[len(kept) - len(wanted) + 1 :] if len(wanted) > 1 else b""
    return False


def contains_regex(path: str, regex: str, lchar: str = "") -> bool:
    """
    Whether a regular expression matches in a line of a file; False where there is no file.

    ``lchar`` is taken away from the beginning of each line first, as often as it is there.

    CLI Example::

        saltlite '*' file.contains_regex /etc/crontab '^[^#].*maintenance'
    """
    place, expression = checked_path(path), compiled(regex)
    if regular(place) is None:
        return False
    text, _ = read_text(place, binary_too=True)
    return any(expression.search(line.lstrip(lchar) if lchar else line) for line in lines_of(text))


def contains_glob(path: str, glob_expr: str) -> bool:
    """
    Whether the whole content of a file matches a glob; False where there is no file.

    CLI Example::

        saltlite '*' file.contains_glob /etc/foobar '*cheese*'
    """
    from fnmatch import translate

    place, expression = checked_path(path), re.compile(translate(as_text(glob_expr)))
    if regular(place) is None:
        return False
    text, _ = read_text(place, binary_too=True)
    return expression.match(text) is not None


def _refuse_odd(append: bool, prepend: bool, search_only: bool, bufsize: int | str, count: int) -> None:
    """Raise SaltInvocationError for options of `replace` that are none or do not go together."""
    if append and prepend:
        raise SaltInvocationError("Only one of append and prepend_if_not_found is permitted")
    if search_only and (append or prepend):
        raise SaltInvocationError("search_only cannot be used with append/prepend_if_not_found")
    if not (str(bufsize).isdecimal() or bufsize == "file"):
        raise SaltInvocationError(f"bufsize={bufsize!r} is neither a number nor `file`.")
    if not str(count).isdecimal():
        raise SaltInvocationError(f"count={count!r} is not a number of matches.")


class _Change(NamedTuple):
    """What is replaced by what, and `at_most` how often (0: always)."""

    expression: re.Pattern[str]
    template: str
    at_most: int

    def applied(self, text: str) -> str | None:
        """The text with the matches replaced; None where there is none. Raises SaltInvocationError."""
        try:
            new, found = self.expression.subn(self.template, text, self.at_most)
        except (re.error, IndexError, ValueError) as error:
            raise SaltInvocationError(
                f"repl={self.template!r} cannot replace a match: {error}; backslash_literal=True takes it as it stands."
            ) from error
        return new if found else None


def _with_line(text: str, repl: str, other: Any, expression: re.Pattern[str], *, first: bool) -> str:
    """The text with `other`, or else `repl`, as lines of their own at its beginning or end, unless they are there."""
    line = repl if other is None else as_text(other)
    flags = expression.flags & re.IGNORECASE | re.MULTILINE
    if re.search(rf"^{re.escape(line or repl)}(?=\r\n|$)", text, flags):  # an earlier call may have added it
        return text
    lines = lines_of(text)
    end = ending_of(lines)
    if first:
        return f"{line}{end}{text}"
    between = end if lines and not ending(lines[-1]) else ""
    return f"{text}{between}{line}{end}"
