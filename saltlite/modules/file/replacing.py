"""Finding and replacing by regular expression in one file."""

from __future__ import annotations

import re
from typing import Any

from saltlite.errors import SaltInvocationError

from ._atomic import blocks, checked_path, regular, shown
from ._backups import suffix_of, write_keeping
from ._text import as_text, compiled, diff, ending, ending_of, flags_of, lines_of, read_text


def replace(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    pattern: str,
    repl: Any,
    count: int = 0,
    flags: int | str | list[str] = 8,
    bufsize: int | str = 1,
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    not_found_content: Any = None,
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

    With ``show_changes=False`` the answer is whether something changed. A symbolic link is followed.

    pattern, repl
        As for Python's ``re.sub``; ``backslash_literal=True`` takes ``repl`` as it stands.
    count
        How many matches are replaced; 0 for all.
    flags
        A number, a name such as ``IGNORECASE``, or a list of names; ``8`` is ``MULTILINE``.
    bufsize
        A number or ``file``. The file is always looked at as a whole, so that a match may reach over lines.
    append_if_not_found, prepend_if_not_found
        Add ``not_found_content``, or else ``repl``, as lines of their own when nothing matches and they are not there.
    backup
        What the name of a copy of the old file ends in, ``False`` for no copy.
    dry_run, test
        Tell what would change, and change nothing.
    search_only
        Only tell whether the pattern matches.
    ignore_if_missing
        Answer False where there is no file; otherwise that is an error.
    preserve_inode
        Further hard links go on sharing the file. With ``False`` they become names of the copy.
    encoding
        The encoding of the file, such as ``utf-16``. Without it a file with NULs is refused, and bytes that are no
        UTF-8 are left as they are.

    CLI Example::

        saltlite '*' file.replace /etc/httpd/httpd.conf pattern='LogLevel warn' repl='LogLevel info'
        saltlite '*' file.replace /some/file pattern=before repl=after flags='[MULTILINE, IGNORECASE]' test=True
    """
    place = checked_path(path)
    if not (isinstance(bufsize, int) or str(bufsize).isdecimal() or bufsize == "file"):
        raise SaltInvocationError(f"bufsize={bufsize!r} is neither a number nor `file`.")
    if append_if_not_found and prepend_if_not_found:
        raise SaltInvocationError("Only one of append and prepend_if_not_found is permitted")
    if search_only and (append_if_not_found or prepend_if_not_found):
        raise SaltInvocationError("search_only cannot be used with append/prepend_if_not_found")
    if regular(place) is None:
        if ignore_if_missing:
            return False
        raise SaltInvocationError(f"File not found: {shown(place)}")
    suffix, expression = suffix_of(backup), compiled(pattern, flags)
    old, way = read_text(place, encoding)
    if search_only:
        return expression.search(old) is not None
    replacement = as_text(repl)
    new, found = _substituted(expression, replacement, old, count, literally=backslash_literal)
    if not found and (append_if_not_found or prepend_if_not_found):
        line = replacement if not_found_content is None else as_text(not_found_content)
        if not _has_line(line or replacement, old, expression.flags):
            new = _with_line(new, line, first=prepend_if_not_found)
    content = way.encode(new)
    if new != old and not (dry_run or test):
        write_keeping(place, content, suffix=suffix, keep_hard_links=preserve_inode)
    return diff(lines_of(old), lines_of(new)) if show_changes else new != old


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


def contains(path: str, text: Any) -> bool:
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
    from fnmatch import translate  # noqa: PLC0415 - the other functions do without

    place, expression = checked_path(path), re.compile(translate(as_text(glob_expr)))
    if regular(place) is None:
        return False
    text, _ = read_text(place, binary_too=True)
    return expression.match(text) is not None


def _substituted(
    expression: re.Pattern[str], replacement: str, text: str, count: int, *, literally: bool
) -> tuple[str, int]:
    """The text with the matches replaced, and how many there were."""
    template = replacement.replace("\\", "\\\\") if literally else replacement
    try:
        return expression.subn(template, text, int(count))
    except (re.error, IndexError, ValueError) as error:
        raise SaltInvocationError(
            f"repl={replacement!r} cannot replace a match: {error}; backslash_literal=True takes it as it stands."
        ) from error


def _has_line(content: str, text: str, flags: int) -> bool:
    """Whether the content is there already, as whole lines: an earlier call may have added it."""
    wanted = flags & re.IGNORECASE | re.MULTILINE
    return re.search(rf"^{re.escape(content)}(?=\r\n|$)", text, wanted) is not None


def _with_line(text: str, content: str, *, first: bool) -> str:
    lines = lines_of(text)
    end = ending_of(lines)
    if first:
        return f"{content}{end}{text}"
    between = end if lines and not ending(lines[-1]) else ""
    return f"{text}{between}{content}{end}"
