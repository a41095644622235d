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
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
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


# --- One edit of a text file ---


class Edit(NamedTuple):
    """A file that is being edited: its path, its text, and the way back to bytes."""

    path: str
    old: str
    way: Encoding

    def finished(self, new: str, *, suffix: str, dry: bool, told: bool, keep_hard_links: bool = True) -> str | bool:
        """Write the new text, unless `dry`; the diff, or without `told` whether there is a difference.

        `suffix` is of the copy of the old file, "" for none. Raises CommandExecutionError; a dry edit does, too, when
        the encoding of the file cannot express the text.
        """
        content = self.way.encode(new)
        if new != self.old and not dry:
            write_keeping(self.path, content, suffix=suffix, keep_hard_links=keep_hard_links)
        return diff(lines_of(self.old), lines_of(new)) if told else new != self.old


def begun(path: Any, encoding: str | None = None, *, to_edit: bool = True) -> Edit:
    """Begin to edit a file, or with `to_edit` False only look at it.

    Raises SaltInvocationError when there is none, and what `read_text` raises.
    """
    place = checked_path(path)
    if regular(place) is None:
        raise SaltInvocationError(f"File not found: {shown(place)}")
    return Edit(place, *read_text(place, encoding, to_edit=to_edit))


# --- Regular expressions ---


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
    """Replace what a regular expression of Python matches: a diff of the changes, an empty text for none.

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
    """Whether a regular expression of Python matches somewhere in a file. Arguments are those of ``file.replace``;
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
    """Whether a text, without white space around it, is somewhere in a file; False where there is none.

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
    """Whether a regular expression matches in a line of a file; False where there is no file.

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
    """Whether the whole content of a file matches a glob; False where there is no file.

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


# --- sed and grep ---

_SED_FLAGS = re.compile(r"[gpiImM0-9]*")
"""Flags of a substitution that only change the text; `e` and `w` would run commands and write other files."""

_PYTHON_FLAGS = {"I": re.I, "L": re.L, "M": re.M, "S": re.S, "U": re.U, "X": re.X}


def sed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    before: str,
    after: str,
    limit: str = "",
    backup: str | bool | None = ".bak",
    options: str = "-r -e",
    flags: str = "g",
    escape_all: bool = False,
    negate_match: bool = False,
    test: bool = False,
) -> dict[str, Any] | bool:
    """Substitute with the program sed: what it said, as ``cmd.run_all`` does, or False where there is no file.

    ``before`` is a regular expression of sed, ``after`` the text for it; ``limit`` another expression, for the lines
    that are looked at, or with ``negate_match`` for those that are not. ``escape_all`` takes all three literally.
    ``flags`` are those of sed's ``s`` but for ``e`` and ``w``. ``backup`` is what the name of a copy of the old file
    ends in, ``False`` for no copy. With ``test=True`` the content that the file would have stands in ``stdout``.

    Rather use ``file.replace``.

    CLI Example::

        saltlite '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
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
    done: dict[str, Any] = __salt__["cmd.run_all"](
        ["sed", *in_place, *options.split(), script, "--", place], python_shell=False
    )
    return done


def sed_contains(path: str, text: str, limit: str = "", flags: str = "g") -> bool:
    """Whether sed finds a regular expression in a line of a file; False where there is none.

    CLI Example::

        saltlite '*' file.sed_contains /etc/crontab 'mymaintenance.sh'
    """
    place = os.path.realpath(checked_path(path))
    if regular(place) is None:
        return False
    aim = f"/{_expression(limit, False)}/ " if limit else ""
    script = f"{aim}s/{_expression(text, False)}/$/p{_checked_flags(flags)}"
    done = __salt__["cmd.run_all"](
        ["sed", "-n", "-r", "-e", script, "--", place], python_shell=False, ignore_retcode=True
    )
    if done["retcode"]:
        raise CommandExecutionError(f"sed failed: {done['stderr']}")
    return bool(done["stdout"])


def psed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    before: str,
    after: str,
    limit: str = "",
    backup: str | bool | None = ".bak",
    flags: str = "gMS",
    escape_all: bool = False,
    multi: bool = False,
    test: bool = False,
) -> None:
    """Substitute as ``file.sed`` does, with the regular expressions of Python and without a program.

    ``flags`` are letters: ``g`` replaces all matches instead of the first, ``I`` ignores case, ``M`` lets ``^`` and
    ``$`` match at every line, ``S`` lets ``.`` match line breaks, ``U`` is always so, ``X`` allows white space in the
    expression. Lines are looked at together, or with ``limit`` one by one; ``multi`` looks at all together even then,
    if ``limit`` matches anywhere. ``test=True`` checks the call, and changes nothing.

    Rather use ``file.replace``.

    CLI Example::

        saltlite '*' file.psed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    place, suffix = checked_path(path), suffix_of(backup)
    unknown = sorted(set(flags) - {"g", *_PYTHON_FLAGS})
    if unknown:
        raise SaltInvocationError(f"flags={flags!r}: {', '.join(unknown)} is none of g, I, L, M, S, U, X.")
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
    """Search with the program grep: what it said, as ``cmd.run_all`` does; the return code is 1 where nothing matches.

    ``path`` may be a glob. Options are given one by one, behind ``--`` on the command line.

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
    # A pipe would keep grep waiting.
    found = [each for each in sorted(glob(place)) if os.path.isfile(each) or os.path.isdir(each)]
    if not found:
        regular(place)
    done: dict[str, Any] = __salt__["cmd.run_all"](
        ["grep", *options, "-e", as_text(pattern), "--", *(found or [place])], python_shell=False
    )
    return done


def _checked_flags(flags: Any) -> str:
    if not _SED_FLAGS.fullmatch(str(flags)):
        raise SaltInvocationError(f"flags={flags!r} holds more than the flags g, p, i, I, m, M and a number.")
    return str(flags)


def _expression(value: Any, literally: bool) -> str:
    """The regular expression between the slashes of a sed command."""
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
    """The text with the slashes escaped that are not."""
    return re.sub(r"(\\.)|/", lambda found: found[1] or "\\/", text, flags=re.DOTALL)


def _without_nul(value: Any) -> str:
    text = as_text(value)
    if "\0" in text:
        raise SaltInvocationError(f"{text!r} holds a NUL, and no program takes one.")
    return text
