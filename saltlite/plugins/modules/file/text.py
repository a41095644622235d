"""Search and replace text in a file, and the base of all text edits: decoding, lines, diffs, backups.

Bytes that are not UTF-8 are kept as lone surrogates and written back unchanged.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._commands import run_needed
from saltlite.plugins.modules._safe_files import (
    blocks,
    checked_path,
    existing,
    read_whole,
    refuse_strange_links,
    regular,
    shown,
)

from .backups import suffix_of, write_keeping

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


EDIT_BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of an editable file, which is in memory twice."""

DIFF_LINES_MAX = 200_000
"""Maximum lines of a diff; comparing more would take minutes."""

BINARY_LOOK_BYTES = 8192
"""A NUL in this many leading bytes marks a binary file."""

_BYTE_ORDERS = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    "utf-8-sig": ((codecs.BOM_UTF8, "utf-8"),),
}


class Encoding:
    """How the text was decoded; `mark` is the byte order mark to write back."""

    def __init__(self, name: str = "utf-8", errors: str = "surrogateescape", mark: bytes = b"") -> None:
        self.name = name
        self.errors = errors
        self.mark = mark

    def encode(self, text: str) -> bytes:
        """Encode the text. Raises CommandExecutionError if the encoding lacks a character."""
        try:
            return self.mark + text.encode(self.name, self.errors)
        except UnicodeEncodeError as error:
            missing = text[error.start : error.end][:20]
            raise CommandExecutionError(f"The encoding {self.name} cannot express {missing!r}.") from error


UTF8 = Encoding()


def read_text(
    path: str, encoding: str | None = None, *, binary_too: bool = False, to_edit: bool = False
) -> tuple[str, Encoding]:
    """Return the text of a file and its encoding. The default is UTF-8, with other bytes preserved.

    `to_edit` is for text that will be written back. Raises SaltInvocationError for a binary file (unless `encoding` or
    `binary_too` is given) and an unknown encoding, CommandExecutionError if the file is missing, too large, special or
    not in that encoding.
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
    """Whether the content has a NUL near its start."""
    return b"\0" in data[:BINARY_LOOK_BYTES]


def lines_of(text: str) -> list[str]:
    """Return the lines with their endings `\\n`, `\\r\\n` or `\\r`. Other separators belong to a line."""
    return list(io.StringIO(text, newline=""))


def ending(line: str) -> str:
    """Return the ending of a line, or ""."""
    return "\r\n" if line.endswith("\r\n") else line[-1:] if line.endswith(("\n", "\r")) else ""


def ending_of(lines: Sequence[str]) -> str:
    """Return the line ending of a file: that of its first line, or the system's."""
    return (ending(lines[0]) if lines else "") or os.linesep


def diff(old: Iterable[str], new: Iterable[str], old_name: str = "", new_name: str = "") -> str:
    """Return a unified diff of two lists of lines; empty if equal. Bytes that are not UTF-8 are shown as Latin-1."""
    before, after = list(old), list(new)
    if before == after:
        return ""
    if len(before) + len(after) > DIFF_LINES_MAX:
        return f"(no diff of more than {DIFF_LINES_MAX} lines: {len(before)} became {len(after)})\n"
    from difflib import unified_diff

    compared = unified_diff([_legible(each) for each in before], [_legible(each) for each in after], old_name, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in compared)


def flags_of(flags: Any) -> re.RegexFlag:
    """Return the flags of a regular expression, given as a number, a name in Python's `re`, or a list of names.

    Raises CommandExecutionError.
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
    """Compile a regular expression. Raises SaltInvocationError."""
    wanted = flags_of(flags)
    try:
        return re.compile(as_text(pattern), wanted)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise SaltInvocationError(f"{pattern!r} is not a regular expression: {error}.") from error


def as_text(value: Any) -> str:
    """Convert a value to text: decode bytes, format numbers."""
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


# --- One edit of a text file ---


class Edit:
    """An edit of a file: its path, its text and its encoding."""

    def __init__(self, path: str, old: str, way: Encoding) -> None:
        self.path = path
        self.old = old
        self.way = way

    def finished(
        self, new: str, *, suffix: str, dry: bool, show_diff: bool, keep_hard_links: bool = True
    ) -> str | bool:
        """Write the new text unless `dry`; return the diff, or with `show_diff` False whether the text differs.

        `suffix` is that of the backup, "" for none. Raises CommandExecutionError, also in a dry run when the encoding
        lacks a character.
        """
        content = self.way.encode(new)
        if new != self.old and not dry:
            write_keeping(self.path, content, suffix=suffix, keep_hard_links=keep_hard_links)
        return diff(lines_of(self.old), lines_of(new)) if show_diff else new != self.old


def begun(path: Any, encoding: str | None = None, *, to_edit: bool = True) -> Edit:
    """Begin an edit, or with `to_edit` False only read the file.

    Raises SaltInvocationError when there is no such file, and the errors of `read_text`.
    """
    place = checked_path(path)
    if regular(place) is None:
        raise SaltInvocationError(f"File not found: {shown(place)}")
    return Edit(place, *read_text(place, encoding, to_edit=to_edit))


# --- Regular expressions ---


def replace(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str, pattern: str, repl: str, count: int = 0, flags: int | str | list[str] = 8, bufsize: int | str = 1,
    append_if_not_found: bool = False, prepend_if_not_found: bool = False, not_found_content: str | None = None,
    backup: str | bool | None = ".bak", dry_run: bool = False, search_only: bool = False, show_changes: bool = True,
    ignore_if_missing: bool = False, preserve_inode: bool = True, backslash_literal: bool = False,
    encoding: str | None = None, test: bool = False,
) -> str | bool:  # fmt: skip
    """Replace the matches of a Python regular expression. Return a diff, empty without changes.

    ``pattern`` and ``repl`` are those of ``re.sub``; ``backslash_literal`` takes ``repl`` literally. ``count`` limits
    the replacements; 0 means all. ``flags`` is a number, a name such as ``IGNORECASE``, or a list of names; ``8`` is
    ``MULTILINE``. ``bufsize`` is a number or ``file`` and has no effect. Symbolic links are followed. Hard links stay
    linked to the file, or with ``preserve_inode=False`` to the backup. ``show_changes=False`` returns whether something
    changed, ``search_only`` whether the pattern matches. ``search_only``, ``dry_run`` and ``test`` change nothing.

    append_if_not_found, prepend_if_not_found
        Without a match, add ``not_found_content`` or else ``repl`` as separate lines, unless they exist.
    backup
        Suffix of a backup, ``False`` for none.
    ignore_if_missing
        Return False instead of an error if the file does not exist.
    encoding
        The encoding of the file, such as ``utf-16``. Without it, files with NULs are refused, and bytes that are not
        UTF-8 are preserved.

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
    return edit.finished(
        new, suffix=suffix, dry=dry_run or test, show_diff=show_changes, keep_hard_links=preserve_inode
    )


def search(
    path: str, pattern: str, flags: int | str | list[str] = 8, bufsize: int | str = 1, ignore_if_missing: bool = False,
    multiline: bool = False,
) -> bool:  # fmt: skip
    """Return whether a Python regular expression matches in a file. Arguments are those of ``file.replace``;
    ``multiline`` adds the flag ``MULTILINE``.

    CLI Example: ``saltlite '*' file.search /etc/crontab 'mymaintenance.sh'``
    """
    wanted = flags_of(flags) | re.MULTILINE if multiline else flags_of(flags)
    return bool(
        replace(
            path, pattern, "", flags=int(wanted), bufsize=bufsize, search_only=True, ignore_if_missing=ignore_if_missing
        )
    )


def contains(path: str, text: str) -> bool:
    """Return whether a file contains a text, after stripping it; False without a file.

    CLI Example: ``saltlite '*' file.contains /etc/crontab 'mymaintenance.sh'``
    """
    place, wanted = checked_path(path), as_text(text).strip().encode("utf-8", "surrogateescape")
    if regular(place) is None:
        return False
    kept = b""  # the end of the previous blocks, where the text may begin
    for block in blocks(place):
        kept += block
        if wanted in kept:
            return True
        kept = kept[len(kept) - len(wanted) + 1 :] if len(wanted) > 1 else b""
    return False


def contains_regex(path: str, regex: str, lchar: str = "") -> bool:
    """Return whether a regular expression matches a line of a file; False without a file.

    ``lchar`` is stripped from the start of each line first.

    CLI Example: ``saltlite '*' file.contains_regex /etc/crontab '^[^#].*maintenance'``
    """
    place, expression = checked_path(path), compiled(regex)
    if regular(place) is None:
        return False
    text, _ = read_text(place, binary_too=True)
    return any(expression.search(line.lstrip(lchar) if lchar else line) for line in lines_of(text))


def contains_glob(path: str, glob_expr: str) -> bool:
    """Return whether a glob matches the whole content of a file; False without a file.

    CLI Example: ``saltlite '*' file.contains_glob /etc/foobar '*cheese*'``
    """
    from fnmatch import translate

    place, expression = checked_path(path), re.compile(translate(as_text(glob_expr)))
    if regular(place) is None:
        return False
    text, _ = read_text(place, binary_too=True)
    return expression.match(text) is not None


def _refuse_odd(append: bool, prepend: bool, search_only: bool, bufsize: int | str, count: int) -> None:
    """Raise SaltInvocationError for invalid or conflicting options of `replace`."""
    if append and prepend:
        raise SaltInvocationError("Only one of append and prepend_if_not_found is permitted")
    if search_only and (append or prepend):
        raise SaltInvocationError("search_only cannot be used with append/prepend_if_not_found")
    if not (str(bufsize).isdecimal() or bufsize == "file"):
        raise SaltInvocationError(f"bufsize={bufsize!r} is neither a number nor `file`.")
    if not str(count).isdecimal():
        raise SaltInvocationError(f"count={count!r} is not a number of matches.")


class _Change:
    """A replacement, done `at_most` times (0: always)."""

    def __init__(self, expression: re.Pattern[str], template: str, at_most: int) -> None:
        self.expression = expression
        self.template = template
        self.at_most = at_most

    def applied(self, text: str) -> str | None:
        """Return the text with the matches replaced; None without a match. Raises SaltInvocationError."""
        try:
            new, found = self.expression.subn(self.template, text, self.at_most)
        except (re.error, IndexError, ValueError) as error:
            raise SaltInvocationError(
                f"repl={self.template!r} cannot replace a match: {error}; backslash_literal=True takes it literally."
            ) from error
        return new if found else None


def _with_line(text: str, repl: str, other: Any, expression: re.Pattern[str], *, first: bool) -> str:
    """Return the text with `other`, or else `repl`, added as lines at its start or end, unless it has them."""
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


# --- sed and grep ---

_SED_FLAGS = r"[gpiImM0-9]*"
"""Permitted flags of a substitution. `e` and `w` would run commands and write other files."""

_PYTHON_FLAGS = {"I": re.I, "L": re.L, "M": re.M, "S": re.S, "U": re.U, "X": re.X}


def sed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str, before: str, after: str, limit: str = "", backup: str | bool | None = ".bak", options: str = "-r -e",
    flags: str = "g", escape_all: bool = False, negate_match: bool = False, test: bool = False,
) -> dict[str, Any] | bool:  # fmt: skip
    """Substitute with the program sed. Return what ``cmd.run_all`` returns, or False without a file.

    ``before`` is a regular expression of sed, ``after`` the replacement. ``limit`` is an expression for the lines to
    process, or with ``negate_match`` to skip. ``escape_all`` takes all three literally. ``flags`` are those of ``s``
    except ``e`` and ``w``. ``backup`` is the suffix of a backup, ``False`` for none. ``test=True`` returns the new
    content in ``stdout``.

    ``file.replace`` is preferable.

    CLI Example: ``saltlite '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'``
    """
    refuse_strange_links(checked_path(path))
    place = os.path.realpath(checked_path(path))
    if regular(place) is None:
        return False
    suffix = suffix_of(backup)
    if not re.fullmatch(r"[\w.~-]*", suffix):
        raise SaltInvocationError(f"backup={suffix!r} cannot be the end of a file name that sed makes.")
    aim = f"/{_expression(limit, escape_all)}/ " if limit else ""
    script = (
        f"{aim}{'!' if negate_match else ''}"
        f"s/{_expression(before, escape_all)}/{_replacement(after, escape_all)}/{_checked_flags(flags)}"
    )
    in_place = [] if test else [f"-i{suffix}"]
    done: dict[str, Any] = run_needed(
        __salt__["cmd.run_all"], ["sed", *in_place, *options.split(), script, "--", place]
    )
    return done


def sed_contains(path: str, text: str, limit: str = "", flags: str = "g") -> bool:
    """Return whether sed finds a regular expression in a line of a file; False without a file.

    CLI Example: ``saltlite '*' file.sed_contains /etc/crontab 'mymaintenance.sh'``
    """
    place = os.path.realpath(checked_path(path))
    if regular(place) is None:
        return False
    aim = f"/{_expression(limit, False)}/ " if limit else ""
    script = f"{aim}s/{_expression(text, False)}/$/p{_checked_flags(flags)}"
    done = run_needed(__salt__["cmd.run_all"], ["sed", "-n", "-r", "-e", script, "--", place], ignore_retcode=True)
    if done["retcode"]:
        raise CommandExecutionError(f"sed failed: {done['stderr']}")
    return bool(done["stdout"])


def psed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str, before: str, after: str, limit: str = "", backup: str | bool | None = ".bak", flags: str = "gMS",
    escape_all: bool = False, multi: bool = False, test: bool = False,
) -> None:  # fmt: skip
    """Substitute like ``file.sed``, with Python's regular expressions and without a program.

    ``flags`` are letters: ``g`` replaces all matches instead of the first, ``I`` ignores case, ``M`` makes ``^`` and
    ``$`` match at every line, ``S`` makes ``.`` match line breaks, ``X`` permits white space in the expression, ``U``
    is always on. Lines are processed together, or with ``limit`` one by one; ``multi`` processes them together if
    ``limit`` matches anywhere. ``test=True`` only checks the arguments.

    ``file.replace`` is preferable.

    CLI Example: ``saltlite '*' file.psed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'``
    """
    place, suffix = checked_path(path), suffix_of(backup)
    unknown = sorted(set(flags) - {"g", *_PYTHON_FLAGS})
    if unknown:
        raise SaltInvocationError(f"flags={flags!r}: {', '.join(unknown)} is not one of g, I, L, M, S, U, X.")
    wanted = re.RegexFlag(0)
    for letter in set(flags) - {"g"}:
        wanted |= _PYTHON_FLAGS[letter]
    expression = compiled(re.escape(as_text(before)) if escape_all else before, wanted)
    only = compiled(re.escape(as_text(limit)) if escape_all else limit) if limit else None
    old, way = read_text(place, to_edit=True)
    count = 0 if "g" in flags else 1
    parts = [old] if only is None or multi else lines_of(old)
    try:
        new = "".join(
            expression.sub(as_text(after), part, count=count) if only is None or only.search(part) else part
            for part in parts
        )
    except (re.error, IndexError) as error:
        raise SaltInvocationError(f"after={after!r} cannot replace a match: {error}.") from error
    if new != old and not test:
        write_keeping(place, way.encode(new), suffix=suffix)


def grep(path: str, pattern: str, *opts: str) -> dict[str, Any]:
    """Search with the program grep. Return what ``cmd.run_all`` returns; the return code is 1 without a match.

    ``path`` may be a glob. Options are given one by one, after ``--`` on the command line.

    CLI Example::

        saltlite '*' file.grep /etc/passwd nobody
        saltlite '*' file.grep '/etc/sysconfig/network-scripts/*' ipaddr -- -i -l
    """
    from glob import glob

    place = os.path.abspath(checked_path(path))
    options = [as_text(each) for each in opts]
    for option in options:
        if len(option.split()) != 1:
            raise SaltInvocationError(
                "Passing multiple command line arguments in a single string is not supported, please pass the "
                f"following arguments separately: {option}"
            )
    # grep would wait for a pipe.
    found = [each for each in sorted(glob(place)) if os.path.isfile(each) or os.path.isdir(each)]
    if not found:
        regular(place)
    done: dict[str, Any] = run_needed(
        __salt__["cmd.run_all"], ["grep", *options, "-e", as_text(pattern), "--", *(found or [place])]
    )
    return done


def _checked_flags(flags: Any) -> str:
    if not re.fullmatch(_SED_FLAGS, str(flags)):
        raise SaltInvocationError(f"flags={flags!r} holds more than the flags g, p, i, I, m, M and a number.")
    return str(flags)


def _expression(value: Any, literally: bool) -> str:
    """Return a regular expression between the slashes of a sed command."""
    text = _without_nul(value)
    if literally:
        text = re.sub(r"[][\\^.$()|*+?{}]", r"\\\g<0>", text)
    return _slashes(text).replace("\n", "\\n")


def _replacement(value: Any, literally: bool) -> str:
    text = _without_nul(value)
    if literally:
        text = re.sub(r"[\\&]", r"\\\g<0>", text)
    return _slashes(text).replace("\n", "\\\n")


def _slashes(text: str) -> str:
    """Escape the slashes that are not escaped."""
    return re.sub(r"(\\.)|/", lambda found: found[1] or "\\/", text, flags=re.DOTALL)


def _without_nul(value: Any) -> str:
    text = as_text(value)
    if "\0" in text:
        raise SaltInvocationError(f"{text!r} holds a NUL, and no program takes one.")
    return text
